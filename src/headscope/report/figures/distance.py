"""How far every two heads are apart: a matrix in the dendrogram's order, and the dendrogram."""

import altair as alt
import numpy as np
import pandas as pd

from headscope.report.figures.dendrogram import draw_dendrogram
from headscope.report.figures.figure import SEQUENTIAL, Drawing, Figure, Tables
from headscope.report.figures.marks import mark_data

__all__ = ["DENDROGRAM", "DISTANCE_MATRIX", "ordered_matrix"]

SIDE = 460
THOUSANDTHS = 1000
OVERLAP = 1.1  # of cells, the next one over the last: else seams show between them


def draw_matrix(tables: Tables) -> Drawing:
    """A cell for every two heads.

    The values stand in the chart as one list of whole thousandths, and rows and columns are
    counted off where it is drawn: written out, 384 heads would take 15 MB.
    """
    order = tables["layout"].sort_values("place")[["layer", "head"]].reset_index(drop=True)
    matrix = ordered_matrix(tables["distance"], order)
    n_heads = len(order)
    cells = np.rint(THOUSANDTHS * matrix).astype(int).ravel().tolist()
    names = mark_data(order.assign(place=range(n_heads)), ["place", "layer", "head"])
    chart = (
        alt.Chart(alt.InlineData(values=cells))
        .transform_window(count="row_number()")
        .transform_calculate(
            divergence=f"datum.data / {THOUSANDTHS}",
            row=f"floor((datum.count - 1) / {n_heads})",
            column=f"(datum.count - 1) % {n_heads}",
        )
        .transform_lookup("row", alt.LookupData(names, "place", ["layer", "head"]))
        .transform_lookup(
            "column",
            alt.LookupData(names, "place", ["layer", "head"]),
            as_=["other_layer", "other_head"],
        )
        .transform_calculate(
            name="datum.layer + '-' + datum.head",
            other="datum.other_layer + '-' + datum.other_head",
            right=f"min(datum.column + {OVERLAP}, {n_heads})",
            below=f"min(datum.row + {OVERLAP}, {n_heads})",
        )
        .mark_rect(cursor="pointer", strokeWidth=0, aria=False)
    )
    return _encode(chart, n_heads)


def ordered_matrix(
    distance: pd.DataFrame, order: pd.DataFrame
) -> "np.ndarray[tuple[int, int], np.dtype[np.float64]]":
    """The divergences as a square, rows and columns in this order of heads; 0 on the diagonal."""
    places = pd.MultiIndex.from_frame(order)
    first, second = (
        places.get_indexer(pd.MultiIndex.from_frame(distance[[f"layer_{end}", f"head_{end}"]]))
        for end in "ab"
    )
    matrix = np.zeros((len(order), len(order)))  # [head, head]
    matrix[first, second] = matrix[second, first] = distance["divergence"]
    return matrix


def _encode(chart: Drawing, n_heads: int) -> Drawing:
    scale = alt.Scale(domain=[0, n_heads], nice=False)
    down = alt.Scale(domain=[0, n_heads], nice=False, reverse=True)
    axis = alt.Axis(labels=False, ticks=False, domain=False)
    title = "heads, alike ones side by side"
    return chart.encode(
        alt.X("column:Q", scale=scale, axis=axis, title=title),
        alt.Y("row:Q", scale=down, axis=axis, title=title),
        alt.X2("right"),
        alt.Y2("below"),
        alt.Color(
            "divergence:Q",
            title="divergence (nats)",
            scale=alt.Scale(scheme=SEQUENTIAL, reverse=True, nice=False, zero=True),
            legend=alt.Legend(gradientLength=140, tickCount=5),
        ),
        tooltip=[
            alt.Tooltip("name:N", title="head"),
            alt.Tooltip("other:N", title="and head"),
            alt.Tooltip("divergence:Q", title="divergence (nats)", format=".3f"),
        ],
    ).properties(width=SIDE, height=SIDE)


DISTANCE_MATRIX = Figure(
    name="distance-matrix",
    title="How alike every two heads attend",
    caption=(
        "Every row and every column is a head, in the order of the dendrogram, which puts alike "
        "ones side by side; every cell is two heads. The darker, the more alike they attend: 0 "
        "nats is the same attention, 0.69 attention to different tokens. Dark squares along the "
        "diagonal are groups of heads that do the same."
    ),
    needs=("distance", "layout"),
    made_by="--text FILE",
    draw_tables=draw_matrix,
)

DENDROGRAM = Figure(
    name="dendrogram",
    title="Which heads belong together",
    caption=(
        "Every point at the foot is a head; the lower two heads or groups are joined, the more "
        "alike they attend. The height of a joint is the mean divergence between the two "
        "groups, in nats. Colours are what the heads attend to, as in the map of heads."
    ),
    needs=("dendrogram", "layout"),
    made_by="--text FILE",
    draw_tables=draw_dendrogram,
)
