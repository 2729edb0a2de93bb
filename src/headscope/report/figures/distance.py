"""How far every two heads are apart: a matrix in the dendrogram's order, and the dendrogram."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headscope.report.figures.dendrogram import draw_dendrogram
from headscope.report.figures.figure import Drawing, Figure, Tables
from headscope.report.figures.matrix import draw_cells, draw_image

__all__ = ["DENDROGRAM", "DISTANCE_MATRIX", "ordered_matrix"]

MOST_CELLS = 200 * 200  # with more a browser takes seconds to draw them


def draw_matrix(tables: Tables) -> Drawing:
    """A cell for every two heads, or, where there are very many, one image."""
    order = tables["layout"].sort_values("place")[["layer", "head"]].reset_index(drop=True)
    matrix = ordered_matrix(tables["distance"], order)
    draw = draw_cells if matrix.size <= MOST_CELLS else draw_image
    return draw(matrix, order)


def ordered_matrix(distance: pd.DataFrame, order: pd.DataFrame) -> NDArray[np.float64]:
    """The divergences as a square, rows and columns in this order of heads; 0 on the diagonal."""
    places = pd.MultiIndex.from_frame(order)
    first, second = (
        places.get_indexer(pd.MultiIndex.from_frame(distance[[f"layer_{end}", f"head_{end}"]]))
        for end in "ab"
    )
    matrix = np.zeros((len(order), len(order)))  # [head, head]
    matrix[first, second] = matrix[second, first] = distance["divergence"]
    return matrix


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
