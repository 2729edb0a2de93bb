"""A square of heads by heads in colours: as cells that say their number, or as one image."""

import altair as alt
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headscope.report.figures.figure import SEQUENTIAL, Drawing
from headscope.report.figures.marks import mark_data
from headscope.report.figures.raster import image_address

__all__ = ["draw_cells", "draw_image"]

SIDE = 460
THOUSANDTHS = 1000
OVERLAP = 1.1  # of cells, the next one over the last: else seams show between them
TITLE, VALUE = "heads, alike ones side by side", "divergence (nats)"
BARE = alt.Axis(labels=False, ticks=False, domain=False)
HEAD = alt.Tooltip("name:N", title="head")


def draw_cells(matrix: NDArray[np.float64], order: pd.DataFrame) -> Drawing:
    """A mark for each cell.

    The values stand in the chart as one list of whole thousandths, and rows and columns are
    counted off where it is drawn: written out, each would take a hundred bytes.
    """
    n_heads = len(order)
    cells = np.rint(THOUSANDTHS * matrix).astype(int).ravel().tolist()
    names = mark_data(order.assign(place=range(n_heads)), ["place", "layer", "head"])
    numbered = (
        alt.Chart(alt.InlineData(values=cells))
        .transform_window(count="row_number()")
        .transform_calculate(
            divergence=f"datum.data / {THOUSANDTHS}",
            row=f"floor((datum.count - 1) / {n_heads})",
            column=f"(datum.count - 1) % {n_heads}",
            right=f"min((datum.count - 1) % {n_heads} + {OVERLAP}, {n_heads})",
        )
    )
    other: list[str | alt.FieldName] = ["other_layer", "other_head"]
    named = (
        numbered.transform_lookup("row", alt.LookupData(names, "place", ["layer", "head"]))
        .transform_lookup("column", alt.LookupData(names, "place", ["layer", "head"]), as_=other)
        .transform_calculate(other="datum.other_layer + '-' + datum.other_head")
    )
    number = alt.Tooltip("divergence:Q", title=VALUE, format=".3f")
    return _rows(named, n_heads, OVERLAP).encode(
        alt.X("column:Q", scale=_scale(n_heads), axis=BARE, title=TITLE),
        alt.X2("right"),
        _colour(float(matrix.max())),
        tooltip=[HEAD, alt.Tooltip("other:N", title="and head"), number],
    )


def draw_image(matrix: NDArray[np.float64], order: pd.DataFrame) -> Drawing:
    """One image, and over it a strip for each row, unseen, that says and is the head."""
    n_heads, most = len(order), float(matrix.max())
    image = alt.Chart(alt.InlineData(values=[{}])).mark_image(
        url=image_address(matrix, most),
        width=SIDE,
        height=SIDE,
        align="left",
        baseline="top",
        aspect=False,
        aria=False,
    )
    rows = order.assign(row=range(n_heads), divergence=0)
    data = mark_data(rows, ["row", "layer", "head", "divergence"])
    strips = _rows(alt.Chart(data), n_heads, 1).encode(
        _colour(most), opacity=alt.value(0), tooltip=[HEAD]
    )
    placed = image.encode(x=alt.value(0), y=alt.value(0))
    return alt.layer(placed, strips).properties(width=SIDE, height=SIDE)


def _rows(chart: Drawing, n_heads: int, height: float) -> Drawing:
    """Marks in their rows, from the top down, that carry the head's name."""
    named = chart.transform_calculate(
        name="datum.layer + '-' + datum.head", below=f"min(datum.row + {height}, {n_heads})"
    )
    marks = named.mark_rect(cursor="pointer", strokeWidth=0, aria=False)
    down = alt.Y("row:Q", scale=_scale(n_heads, reverse=True), axis=BARE, title=TITLE)
    return marks.encode(down, alt.Y2("below")).properties(width=SIDE, height=SIDE)


def _scale(n_heads: int, reverse: bool = False) -> alt.Scale:
    return alt.Scale(domain=[0, n_heads], nice=False, reverse=reverse)


def _colour(most: float) -> alt.Color:
    return alt.Color(
        "divergence:Q",
        title=VALUE,
        scale=alt.Scale(scheme=SEQUENTIAL, reverse=True, nice=False, domain=[0, most]),
        legend=alt.Legend(gradientLength=140, gradientOpacity=1, tickCount=5),
    )
