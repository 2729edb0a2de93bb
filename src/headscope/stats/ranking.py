"""The examples where each head does best, worst, and all between, kept while streaming."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, UInt32, UInt64
from numpy.typing import NDArray

__all__ = ["ENDS", "MOST", "Ranking", "Values"]

ENDS = ("best", "worst")
MOST = 2  # examples kept of each end
DECIMALS = 4  # of a score: what lies closer is a tie, so that rounding cannot change the order
TIE = 0.5 * 10.0**-DECIMALS  # ties are broken by the example's id, whatever the order of reading
BINS = 22  # most parts of a head's range: each is narrower than a tenth of it
FINEST = 2.0**-13  # the width of a part, or a power of two times it
NO_ID = np.iinfo(np.uint64).max

Values = NDArray[np.floating[Any]]
Heights = NDArray[np.float64]
Ids = NDArray[np.uint64]
Flags = NDArray[np.bool_]
Scores = NDArray[np.float32]


@dataclass(frozen=True)
class Ranking:
    """By criterion, the examples with the highest and the lowest scores of every head; they add.

    Axes are `[end, place, layer, head, ...]`. An example is known by the hash of its id; its height
    is the score (with its sign turned for the worst), minus infinity where there is none. Long
    examples, which are hard to draw, come after all short ones.

    Between the ends, a head's range `[low or high, layer, head, ...]` is cut into parts of equal
    width, as many as there may be: `[part, layer, head, ...]` have a number of examples each, and
    the one of the lowest hash. Widths are powers of two, so parts of a smaller range lie within
    those of a larger one, and what is kept does not depend on the order of reading.
    """

    ids: dict[str, Ids] = field(default_factory=dict)
    heights: dict[str, Heights] = field(default_factory=dict)
    is_long: dict[str, Flags] = field(default_factory=dict)
    ranges: dict[str, Scores] = field(default_factory=dict)
    part_ids: dict[str, Ids] = field(default_factory=dict)
    part_scores: dict[str, Scores] = field(default_factory=dict)
    part_counts: dict[str, NDArray[np.uint32]] = field(default_factory=dict)

    def add(
        self,
        ids: UInt64[Ids, " example"],
        is_long: Bool[Flags, " example"],
        scores: Mapping[str, Float[Values, "example layer head ..."]],
    ) -> None:
        """Rank these examples too; a score that is not a number counts for nothing."""
        tie_break = TIE * (ids >> np.uint64(11)) / 2.0**53  # [example]
        for criterion, score in scores.items():
            kept = np.isfinite(score).any(axis=tuple(range(1, score.ndim)))
            if not kept.any():
                continue
            rounded = np.round(score[kept].astype(np.float64), DECIMALS)
            rounded = np.where(np.isnan(rounded), -np.inf, rounded)
            turned = np.where(np.isinf(rounded), -np.inf, -rounded)
            column = (-1, *[1] * (rounded.ndim - 1))  # [example, 1, ...]
            heights = np.stack([rounded, turned]) + tie_break[kept].reshape(column)
            named = np.broadcast_to(ids[kept].reshape(column), heights.shape)
            longs = np.broadcast_to(is_long[kept].reshape(column), heights.shape)
            self._keep_highest(criterion, named, heights, longs)  # [end, example, layer, ...]
            counts = np.isfinite(rounded).astype(np.uint32)
            self._keep_parts(criterion, named[0], rounded.astype(np.float32), counts)

    def __add__(self, other: "Ranking") -> "Ranking":
        total = Ranking(**{kind: dict(values) for kind, values in vars(self).items()})
        for name, heights in other.heights.items():
            total._keep_highest(name, other.ids[name], heights, other.is_long[name])
        for name, scores in other.part_scores.items():
            parts = (other.part_ids[name], scores, other.part_counts[name])
            total._keep_parts(name, *parts, other.ranges[name])
        return total

    def find(self, criterion: str, end: str, place: tuple[int, ...]) -> list[tuple[int, float]]:
        """The ids' hashes and scores at one end, the most telling first, of one head."""
        if criterion not in self.ids:
            return []
        where: Any = (ENDS.index(end), slice(None), *place)
        found = zip(self.ids[criterion][where], self.heights[criterion][where], strict=True)
        sign = 1 if end == ENDS[0] else -1
        return [
            (int(key), sign * round(height - TIE / 2, DECIMALS))
            for key, height in found
            if np.isfinite(height)
        ]

    def find_parts(self, criterion: str, place: tuple[int, ...]) -> list[tuple[int, float, int]]:
        """Of each part of a head's range an example's hash and score, and how many it has."""
        if criterion not in self.part_ids:
            return []
        kept: tuple[dict[str, Any], ...] = (self.part_ids, self.part_scores, self.part_counts)
        columns = [part[criterion][(slice(None), *place)].tolist() for part in kept]
        parts = [
            (key, round(score, DECIMALS), count) for key, score, count in zip(*columns, strict=True)
        ]
        return sorted((part for part in parts if part[2]), key=lambda part: part[1])

    def _keep_highest(self, criterion: str, ids: Ids, heights: Heights, is_long: Flags) -> None:
        """Join these to what is kept, and keep the highest."""
        parts: tuple[Any, ...] = (ids, heights, is_long)
        if criterion in self.ids:
            kept = (self.ids[criterion], self.heights[criterion], self.is_long[criterion])
            parts = tuple(np.concatenate(pair, axis=1) for pair in zip(kept, parts, strict=True))
        # those of long examples come below all others, however high scores may be
        finite = np.where(np.isfinite(parts[1]), parts[1], 0.0)
        span = 2 * np.abs(finite).max(initial=0.0) + 1
        key = np.where(parts[2], parts[1] - span, parts[1])
        if key.shape[1] > MOST:
            highest = np.argpartition(key, -MOST, axis=1)[:, -MOST:]
            parts = tuple(np.take_along_axis(part, highest, axis=1) for part in parts)
            key = np.take_along_axis(key, highest, axis=1)
        order = np.argsort(-key, axis=1, kind="stable")
        self.ids[criterion], self.heights[criterion], self.is_long[criterion] = (
            np.take_along_axis(part, order, axis=1) for part in parts
        )

    def _keep_parts(
        self,
        criterion: str,
        ids: Ids,
        scores: Scores,
        counts: NDArray[np.uint32],
        ranges: Scores | None = None,
    ) -> None:
        """Join these to what is kept, and cut the range of all into parts."""
        is_there = counts > 0
        if ranges is None:
            low = np.where(is_there, scores, np.inf).min(axis=0)
            ranges = np.stack([low, np.where(is_there, scores, -np.inf).max(axis=0)])
        parts: tuple[Any, ...] = (ids, scores, counts)
        if criterion in self.ranges:
            low, high = zip(self.ranges[criterion], ranges, strict=True)
            ranges = np.stack([np.minimum(*low), np.maximum(*high)])
            kept = (self.part_ids, self.part_scores, self.part_counts)
            old = (part[criterion] for part in kept)
            parts = tuple(np.concatenate(pair) for pair in zip(old, parts, strict=True))
        self.ranges[criterion] = ranges.astype(np.float32)
        ids, scores, counts = parts
        joined = _cut_range(ids, scores, counts, ranges.astype(np.float64))
        self.part_ids[criterion], self.part_scores[criterion], self.part_counts[criterion] = joined


