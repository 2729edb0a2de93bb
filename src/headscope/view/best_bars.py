"""Tables of best scores: cut by corpus, and drawn as bars beside what they are compared with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import altair as alt
import pandas as pd

from headscope.view.card import CORPUS_LABELS, name_corpus, rows_of
from headscope.view.figure import (
    COLOURS,
    GREY,
    HEAD,
    INTERVAL,
    TEXT,
    Chart,
    calculate,
    mark_data,
    name_and_interval,
    number,
)
from headscope.view.numbers import is_agreed
from headscope.view.table import Column

__all__ = ["IN_BRACKETS", "BestBars", "corpus_columns", "split_corpora"]

BAR, ON_ALL = "#A6CEEB", COLOURS[0]
TICKS = (COLOURS[1], COLOURS[2], COLOURS[3])
STEP = 19
ALL = "on all data, as in the paper"
PERCENT = ".1%"
IN_BRACKETS = "A head in brackets was chosen in under half of the folds; its bar includes others."


def split_corpora(best: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """The rows of each corpus and window, with its name; "" where there is but one."""
    if best.empty:
        return []
    labels = [label for label in CORPUS_LABELS if label in best]
    parts = [part for _, part in best.groupby(labels, sort=False)] if labels else [best]
    return [(name_corpus(next(rows_of(part))).removeprefix(" in "), part) for part in parts]


def corpus_columns(best: pd.DataFrame) -> list[Column]:
    """The columns that tell the rows of several corpora and windows apart."""

    def column(label: str) -> Column:
        return Column(label, lambda row: str(row[label]))

    return [column(label) for label in CORPUS_LABELS if label in best]


@dataclass(frozen=True)
class BestBars:
    """How a table of scores is drawn: a line for each label, in the table's order."""

    label: str
    value: str
    title: str
    bar: str  # what a bar is, for the legend
    ticks: Mapping[str, str]  # what it is compared with: columns, and what they are called
    ends: tuple[str, str] = ("low", "high")  # the columns of the interval
    on_all: str = ""  # the column of the score on the data that the choice was made on
    panel: str = ""
    said: Sequence[alt.Tooltip] = ()
    carried: Sequence[str] = ()
    has_heads: bool = True  # every bar is a head, named at its end

    def draw(self, table: pd.DataFrame) -> Chart:
        """The bars; where there is a column of panels, one for each of its values."""
        table = table.assign(low=table[self.ends[0]], high=table[self.ends[1]])
        columns = [self.label, self.value, "low", "high", self.on_all, self.panel, *self.ticks]
        if self.has_heads:
            columns += ["layer", "head", "agreed"]
            table = table.assign(agreed=is_agreed(table))
        n_lines = table.groupby(self.panel)[self.label].size().max() if self.panel else len(table)
        data = mark_data(table, [*columns, *self.carried])
        chart = alt.layer(*self._layers(), data=data, width=330, height=STEP * int(n_lines))
        chart = calculate(name_and_interval(chart, PERCENT), **self._in_words())
        if not self.panel:
            return chart
        order = list(dict.fromkeys(table[self.panel]))
        panels = chart.facet(
            facet=alt.Facet(f"{self.panel}:N", title=None, sort=order), columns=2, spacing=24
        )
        own = {"y": "independent"}
        panels.resolve = alt.Resolve(scale=own, axis={**own, "x": "independent"})
        return panels

    def _layers(self) -> list[Chart]:
        axis = alt.Axis(ticks=False, domain=False, labelPadding=6)
        down = alt.Y(f"{self.label}:N", sort=None, title=None, axis=axis)
        base = alt.Chart()
        bar = base.mark_bar(height=11, cursor="pointer" if self.has_heads else "default")
        tick = base.mark_tick(thickness=2.6, size=15, opacity=1)
        diamond = base.mark_point(shape="diamond", filled=True, size=42, opacity=1)
        interval = (
            base.transform_filter("isValid(datum.low)")
            .mark_rule(color=GREY, strokeWidth=1.2)  # of the bar, so not in the diamond's colour
            .encode(self._across("low"), down, x2="high:Q")
        )
        colour, tooltip = self._colour(), self._tooltip()

        def mark(chart: Chart, column: str, series: str) -> Chart:
            chart = chart.transform_calculate(series=f"'{series}'")  # our own words: no quotes
            return chart.encode(self._across(column), down, colour, tooltip=tooltip)

        layers = [mark(bar, self.value, self.bar), interval]
        layers += [mark(tick, column, series) for column, series in self.ticks.items()]
        layers += [mark(diamond, self.on_all, ALL)] if self.on_all else []
        if self.has_heads:  # named in a column of their own
            text = base.mark_text(align="left", dx=8, fontSize=10.5, color=TEXT)
            called = "datum.agreed ? datum.name : '(' + datum.name + ')'"
            text = text.transform_calculate(called=called)
            layers.append(text.encode(down, x=alt.value("width"), text="called:N"))
        return layers

    def _across(self, column: str) -> alt.X:
        axis = alt.Axis(
            format="%", tickCount=5, grid=True, gridColor=GREY, gridOpacity=0.25, labelFlush=False
        )
        return alt.X(f"{column}:Q", title=self.title, scale=alt.Scale(domain=[0, 1]), axis=axis)

    def _tooltip(self) -> list[alt.Tooltip]:
        return [
            alt.Tooltip(f"{self.label}:N", title=self.label.replace("_", " ")),
            *([HEAD] if self.has_heads else []),
            *self.said,
            number(self.value, self.title, PERCENT),
            INTERVAL,
            *(alt.Tooltip(f"said_{c}:N", title=called) for c, called in self._compared().items()),
        ]

    def _compared(self) -> dict[str, str]:
        return ({self.on_all: ALL} if self.on_all else {}) | dict(self.ticks)

    def _in_words(self) -> dict[str, str]:
        """What bars are compared with, as text: a missing number would be said as 0."""
        return {
            f"said_{column}": f"isValid(datum.{column}) ? format(datum.{column}, '{PERCENT}') : '-'"
            for column in self._compared()
        }

    def _colour(self) -> alt.Color:
        names = [self.bar, *([ALL] if self.on_all else []), *self.ticks.values()]
        colours = [BAR, *([ON_ALL] if self.on_all else []), *TICKS[: len(self.ticks)]]
        scale = alt.Scale(domain=names, range=colours)
        legend = alt.Legend(orient="bottom", title=None, symbolOpacity=1, symbolStrokeWidth=0)
        return alt.Color("series:N", scale=scale, legend=legend)
