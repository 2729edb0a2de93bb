"""The examples that show each head at its best and at its worst, kept while streaming."""

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


@dataclass(frozen=True)
class Ranking:
    """By criterion, the examples with the highest and the lowest scores of every head; they add.

    Axes are `[end, place, layer, head, ...]`. An example is known by the hash of its id; its height
    is the score (with its sign turned for the worst), minus infinity where there is none. Long
    examples, which are hard to draw, come after all short ones.
    """

    ids: dict[str, Ids] = field(default_factory=dict)
    heights: dict[str, Heights] = field(default_factory=dict)
    is_long: dict[str, Flags] = field(default_factory=dict)

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

    def __add__(self, other: "Ranking") -> "Ranking":
        total = Ranking(dict(self.ids), dict(self.heights), dict(self.is_long))
        for name, heights in other.heights.items():
            total._keep_highest(name, other.ids[name], heights, other.is_long[name])
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
