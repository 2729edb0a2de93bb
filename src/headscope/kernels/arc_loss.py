"""The loss of choosing every word's head by a softmax over its candidates, with its gradient.

Sentences lie flat, one after the other. A sentence of n words has n rows of n + 2 cells: cell
(word, other) is attention between two words, cells (word, n) and (word, n + 1) are attention to the
opening and closing special tokens, which together stand for ROOT.
"""

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from headscope.kernels import njit

__all__ = ["N_KINDS", "arc_loss"]

N_KINDS = 4  # of weights: dependent-to-head, head-to-dependent, opening, closing
N_SPECIAL = 2  # cells of a row beside the words

Array = NDArray[np.float64]

# sums in any order, but infinity stays what it is
compiled = njit(nogil=True, fastmath={"reassoc", "contract", "nsz"})


@compiled
def arc_loss(
    cells: Float[NDArray[np.float32], "cell map"],
    weights: Float[Array, "kind map"],
    root: float,
    sizes: Int[NDArray[np.int64], " sentence"],
    heads: Int[NDArray[np.int64], " word"],
    slopes: Float[Array, "kind map"],
) -> tuple[float, float]:
    """The summed -ln p(head) over words, and its derivative by the constant `root` that ROOT has.

    Of a cell between words the first two kinds of weights count, of the cells for special tokens
    the third and the fourth. `heads` are places in the sentence, -1 for ROOT, less for words that
    are left out. The derivatives by the weights are added to `slopes`. All sums are in double
    precision.
    """
    loss, root_slope = 0.0, 0.0
    start, word = 0, 0
    for n in sizes:
        end = start + n * (n + N_SPECIAL)
        own_cells, own_heads = cells[start:end], heads[word : word + n]
        scores = np.zeros((n, n + 1))  # ROOT is the last candidate
        _score(own_cells, weights, root, scores)
        loss += _slope(scores, own_heads)
        root_slope += scores[:, n].sum()
        _add_slopes(own_cells, scores, slopes)
        start, word = end, word + n
    return loss, root_slope


@compiled
def _score(cells, weights, root, scores):  # type: ignore[no-untyped-def]
    """The score of each candidate of each word; minus infinity for the word itself."""
    n = len(scores)
    for word in range(n):
        row = cells[word * (n + N_SPECIAL) : (word + 1) * (n + N_SPECIAL)]
        for other in range(n):
            scores[word, other] += _dot(row[other], weights[0])
            scores[other, word] += _dot(row[other], weights[1])
        scores[word, n] = _dot(row[n], weights[2]) + _dot(row[n + 1], weights[3]) + root
    for word in range(n):
        scores[word, word] = -np.inf


@compiled
def _slope(scores, heads):  # type: ignore[no-untyped-def]
    """The loss of a sentence; in the place of its scores stand their derivatives afterwards."""
    n, loss = len(scores), 0.0
    for word in range(n):
        row, head = scores[word], heads[word]
        if head < -1:
            row[:] = 0.0
            continue
        gold = n if head == -1 else head
        highest, of_gold, total = row.max(), row[gold], 0.0
        for other in range(n + 1):
            row[other] = np.exp(row[other] - highest)
            total += row[other]
        loss += highest + np.log(total) - of_gold
        for other in range(n + 1):
            row[other] /= total
        row[gold] -= 1.0
    return loss


@compiled
def _add_slopes(cells, by_scores, slopes):  # type: ignore[no-untyped-def]
    n = len(by_scores)
    for word in range(n):
        row = cells[word * (n + N_SPECIAL) : (word + 1) * (n + N_SPECIAL)]
        for other in range(n):
            if other != word:
                _add(slopes[0], by_scores[word, other], row[other])
                _add(slopes[1], by_scores[other, word], row[other])
        _add(slopes[2], by_scores[word, n], row[n])
        _add(slopes[3], by_scores[word, n], row[n + 1])


@compiled
def _dot(cell, weights):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(len(cell)):
        total += cell[i] * weights[i]
    return total


@compiled
def _add(target, factor, source):  # type: ignore[no-untyped-def]
    """A loop with one target: what the compiler can do several numbers at a time."""
    for i in range(len(source)):
        target[i] += factor * source[i]
