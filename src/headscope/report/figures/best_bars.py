"""Bars with an interval, and what they are to be compared with as ticks on the same line."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import altair as alt
import pandas as pd

from headscope.report.figures.figure import COLOURS, GREY, TEXT, Drawing
from headscope.report.figures.marks import HEAD, INTERVAL, mark_data, name_and_interval, number

__all__ = ["BestBars"]

BAR, HELD_OUT = "#A6CEEB", COLOURS[0]
TICKS = (COLOURS[1], COLOURS[2], COLOURS[3])
STEP = 19
HELD = "held out"
PERCENT = ".1%"


@dataclass(frozen=True)
class BestBars:
    """How a table of scores is drawn: a line for each label, in the table's order."""

    label: str
    value: str
    title: str
    bar: str  # what a bar is, for the legend
    ticks: Mapping[str, str]  # what it is compared with: columns, and what they are called
    held_out: str = ""  # the column of the score on other data than the choice was made on
    panel: str = ""
    said: Sequence[alt.Tooltip] = ()
    carried: Sequence[str] = ()
    has_heads: bool = True  # every bar is a head, named at its end

    def draw(self, table: pd.DataFrame) -> Drawing:
        """The bars; where there is a column of panels, one for each of its values."""
        columns = [self.label, self.value, "low", "high", self.held_out, self.panel, *self.ticks]
        columns += ["layer", "head"] if self.has_heads else []
        n_lines = table.groupby(self.panel)[self.label].size().max() if self.panel else len(table)
        chart = alt.layer(*self._layers(table)).properties(
            width=330, height=STEP * int(n_lines), data=mark_data(table, [*columns, *self.carried])
        )
        chart = name_and_interval(chart, PERCENT).transform_calculate(**self._in_words())
        if not self.panel:
            return chart
        order = list(dict.fromkeys(table[self.panel]))
        panels = chart.facet(
            facet=alt.Facet(f"{self.panel}:N", title=None, sort=order), columns=2, spacing=24
        )
        return panels.resolve_scale(y="independent").resolve_axis(y="independent", x="independent")

    def _layers(self, table: pd.DataFrame) -> list[Drawing]:
        down = alt.Y(
            f"{self.label}:N",
            sort=None,
            title=None,
            axis=alt.Axis(ticks=False, domain=False, labelPadding=6),
        )
        series = self._series()
        said = self._said()
        base = alt.Chart()
        bars = base.mark_bar(height=11, cursor="pointer" if self.has_heads else "default")
        bars = _of_series(bars, self.bar)
        layers = [bars.encode(self._across(self.value), down, series, tooltip=said)]
        layers.append(
            base.transform_filter("isValid(datum.low)")
            .mark_rule(color=GREY, strokeWidth=1.2)  # of the bar, so not in the diamond's colour
            .encode(self._across("low"), down, x2="high:Q")
        )
        layers += [
            _of_series(base.mark_tick(thickness=2.6, size=15, opacity=1), called).encode(
                self._across(column), down, series, tooltip=said
            )
            for column, called in self.ticks.items()
        ]
        if self.held_out:
            points = base.mark_point(shape="diamond", filled=True, size=42, opacity=1)
            points = _of_series(points, HELD)
            layers.append(points.encode(self._across(self.held_out), down, series, tooltip=said))
        return [*layers, self._names(down)] if self.has_heads else layers

    def _names(self, down: alt.Y) -> Drawing:
        """The head of each bar, in a column of its own."""
        text = alt.Chart().mark_text(align="left", dx=8, fontSize=10.5, color=TEXT)
        return text.encode(down, x=alt.value("width"), text="name:N")

    def _across(self, column: str) -> alt.X:
        return alt.X(
            f"{column}:Q",
            title=self.title,
            scale=alt.Scale(domain=[0, 1]),
            axis=alt.Axis(
                format="%",
                tickCount=5,
                grid=True,
                gridColor=GREY,
                gridOpacity=0.25,
                labelFlush=False,
            ),
        )

    def _said(self) -> list[alt.Tooltip]:
        return [
            alt.Tooltip(f"{self.label}:N", title=self.label.replace("_", " ")),
            *([HEAD] if self.has_heads else []),
            *self.said,
            number(self.value, self.title, PERCENT),
            INTERVAL,
            *(alt.Tooltip(f"said_{c}:N", title=called) for c, called in self._compared().items()),
        ]

    def _compared(self) -> dict[str, str]:
        return ({self.held_out: HELD} if self.held_out else {}) | dict(self.ticks)

    def _in_words(self) -> dict[str, str]:
        """What bars are compared with, as text: a missing number would be said as 0."""
        return {
            f"said_{column}": f"isValid(datum.{column}) ? format(datum.{column}, '{PERCENT}') : '-'"
            for column in self._compared()
        }

    def _series(self) -> alt.Color:
        names = [self.bar, *([HELD] if self.held_out else []), *self.ticks.values()]
        colours = [BAR, *([HELD_OUT] if self.held_out else []), *TICKS[: len(self.ticks)]]
        scale = alt.Scale(domain=names, range=colours)
        legend = alt.Legend(orient="bottom", title=None, symbolOpacity=1, symbolStrokeWidth=0)
        return alt.Color("series:N", scale=scale, legend=legend)


def _of_series(chart: Drawing, name: str) -> Drawing:
    """The chart with its line of the legend; the names are our own and hold no quotes."""
    return chart.transform_calculate(series=f"'{name}'")