def _cut_range(
    ids: UInt64[Ids, "entry ..."],
    scores: Float[Scores, "entry ..."],
    counts: UInt32[NDArray[np.uint32], "entry ..."],
    ranges: Float[Heights, "2 ..."],
) -> tuple[Ids, Scores, NDArray[np.uint32]]:
    """The entries in parts of their range: ids, scores and counts `[part, ...]`, empty ones last.

    Entries are single examples, or parts of a smaller range.
    """
    low, high = np.where(np.isfinite(ranges), ranges, 0.0)
    span = np.maximum(high - low, FINEST)
    width = np.maximum(np.exp2(np.floor(np.log2(span / BINS)) - 1), FINEST)  # of none too wide
    while (is_narrow := np.floor(high / width) - np.floor(low / width) >= BINS).any():
        width = np.where(is_narrow, 2 * width, width)
    is_there = counts > 0
    part = np.floor(np.where(is_there, scores, low) / width) - np.floor(low / width)  # [entry, ...]
    place = part.astype(np.int64) * low.size + np.arange(low.size).reshape(low.shape)
    place, ids, scores = place[is_there], ids[is_there], scores[is_there]
    shape = (BINS, *low.shape)
    kept_ids = np.full(BINS * low.size, NO_ID, np.uint64)
    np.minimum.at(kept_ids, place, ids)
    kept_scores = np.zeros(len(kept_ids), np.float32)
    is_kept = ids == kept_ids[place]
    kept_scores[place[is_kept]] = scores[is_kept]
    sums = np.bincount(place, counts[is_there], len(kept_ids)).astype(np.uint32).reshape(shape)
    order = np.argsort(sums == 0, axis=0, kind="stable")[: max(1, (sums > 0).sum(axis=0).max())]
    kept = (kept_ids.reshape(shape), kept_scores.reshape(shape), sums)
    first, second, third = (np.take_along_axis(values, order, axis=0) for values in kept)
    return first, second, third
