"""The examples where each head does best, worst, and all between, kept while streaming."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, UInt64
from numpy.typing import NDArray

__all__ = ["ENDS", "MOST", "Ranking", "Values"]

ENDS = ("best", "worst")
MOST = 2  # examples kept of each end
DECIMALS = 4  # of a score: what lies closer is a tie, so that rounding cannot change the order
TIE = 0.5 * 10.0**-DECIMALS  # ties are broken by the example's id, whatever the order of reading

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
        examples = zip(self.ids[criterion][where], self.heights[criterion][where], strict=True)
        sign = 1 if end == ENDS[0] else -1
        return [
            (int(key), sign * round(height - TIE / 2, DECIMALS))
            for key, height in examples
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
        from headscope.kernels.ranking import keep_highest  # numba is slow to load

        entries: tuple[Any, ...] = (ids, heights, is_long)
        kept: tuple[dict[str, Any], ...] = (self.ids, self.heights, self.is_long)
        if criterion in self.ids:
            old = (part[criterion] for part in kept)
            entries = tuple(np.concatenate(pair, axis=1) for pair in zip(old, entries, strict=True))
        cells = heights.shape[2:]
        highest = keep_highest(*(_flatten(part, 2) for part in entries), MOST)
        for part, kept_of_part in zip(kept, highest, strict=True):
            part[criterion] = kept_of_part.reshape(len(ENDS), MOST, *cells)

    def _keep_parts(
        self,
        criterion: str,
        ids: Ids,
        scores: Scores,
        counts: NDArray[np.uint32],
        ranges: Scores | None = None,
    ) -> None:
        """Join these to what is kept, and cut the range of all into parts."""
        from headscope.kernels.ranking import cut_ranges

        is_there = counts > 0
        if ranges is None:
            low = np.where(is_there, scores, np.inf).min(axis=0)
            ranges = np.stack([low, np.where(is_there, scores, -np.inf).max(axis=0)])
        entries: tuple[Any, ...] = (ids, scores, counts)
        kept: tuple[dict[str, Any], ...] = (self.part_ids, self.part_scores, self.part_counts)
        if criterion in self.ranges:
            low, high = zip(self.ranges[criterion], ranges, strict=True)
            ranges = np.stack([np.minimum(*low), np.maximum(*high)])
            old = (part[criterion] for part in kept)
            entries = tuple(np.concatenate(pair) for pair in zip(old, entries, strict=True))
        self.ranges[criterion] = ranges.astype(np.float32)
        cut = cut_ranges(*(_flatten(part, 1) for part in (*entries, self.ranges[criterion])))
        for part, kept_of_part in zip(kept, cut, strict=True):
            part[criterion] = kept_of_part.reshape(-1, *ranges.shape[1:])


def _flatten(values: NDArray[Any], n_axes: int) -> NDArray[Any]:
    """The first axes as they are, all cells in one, as compiled code takes it."""
    return np.ascontiguousarray(values).reshape(*values.shape[:n_axes], -1)
