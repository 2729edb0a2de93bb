"""Scores of pairs of words, with their gradients; no array of pairs by features is made.

Sentences are padded; n words are the longest. What a probe has learned of words stands by seed and
word type: `types` says where each word has its own, `roots` where ROOT has. The last candidate is
ROOT.
"""

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from headscope.kernels import njit

__all__ = ["ROOT_TYPE", "pair_scores", "pair_slopes", "weigh_arcs", "weigh_slopes"]

ROOT_TYPE = 1  # where ROOT stands among types
Array = NDArray[np.float32]
Places = NDArray[np.int64]

compiled = njit(nogil=True, fastmath=True)


@compiled
def weigh_arcs(
    maps: Float[Array, "sentence word other map"],
    of_dependent: Float[Array, "seed type kind_map"],
    of_head: Float[Array, "seed type kind_map"],
    types: Int[Places, "sentence word"],
    roots: Int[Places, " sentence"],
    sizes: Int[Places, " sentence"],
    scores: Float[Array, "seed sentence word candidate"],
) -> None:
    """Add to zeros the attention between words, each head weighted by the two words.

    `maps[sentence, word, other]` is the attention of all heads; others n and n + 1 are the opening
    and the closing special token. Four kinds of weights stand side by side: dependent-to-head,
    head-to-dependent, opening, closing.
    """
    n, n_maps = maps.shape[1], maps.shape[3]
    for s in range(len(sizes)):
        for seed in range(len(of_dependent)):
            at_root = of_head[seed, roots[s]]
            for word in range(sizes[s]):
                own, as_head = of_dependent[seed, types[s, word]], of_head[seed, types[s, word]]
                for other in range(sizes[s]):
                    if other == word:
                        continue
                    cell, place = maps[s, word, other], types[s, other]
                    there, its_own = of_head[seed, place], of_dependent[seed, place]
                    back = slice(n_maps, 2 * n_maps)
                    scores[seed, s, word, other] += _weigh(cell, own[:n_maps], there[:n_maps])
                    scores[seed, s, other, word] += _weigh(cell, as_head[back], its_own[back])
                for special in range(2):
                    part = slice((2 + special) * n_maps, (3 + special) * n_maps)
                    cell = maps[s, word, n + special]
                    scores[seed, s, word, n] += _weigh(cell, own[part], at_root[part])


@compiled
def weigh_slopes(
    maps: Float[Array, "sentence word other map"],
    types: Int[Places, "sentence word"],
    roots: Int[Places, " sentence"],
    sizes: Int[Places, " sentence"],
    by_scores: Float[Array, "seed sentence word candidate"],
    by_dependent: Float[Array, "seed type kind_map"],
    by_head: Float[Array, "seed type kind_map"],
) -> None:
    """Add the derivatives by the weights that `weigh_arcs` takes, given those by the scores."""
    n, n_maps = maps.shape[1], maps.shape[3]
    for s in range(len(sizes)):
        for seed in range(len(by_scores)):
            at_root = by_head[seed, roots[s]]
            for word in range(sizes[s]):
                own, as_head = by_dependent[seed, types[s, word]], by_head[seed, types[s, word]]
                for other in range(sizes[s]):
                    if other == word:
                        continue
                    cell, place = maps[s, word, other], types[s, other]
                    there, its_own = by_head[seed, place], by_dependent[seed, place]
                    ahead = by_scores[seed, s, word, other]
                    back = by_scores[seed, s, other, word]
                    _add(own[:n_maps], ahead, cell)
                    _add(there[:n_maps], ahead, cell)
                    _add(as_head[n_maps : 2 * n_maps], back, cell)
                    _add(its_own[n_maps : 2 * n_maps], back, cell)
                slope = by_scores[seed, s, word, n]
                for special in range(2):
                    cell, first = maps[s, word, n + special], (2 + special) * n_maps
                    _add(own[first : first + n_maps], slope, cell)
                    _add(at_root[first : first + n_maps], slope, cell)


@compiled
def pair_scores(
    words: Float[Array, "seed type unit"],
    candidates: Float[Array, "seed type unit"],
    offsets: Float[Array, "seed offset unit"],
    out: Float[Array, "seed unit"],
    types: Int[Places, "sentence word"],
    sizes: Int[Places, " sentence"],
    scores: Float[Array, "seed sentence word candidate"],
) -> None:
    """Fill in one hidden layer: the sum over units of out * relu(word + candidate + offset).

    Row `n + other - word` of `offsets` is for a candidate at that distance, the last row for ROOT.
    """
    n, n_units = types.shape[1], out.shape[1]
    for s in range(len(sizes)):
        for seed in range(len(out)):
            end = out[seed]
            for word in range(sizes[s]):
                own = words[seed, types[s, word]]
                for other in range(n + 1):
                    if other == word or (sizes[s] <= other < n):
                        continue
                    there = candidates[seed, ROOT_TYPE if other == n else types[s, other]]
                    apart = offsets[seed, 2 * n if other == n else n + other - word]
                    total = np.float32(0.0)
                    for unit in range(n_units):
                        value = own[unit] + there[unit] + apart[unit]
                        total += end[unit] * max(value, np.float32(0.0))
                    scores[seed, s, word, other] = total


@compiled
def pair_slopes(
    words: Float[Array, "seed type unit"],
    candidates: Float[Array, "seed type unit"],
    offsets: Float[Array, "seed offset unit"],
    types: Int[Places, "sentence word"],
    sizes: Int[Places, " sentence"],
    by_scores: Float[Array, "seed sentence word candidate"],
    by_words: Float[Array, "seed type unit"],
    by_candidates: Float[Array, "seed type unit"],
    by_offsets: Float[Array, "seed offset unit"],
) -> None:
    """Add the derivatives by the three parts of what `pair_scores` takes, for an `out` of 1, given
    those by the scores."""
    n, n_units = types.shape[1], words.shape[2]
    for s in range(len(sizes)):
        for seed in range(len(words)):
            for word in range(sizes[s]):
                own, by_own = words[seed, types[s, word]], by_words[seed, types[s, word]]
                for other in range(n + 1):
                    slope = by_scores[seed, s, word, other]
                    if other == word or (sizes[s] <= other < n) or slope == 0:
                        continue
                    place = ROOT_TYPE if other == n else types[s, other]
                    there, by_there = candidates[seed, place], by_candidates[seed, place]
                    row = 2 * n if other == n else n + other - word
                    apart, by_apart = offsets[seed, row], by_offsets[seed, row]
                    for unit in range(n_units):
                        step = slope * np.float32(own[unit] + there[unit] + apart[unit] > 0)
                        by_own[unit] += step
                        by_there[unit] += step
                        by_apart[unit] += step


@compiled
def _weigh(cell, one, other):  # type: ignore[no-untyped-def]
    total = np.float32(0.0)
    for i in range(len(cell)):
        total += cell[i] * (one[i] + other[i])
    return total


@compiled
def _add(target, factor, source):  # type: ignore[no-untyped-def]
    """A loop with one target: what the compiler can do several numbers at a time."""
    for i in range(len(source)):
        target[i] += factor * source[i]
