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
LONG = 1000.0  # a long example is worse than any short one: it is hard to draw

Values = NDArray[np.floating[Any]]
Heights = NDArray[np.float64]
Ids = NDArray[np.uint64]


@dataclass(frozen=True)
class Ranking:
    """By role, the examples with the highest and the lowest scores of every head; rankings add.

    Axes are `[end, place, layer, head, ...]`. An example is known by the hash of its id; its height
    is the score (with its sign turned for the worst), minus infinity where there is none.
    """

    ids: dict[str, Ids] = field(default_factory=dict)
    heights: dict[str, Heights] = field(default_factory=dict)

    def add(
        self,
        ids: UInt64[Ids, " example"],
        is_long: Bool[NDArray[np.bool_], " example"],
        scores: Mapping[str, Float[Values, "example layer head ..."]],
    ) -> None:
        """Rank these examples too; a score that is not a number counts for nothing."""
        handicap = TIE * (ids >> np.uint64(11)) / 2.0**53 - LONG * is_long  # [example]
        for role, score in scores.items():
            kept = np.isfinite(score).any(axis=tuple(range(1, score.ndim)))
            if not kept.any():
                continue
            rounded = np.round(score[kept].astype(np.float64), DECIMALS)
            rounded = np.where(np.isnan(rounded), -np.inf, rounded)
            turned = np.where(np.isinf(rounded), -np.inf, -rounded)
            extra = handicap[kept].reshape(-1, *[1] * (rounded.ndim - 1))
            heights = np.stack([rounded, turned]) + extra  # [end, example, layer, ...]
            named = ids[kept].reshape(extra.shape)
            self._keep_highest(role, np.broadcast_to(named, heights.shape), heights)

    def __add__(self, other: "Ranking") -> "Ranking":
        total = Ranking(dict(self.ids), dict(self.heights))
        for role, heights in other.heights.items():
            total._keep_highest(role, other.ids[role], heights)
        return total

    def find(self, role: str, end: str, place: tuple[int, ...]) -> list[tuple[int, float]]:
        """The ids' hashes and scores at one end, the most telling first, of one head."""
        if role not in self.ids:
            return []
        where: Any = (ENDS.index(end), slice(None), *place)
        found = zip(self.ids[role][where], self.heights[role][where], strict=True)
        sign = 1 if end == ENDS[0] else -1
        return [(int(key), sign * _score(height)) for key, height in found if np.isfinite(height)]

    def _keep_highest(self, role: str, ids: Ids, heights: Heights) -> None:
        """Join these to what is kept, and keep the highest."""
        if heights.shape[1] > MOST:
            highest = np.argpartition(heights, -MOST, axis=1)[:, -MOST:]
            ids = np.take_along_axis(ids, highest, axis=1)
            heights = np.take_along_axis(heights, highest, axis=1)
        if role in self.ids:
            ids = np.concatenate([self.ids[role], ids], axis=1)
            heights = np.concatenate([self.heights[role], heights], axis=1)
        order = np.argsort(-heights, axis=1, kind="stable")[:, :MOST]
        self.ids[role] = np.take_along_axis(ids, order, axis=1)
        self.heights[role] = np.take_along_axis(heights, order, axis=1)


def _score(height: float) -> float:
    """The score behind a height."""
    return round(height - TIE / 2 + LONG * (height < -LONG / 2), DECIMALS)
