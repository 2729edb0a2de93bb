"""The highest entries of each cell, and its range cut into parts: what a ranking keeps."""

from math import floor, frexp
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, UInt32, UInt64
from numpy.typing import NDArray

from headscope.kernels import njit

__all__ = ["N_PARTS", "cut_ranges", "keep_highest"]

N_PARTS = 22  # most parts of a cell's range: each is narrower than a tenth of it
FINEST = 2.0**-13  # the width of a part, or a power of two times it
NO_ID = np.uint64(np.iinfo(np.uint64).max)
LOWEST = -np.inf

Ids = NDArray[np.uint64]
Flags = NDArray[np.bool_]
Heights = NDArray[np.float64]
Scores = NDArray[np.float32]
Counts = NDArray[np.uint32]

compiled: Any = njit()


@compiled
def keep_highest(
    ids: UInt64[Ids, "end entry cell"],
    heights: Float[Heights, "end entry cell"],
    is_long: Bool[Flags, "end entry cell"],
    n_kept: int,
) -> tuple[Ids, Heights, Flags]:
    """The highest entries of each cell, in order; long ones come after all others.

    An entry of minus infinity is none. Where there are too few, the last ones are that.
    """
    n_ends, n_entries, n_cells = heights.shape
    best_ids = np.full((n_ends, n_kept, n_cells), NO_ID, np.uint64)
    best = np.full((n_ends, n_kept, n_cells), LOWEST)
    best_long = np.ones((n_ends, n_kept, n_cells), np.bool_)
    for end in range(n_ends):
        for entry in range(n_entries):
            for cell in range(n_cells):
                height, long = heights[end, entry, cell], is_long[end, entry, cell]
                place = n_kept
                while (
                    place > 0
                    and height > LOWEST
                    and (
                        height > best[end, place - 1, cell]
                        if long == best_long[end, place - 1, cell]
                        else not long
                    )
                ):
                    place -= 1
                if place == n_kept:
                    continue
                for lower in range(n_kept - 1, place, -1):
                    best_ids[end, lower, cell] = best_ids[end, lower - 1, cell]
                    best[end, lower, cell] = best[end, lower - 1, cell]
                    best_long[end, lower, cell] = best_long[end, lower - 1, cell]
                best_ids[end, place, cell] = ids[end, entry, cell]
                best[end, place, cell], best_long[end, place, cell] = height, long
    return best_ids, best, best_long


@compiled
def cut_ranges(
    ids: UInt64[Ids, "entry cell"],
    scores: Float[Scores, "entry cell"],
    counts: UInt32[Counts, "entry cell"],
    ranges: Float[Scores, "2 cell"],
) -> tuple[Ids, Scores, Counts]:
    """The entries in parts of their cell's range: ids, scores, counts `[part, cell]`, empty last.

    Entries are single examples, or parts of a smaller range; one without a count is none. A part is
    shown by its entry of the lowest id.
    """
    n_entries, n_cells = scores.shape
    kept_ids = np.full((N_PARTS, n_cells), NO_ID, np.uint64)
    kept_scores = np.zeros((N_PARTS, n_cells), np.float32)
    kept_counts = np.zeros((N_PARTS, n_cells), np.uint32)
    n_most = 1
    for cell in range(n_cells):
        low, high = float(ranges[0, cell]), float(ranges[1, cell])
        if not low <= high:
            continue
        width = _find_width(low, high)
        first = floor(low / width)
        own_ids, own_scores = np.full(N_PARTS, NO_ID, np.uint64), np.zeros(N_PARTS, np.float32)
        own_counts = np.zeros(N_PARTS, np.uint32)
        for entry in range(n_entries):
            if counts[entry, cell]:
                part = floor(scores[entry, cell] / width) - first
                own_counts[part] += counts[entry, cell]
                if ids[entry, cell] <= own_ids[part]:
                    own_ids[part], own_scores[part] = ids[entry, cell], scores[entry, cell]
        n_parts = 0
        for part in range(N_PARTS):
            if own_counts[part]:
                kept_ids[n_parts, cell] = own_ids[part]
                kept_scores[n_parts, cell] = own_scores[part]
                kept_counts[n_parts, cell] = own_counts[part]
                n_parts += 1
        n_most = max(n_most, n_parts)
    return kept_ids[:n_most], kept_scores[:n_most], kept_counts[:n_most]


@compiled
def _find_width(low: float, high: float) -> float:
    """The smallest power of two, or FINEST, that cuts a range into at most N_PARTS parts."""
    span = max(high - low, FINEST)
    width = max(2.0 ** (frexp(span / N_PARTS)[1] - 2), FINEST)  # not too wide
    while floor(high / width) - floor(low / width) >= N_PARTS:
        width *= 2
    return width
