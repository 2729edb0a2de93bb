"""The loss of choosing every word's head by a softmax over its candidates, with its gradient.

Sentences lie flat, one after the other. A sentence of n words has n rows of n + 2 cells: cell
(word, other) is attention between two words, cells (word, n) and (word, n + 1) are attention to the
opening and closing special tokens, which together stand for ROOT.
"""

import numba
import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

__all__ = ["N_KINDS", "arc_loss"]

N_KINDS = 4  # of weights: dependent-to-head, head-to-dependent, opening, closing
N_SPECIAL = 2  # cells of a row beside the words


@numba.njit(cache=True, nogil=True)
def arc_loss(
    scores: Float[NDArray[np.float64], "cell kind"],
    root: float,
    sizes: Int[NDArray[np.int64], " sentence"],
    heads: Int[NDArray[np.int64], " word"],
    slopes: Float[NDArray[np.float64], "cell kind"],
) -> tuple[float, float]:
    """The summed -ln p(head) over words, and its derivative by the score `root` that ROOT has.

    `scores[cell, kind]` is what each kind of weight makes of a cell; of a cell between words the
    first two count, of the cells for special tokens the third and the fourth. `heads` are places in
    the sentence, -1 for ROOT, less for words that are left out. `slopes` must be zeros and
    becomes the derivative by `scores`.
    """
    loss, root_slope = 0.0, 0.0
    start, word = 0, 0
    for n in sizes:
        width = n + N_SPECIAL
        row = np.empty(n + 1)
        for dependent in range(n):
            head = heads[word + dependent]
            if head < -1:
                continue
            first = start + dependent * width
            for other in range(n):
                turned = start + other * width + dependent
                row[other] = scores[first + other, 0] + scores[turned, 1]
            row[dependent] = -np.inf
            row[n] = scores[first + n, 2] + scores[first + n + 1, 3] + root
            highest = row.max()
            total = np.exp(row - highest).sum()
            gold = n if head == -1 else head
            loss += highest + np.log(total) - row[gold]
            for other in range(n + 1):
                slope = np.exp(row[other] - highest) / total - (other == gold)
                if other == n:
                    slopes[first + n, 2] = slope
                    slopes[first + n + 1, 3] = slope
                    root_slope += slope
                elif other != dependent:
                    slopes[first + other, 0] = slope
                    slopes[start + other * width + dependent, 1] = slope
        start += n * width
        word += n
    return loss, root_slope
