"""One hidden layer over pairs of words, with its gradient; no array of pairs by units is made."""

import numba
import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

__all__ = ["pair_scores", "pair_slopes"]

Array = NDArray[np.float32]

compiled = numba.njit(cache=True, nogil=True, fastmath=True)


@compiled
def pair_scores(
    words: Float[Array, "sentence word unit"],
    candidates: Float[Array, "sentence candidate unit"],
    offsets: Float[Array, "offset unit"],
    out: Float[Array, " unit"],
    sizes: Int[NDArray[np.int64], " sentence"],
    scores: Float[Array, "sentence word candidate"],
) -> None:
    """Fill in the sum over units of out * relu(word + candidate + offset).

    The last candidate is ROOT. Row `n + other - word` of `offsets` is for a candidate at that
    distance, where n words are the longest sentence; the last row is for ROOT.
    """
    n = words.shape[1]
    for s in range(len(sizes)):
        for word in range(sizes[s]):
            own = words[s, word]
            for other in range(n + 1):
                if other == word or (sizes[s] <= other < n):
                    continue
                there = candidates[s, other]
                apart = offsets[2 * n if other == n else n + other - word]
                total = np.float32(0.0)
                for unit in range(len(out)):
                    value = own[unit] + there[unit] + apart[unit]
                    total += out[unit] * max(value, np.float32(0.0))
                scores[s, word, other] = total


@compiled
def pair_slopes(
    words: Float[Array, "sentence word unit"],
    candidates: Float[Array, "sentence candidate unit"],
    offsets: Float[Array, "offset unit"],
    out: Float[Array, " unit"],
    sizes: Int[NDArray[np.int64], " sentence"],
    by_scores: Float[Array, "sentence word candidate"],
    by_words: Float[Array, "sentence word unit"],
    by_candidates: Float[Array, "sentence candidate unit"],
    by_offsets: Float[Array, "offset unit"],
    by_out: Float[Array, " unit"],
) -> None:
    """Add the derivatives by what `pair_scores` takes, given those by the scores."""
    n = words.shape[1]
    for s in range(len(sizes)):
        for word in range(sizes[s]):
            own, by_own = words[s, word], by_words[s, word]
            for other in range(n + 1):
                slope = by_scores[s, word, other]
                if other == word or (sizes[s] <= other < n) or slope == 0:
                    continue
                row = 2 * n if other == n else n + other - word
                there, by_there = candidates[s, other], by_candidates[s, other]
                apart, by_apart = offsets[row], by_offsets[row]
                for unit in range(len(out)):
                    value = own[unit] + there[unit] + apart[unit]
                    is_on = np.float32(value > 0)
                    by_out[unit] += slope * value * is_on
                    step = slope * out[unit] * is_on
                    by_own[unit] += step
                    by_there[unit] += step
                    by_apart[unit] += step
