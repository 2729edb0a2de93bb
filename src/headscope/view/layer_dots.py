"""The paper's plot of heads: layers across, a measure up, a dot for each head, a line of means."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import altair as alt
import pandas as pd

from headscope.view.figure import (
    GREY,
    HEAD,
    INTERVAL,
    TEXT,
    Chart,
    mark_data,
    name_and_interval,
    number,
)

__all__ = ["LayerDots", "how_to_read", "layer_axis"]

PANELS_A_ROW = 4
WIDTH, SPACING = 960, 22  # pixels: of a row of panels, and between them
DODGE = 0.14  # of a layer, between dots of different colours
NAME_WIDTH, NAME_HEIGHT = 0.12, 0.06  # of a panel: names nearer to each other would overlap
NAMED, OUTLYING = 3, 2.5  # heads of a panel, and standard deviations above its mean
MANY_LAYERS = 13  # from here on every fourth layer has its number


@dataclass(frozen=True)
class LayerDots:
    """How a table is drawn as dots: what goes up, what is told apart, and by panels or colours."""

    value: str
    title: str
    split: str  # the column whose values are told apart
    words: Mapping[str, str]  # what they are called, in their order; others come as they are
    by_panel: bool = True  # else by colour, in one panel
    reference: str = ""  # a column drawn as a dashed line: what the value would be by chance
    reference_title: str = ""
    share_scale: bool = True

    def draw(self, table: pd.DataFrame) -> Chart:
        """A dot for each head and a line through the layers' means."""
        known = table[table[self.value].notna()]
        called = known.assign(split=known[self.split].map(lambda v: self.words.get(v, v)))
        present = dict.fromkeys(known[self.split])
        order = [self.words[value] for value in self.words if value in present]
        order += [value for value in present if value not in self.words]
        places = called["split"].map({name: place for place, name in enumerate(order)})
        called = called.assign(beside=called["layer"] + DODGE * (places - (len(order) - 1) / 2))
        called = called.assign(label=_name_outliers(called, self.value))
        columns = ["layer", "head", "split", self.value, "low", "high", self.reference, "label"]
        columns += [] if self.by_panel else ["beside"]
        layers = sorted(set(known["layer"].astype(int).tolist()))
        in_row = len(order) if len(order) <= PANELS_A_ROW else 3
        width, height = (WIDTH // in_row - SPACING, 180) if self.by_panel else (520, 260)
        marks = self._layers(order, layers, any(called["label"]))
        chart = alt.layer(*marks, data=mark_data(called, columns), width=width, height=height)
        chart = name_and_interval(chart)
        if not self.by_panel:
            return chart
        panels = chart.facet(
            facet=alt.Facet("split:N", title=None, sort=order), columns=in_row, spacing=SPACING
        )
        # An axis of layers under each panel: a shared one would stand under empty places too.
        scale = {} if self.share_scale else {"scale": {"y": "independent"}}
        panels.resolve = alt.Resolve(axis={"x": "independent"}, **scale)
        return panels

    def _layers(self, order: list[str], layers: list[int], has_names: bool) -> list[Chart]:
        across = layer_axis(layers[-1])
        own_place = across if self.by_panel else layer_axis(layers[-1], "beside")
        up = alt.Y(f"{self.value}:Q", title=self.title)
        legend = alt.Legend(title=None, symbolType="circle", symbolOpacity=1)
        shades = alt.Color(
            "split:N",
            sort=order,
            title=self.split,  # read aloud with each dot
            scale=alt.Scale(domain=order),
            legend=None if self.by_panel else legend,
        )
        split = alt.Tooltip("split:N", title=self.split)
        said = [HEAD, split, number(self.value, self.title), INTERVAL]
        dots = alt.Chart().mark_circle(size=34, cursor="pointer", opacity=0.55)
        middle = alt.Y(f"mean({self.value}):Q", title=self.title)
        drawn = [
            _mean_mark(len(layers)).encode(across, middle, shades),
            dots.encode(own_place, up, shades, tooltip=said),  # on top, where they can be clicked
            *[self._names().encode(own_place, up, alt.Text("label:N"))] * has_names,
        ]
        return [*self._reference(across, layers[0]), *drawn] if self.reference else drawn

    def _names(self) -> alt.Chart:
        """The names of a few heads; in panels with own scales, none is left without data."""
        named = alt.Chart().transform_filter("datum.label") if self.share_scale else alt.Chart()
        marked: alt.Chart = named.mark_text(align="left", dx=5, fontSize=10, color=TEXT, aria=False)
        return marked

    def _reference(self, across: alt.X, lowest: int) -> list[Chart]:
        height = alt.Y(f"mean({self.reference}):Q", title=self.title)
        line = alt.Chart().mark_line(strokeDash=[5, 3], color=GREY, strokeWidth=1.5)
        name = (
            alt.Chart()
            .transform_filter(f"datum.layer == {lowest}")
            .mark_text(align="left", dx=-8, dy=-7, fontSize=10, color=TEXT)
        )
        called = alt.TextValue(self.reference_title)
        return [line.encode(across, height), name.encode(across, height, called)]


def _name_outliers(table: pd.DataFrame, value: str) -> list[str]:
    """The names of the highest heads of each panel that stand out from its mean; "" of others, and
    of those whose name would lie on that of a higher one."""
    of_panel = table.groupby("split", sort=False)[value]
    line = of_panel.transform("mean") + OUTLYING * of_panel.transform("std")
    is_named = (of_panel.rank(ascending=False, method="first") <= NAMED) & (table[value] > line)
    width, height = NAME_WIDTH * table["layer"].max(), NAME_HEIGHT * table[value].max()
    named: list[Any] = []
    for row in table[is_named].sort_values(value, ascending=False).itertuples():
        up = getattr(row, value)
        is_free = all(
            other.split != row.split
            or abs(other.layer - row.layer) > width
            or abs(getattr(other, value) - up) > height
            for other in named
        )
        named += [row] * is_free
    names = {row.Index: f"{row.layer:.0f}-{row.head:.0f}" for row in named}
    return [names.get(index, "") for index in table.index]


def how_to_read(value: str) -> str:
    """What a caption says of the dots."""
    return (
        f"Each dot is a head. x: layer. y: {value}. The line is the mean of the layer; the highest "
        "outliers have names."
    )


def layer_axis(n_layers: int, field: str = "layer") -> alt.X:
    """Layers from the first to the last, with room at both ends and whole numbers."""
    step = 1 if n_layers < MANY_LAYERS else 4
    shown = [layer for layer in range(1, n_layers + 1) if layer == 1 or layer % step == 0]
    return alt.X(
        f"{field}:Q",
        title="layer",
        scale=alt.Scale(domain=[0.5, n_layers + 0.5], nice=False),
        axis=alt.Axis(values=shown, format="d"),
    )


def _mean_mark(n_layers: int) -> Chart:
    """A line, or, where there is one layer and so nothing to connect, a short stroke."""
    if n_layers > 1:
        return alt.Chart().mark_line(strokeWidth=2.2)
    return alt.Chart().mark_tick(orient="horizontal", size=24, thickness=2.2, opacity=1)
