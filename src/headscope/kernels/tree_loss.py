"""How far squared distances and lengths of placed words are from the arcs of a tree, with the
gradient; no array of pairs by ranks is made."""

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from headscope.kernels import njit

__all__ = ["tree_losses"]

Array = NDArray[np.float32]
Placed = Float[Array, "seed sentence word rank"]

compiled = njit(nogil=True, fastmath=True)


@compiled
def tree_losses(
    placed: Placed,
    raised: Placed,
    distances: Float[Array, "sentence word other"],
    depths: Float[Array, "sentence word"],
    sizes: Int[NDArray[np.int64], " sentence"],
    losses: Float[Array, "seed sentence"],
    by_placed: Placed,
    by_raised: Placed,
) -> None:
    """Add to zeros: the mean of |squared distance - distance| over the pairs of a sentence (of what
    is placed), plus that of |squared length - depth| over its words (of what is raised); and the
    derivatives of this sum.

    Sentences of size 0 are left out.
    """
    n_seeds, rank = len(placed), placed.shape[3]
    for seed in range(n_seeds):
        for s in range(len(sizes)):
            n, total = sizes[s], np.float32(0.0)
            for word in range(n):
                for other in range(word):  # and the other way round: hence twice
                    error = -distances[s, word, other]
                    for i in range(rank):
                        error += (placed[seed, s, word, i] - placed[seed, s, other, i]) ** 2
                    weight = np.float32(2 / n**2)
                    total += weight * abs(error)
                    slope = 2 * weight * np.sign(error)
                    for i in range(rank):
                        apart = placed[seed, s, word, i] - placed[seed, s, other, i]
                        by_placed[seed, s, word, i] += slope * apart
                    for i in range(rank):
                        apart = placed[seed, s, word, i] - placed[seed, s, other, i]
                        by_placed[seed, s, other, i] -= slope * apart
                error = -depths[s, word]
                for i in range(rank):
                    error += raised[seed, s, word, i] ** 2
                weight = np.float32(1 / n)
                total += weight * abs(error)
                for i in range(rank):
                    slope = 2 * weight * np.sign(error)
                    by_raised[seed, s, word, i] += slope * raised[seed, s, word, i]
            losses[seed, s] += total
