"""How many arcs that were moved to random places each head finds."""

from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from headscope.kernels import njit

__all__ = ["count_moved"]


@njit()
def count_moved(
    predicted: Int[NDArray[np.int16], "row cell"],
    rows: Int[NDArray[np.int64], "arc draw"],
    heads: Int[NDArray[np.int16], "arc draw"],
    arcs: Int[NDArray[np.int64], " member"],
    relations: Int[NDArray[np.int64], " member"],
    counts: Float[NDArray[np.float32], "relation draw cell"],
) -> Any:
    """Add the arcs found by each cell (a head and direction) to `counts`.

    `predicted[row]` is what a word predicts by each cell; an arc of a draw is found where it is the
    arc's head. Members are the arcs of each relation.
    """
    n_draws, n_cells = rows.shape[1], predicted.shape[1]
    for member in range(len(arcs)):
        arc = arcs[member]
        for draw in range(n_draws):
            own, head = predicted[rows[arc, draw]], heads[arc, draw]
            into = counts[relations[member], draw]
            for cell in range(n_cells):
                into[cell] += own[cell] == head
