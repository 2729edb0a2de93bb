"""How many gold arcs the spanning trees of attention find, for every head of a batch."""

from typing import Any

import numba
import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray

# Compiled in: spanning_tree.py 1107871b
from headscope.kernels import njit
from headscope.kernels.spanning_tree import maximum_arborescence, maximum_spanning_tree

__all__ = ["count_arcs"]


@njit(parallel=True)
def count_arcs(
    weights: Float[NDArray[Any], "example head word other"],
    places: Int[NDArray[np.int64], "example place"],
    gold: Int[NDArray[np.int64], "example place"],
    is_scored: Bool[NDArray[np.bool_], "example place"],
) -> Float[NDArray[np.float64], "example head score"]:
    """Arcs found by each kind of tree: undirected, by row, by column.

    Places are the words that take part, padded with -1.

    `gold[place]` is the place of a word's head, -1 for the root of the tree, less where the head
    takes no part; directed trees hang on the gold root, as attention has none of its own.
    """
    n_examples, n_heads = weights.shape[:2]
    found = np.zeros((n_examples, n_heads, 3))
    for task in numba.prange(n_examples * n_heads):
        example, head = task // n_heads, task % n_heads
        n = (places[example] >= 0).sum()
        if n < 2:
            continue
        scores = np.empty((n, n))
        root = 0
        for a in range(n):
            if gold[example, a] == -1:
                root = a
            for b in range(n):
                scores[a, b] = weights[example, head, places[example, a], places[example, b]]
        partner = maximum_spanning_tree(scores)
        by_row = maximum_arborescence(scores, root)
        by_column = maximum_arborescence(scores.T.copy(), root)
        for a in range(n):
            if is_scored[example, a]:
                b = gold[example, a]
                found[example, head, 0] += partner[a] == b or partner[b] == a
                found[example, head, 1] += by_row[a] == b
                found[example, head, 2] += by_column[a] == b
    return found
