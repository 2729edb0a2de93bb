"""The paper's plot of heads: layers across, a measure up, a dot for each head, a line of means."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import altair as alt
import pandas as pd

from headscope.report.figures.figure import GREY
from headscope.report.figures.marks import HEAD, INTERVAL, mark_data, name_and_interval, number

__all__ = ["LayerDots", "layer_axis"]

PANELS_A_ROW = 3
MANY_LAYERS = 13  # from here on not every layer has its number


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

    def draw(self, table: pd.DataFrame) -> alt.TopLevelMixin:
        """A dot for each head and a line through the layers' means."""
        known = table[table[self.value].notna()]
        called = known.assign(split=known[self.split].map(lambda v: self.words.get(v, v)))
        columns = ["layer", "head", "split", self.value, "low", "high", self.reference]
        order = _order(known[self.split], self.words)
        chart = alt.layer(*self._layers(order, int(known["layer"].max())))
        chart = name_and_interval(chart.properties(data=mark_data(called, columns)))
        if not self.by_panel:
            return chart.properties(width=420, height=240)
        panels = chart.properties(width=210, height=160).facet(
            facet=alt.Facet("split:N", title=None, sort=order, header=alt.Header(labelPadding=6)),
            columns=min(PANELS_A_ROW, len(order)),
            spacing=22,
        )
        return panels if self.share_scale else panels.resolve_scale(y="independent")

    def _layers(self, order: list[str], n_layers: int) -> list[alt.Chart]:
        across = layer_axis(n_layers)
        up = alt.Y(f"{self.value}:Q", title=self.title)
        shades = alt.Color(
            "split:N",
            sort=order,
            title=None,
            scale=alt.Scale(domain=order),
            legend=None if self.by_panel else alt.Legend(symbolType="circle", symbolOpacity=1),
        )
        said = [HEAD, alt.Tooltip("split:N", title=self.split), number(self.value, self.title)]
        dots = alt.Chart().mark_circle(size=34, cursor="pointer", opacity=0.55)
        means = alt.Chart().mark_line(strokeWidth=2.2)
        middle = alt.Y(f"mean({self.value}):Q", title=self.title)
        said = [*said, INTERVAL]
        drawn = [
            dots.encode(across, up, shades, tooltip=said),
            means.encode(across, middle, shades),
            _single_layer_mean().encode(across, middle, shades),
        ]
        return drawn if not self.reference else [self._reference(across), *drawn]

    def _reference(self, across: alt.X) -> alt.Chart:
        line = alt.Chart().mark_line(strokeDash=[5, 3], color=GREY, strokeWidth=1.5, point=False)
        return line.encode(
            across,
            alt.Y(f"mean({self.reference}):Q"),
            tooltip=[number(f"mean_{self.reference}", self.reference_title)],
        )


def layer_axis(n_layers: int) -> alt.X:
    """Layers from the first to the last, with room at both ends and whole numbers."""
    step = 1 if n_layers < MANY_LAYERS else 1 + (n_layers - 1) // 12
    shown = [layer for layer in range(1, n_layers + 1) if layer == 1 or layer % step == 0]
    return alt.X(
        "layer:Q",
        title="layer",
        scale=alt.Scale(domain=[0.5, n_layers + 0.5], nice=False),
        axis=alt.Axis(values=shown, format="d"),
    )


def _single_layer_mean() -> alt.Chart:
    """A short stroke at each mean: a line through one layer alone would not be seen."""
    return alt.Chart().mark_tick(orient="horizontal", size=12, thickness=2.2)


def _order(values: "pd.Series[Any]", words: Mapping[str, str]) -> list[str]:
    present = list(dict.fromkeys(values))
    known = [words[value] for value in words if value in present]
    return known + [value for value in present if value not in words]
