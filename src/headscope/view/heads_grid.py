"""A measure of every head as a grid of colours: layers down, heads across."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import pandas as pd

from headscope.data.table import Tables
from headscope.view.figure import (
    DIVERGING,
    GREY,
    HEAD,
    INTERVAL,
    SEQUENTIAL,
    Chart,
    Figure,
    mark_data,
    name_and_interval,
    number,
)

__all__ = ["HOW_TO_READ", "HeadsGrid", "grid_figure"]

HOW_TO_READ = "Each cell is a head. Rows: layers. Columns: heads."
LARGEST_CELL, SMALLEST_CELL, GRID_WIDTH = 22, 11, 260
PANELS_A_ROW = 3


@dataclass(frozen=True)
class HeadsGrid:
    """How a table of heads is drawn as a grid, for any table with layer, head and a value.

    A diverging scale is centred on 0: red above it, blue below.
    """

    value: str
    title: str
    diverging: bool = False
    panel: str = ""  # the column with a panel for each of its values
    panel_order: Sequence[str] = ()
    said: Sequence[alt.Tooltip] = ()  # further lines of the tooltip
    carried: Sequence[str] = ()  # further columns that these need

    def draw(self, table: pd.DataFrame) -> Chart:
        """A cell for each head; heads that were not measured stay empty."""
        known = table[table[self.value].notna()]
        columns = ["layer", "head", self.value, "low", "high", self.panel, *self.carried]
        n_layers, n_heads = int(known["layer"].max()), int(known["head"].max())
        cell = max(SMALLEST_CELL, min(LARGEST_CELL, GRID_WIDTH // n_heads))
        chart = self._cells(known, n_layers, n_heads).properties(
            width=cell * n_heads, height=cell * n_layers, data=mark_data(known, columns)
        )
        chart = name_and_interval(chart)
        if not self.panel:
            return chart
        order = list(self.panel_order) or list(dict.fromkeys(known[self.panel]))
        return chart.facet(
            facet=alt.Facet(f"{self.panel}:N", title=None, sort=order),
            columns=min(PANELS_A_ROW, known[self.panel].nunique()),
            spacing=24,
        )

    def _cells(self, table: pd.DataFrame, n_layers: int, n_heads: int) -> Chart:
        said = [HEAD, *self.said, number(self.value, self.title)]
        said += [INTERVAL] if "low" in table else []
        legend = alt.Legend(orient="bottom", gradientLength=150, tickCount=4)
        scale = self._scale(table)
        cells = alt.Chart().mark_rect(cursor="pointer", stroke=GREY, strokeWidth=0.2)
        return cells.encode(
            _axis(alt.X, "head", n_heads),
            _axis(alt.Y, "layer", n_layers),
            alt.Color(f"{self.value}:Q", title=self.title, scale=scale, legend=legend),
            tooltip=said,
        )

    def _scale(self, table: pd.DataFrame) -> alt.Scale:
        if not self.diverging:
            return alt.Scale(scheme=SEQUENTIAL, nice=False, zero=True)
        furthest = float(table[self.value].abs().max()) or 1.0
        domain = [-furthest, furthest]
        return alt.Scale(scheme=DIVERGING, reverse=True, domain=domain, domainMid=0, nice=False)


def _axis(channel: Any, field: str, n: int) -> Any:
    axis = alt.Axis(labelAngle=0, labelOverlap=True, ticks=False, domain=False, titlePadding=8)
    scale = alt.Scale(domain=list(range(1, n + 1)))
    return channel(f"{field}:O", title=field, scale=scale, axis=axis)


def grid_figure(
    name: str, table: str, select: Callable[[pd.DataFrame], pd.DataFrame], to: str, content: str
) -> Figure:
    """A figure of the attention that heads give to one thing: the rows that `select` chooses."""

    def draw(tables: Tables) -> Chart:
        return HeadsGrid("weight", "share of attention").draw(select(tables[table]))

    return Figure(
        name=name,
        title=f"Heads that attend to {to}",
        caption=f"{HOW_TO_READ} The darker, the more of its attention goes to {to}.",
        needs=(table,),
        made_by="--text FILE",
        draw_tables=draw,
        has_content=lambda tables: bool((select(tables[table])["weight"] > 0).any()),
        content=content,
        in_line=3,
    )
