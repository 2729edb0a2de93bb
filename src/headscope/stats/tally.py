"""Totals over examples by bucket of documents: the only state a run has, and it adds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from headscope.lazy import torch
from headscope.stats.bucket import N_BUCKETS, leave_one_out
from headscope.stats.exact import ExactSum, add_exactly, on_grid
from headscope.stats.interval import ANY, Estimate, estimate, share

__all__ = ["PLAIN", "Tally"]

PLAIN = "plain "  # begins the name of a total that is kept in one sum, not by bucket
CHUNK = 50_000  # numbers whose intervals are made at a time: 64 replicates of each are in memory

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Tally:
    """Named totals, each `[bucket, layer, ...]`. A missing name means zero.

    Tallies give the same bits in any order of addition; `rests` hold the remainders that float64
    totals cannot hold.
    """

    totals: dict[str, Array] = field(default_factory=dict)
    rests: dict[str, Array] = field(default_factory=dict)

    def add(
        self,
        buckets: Int[NDArray[np.int64], " example"],
        values: Mapping[str, Float[NDArray[np.floating[Any]], "example layer ..."]],
        weights: Float[Array, " example"] | None = None,
    ) -> None:
        """Add every example's values, or its weight times them, to the totals of its bucket."""
        used, places = np.unique(np.asarray(buckets, np.int64), return_inverse=True)
        for name, value in values.items():
            is_plain = name.startswith(PLAIN)
            flat = value.reshape(len(value), prod(value.shape[1:]))
            columns = torch.from_numpy(flat)  # [example, column]
            kept = columns.any(1)  # a relation is in few examples, the others have zeros
            into = torch.from_numpy(np.zeros(len(value), int) if is_plain else places)[kept]
            sums = torch.zeros(1 if is_plain else len(used), columns.shape[1], dtype=torch.double)
            added_up = columns[kept].double()
            if weights is not None and len(value) == len(weights):  # else they are in its sum
                added_up *= torch.from_numpy(weights)[kept, None]
            sums.index_add_(0, into, added_up)  # [bucket, column]
            added = on_grid(sums.numpy()).reshape(-1, *value.shape[1:])
            shape = (1 if is_plain else N_BUCKETS, *value.shape[1:])
            self._put(name, shape, np.zeros(1, int) if is_plain else used, ExactSum(added))

    def __add__(self, other: Tally) -> Tally:
        total = Tally()
        total += self
        total += other
        return total

    def __iadd__(self, other: Tally) -> Tally:
        """Add another one in place: sums over many heads are large."""
        for name, value in other.totals.items():
            self._put(name, value.shape, slice(None), ExactSum(value, other.rests.get(name)))
        return self

    def _put(self, name: str, shape: tuple[int, ...], rows: Any, added: ExactSum) -> None:
        """Add to these rows of a total."""
        if name not in self.totals:
            self.totals[name] = np.zeros(shape)
        total, rest = self.totals[name], self.rests.get(name)
        kept_rows = ExactSum(total[rows], None if rest is None else rest[rows])
        total[rows], new_rest = add_exactly(kept_rows, added)
        if new_rest is not None:
            self.rests.setdefault(name, np.zeros(shape) if rest is None else rest)[rows] = new_rest

    def __bool__(self) -> bool:
        return bool(self.totals)

    def __iter__(self) -> Iterator[str]:
        return iter(self.totals)

    def ratio(
        self, numerator: str, denominator: str, within: tuple[float, float] = ANY
    ) -> Estimate[Array]:
        """Mean of `numerator` per `denominator` with its interval; NaN for 0 / 0.

        `within` are the bounds that the mean cannot pass.
        """
        above, below = self.totals[numerator], self.totals[denominator]
        below = below.reshape(below.shape + (1,) * (above.ndim - below.ndim))
        flat = above.reshape(len(above), -1)  # [bucket, column]
        under = np.broadcast_to(below, above.shape).reshape(flat.shape)
        parts = []
        for start in range(0, flat.shape[1], CHUNK):
            some = slice(start, start + CHUNK)
            replicates = share(leave_one_out(flat[:, some]), leave_one_out(under[:, some]))
            parts.append(estimate(replicates, within))
        joined = (np.concatenate(part) for part in zip(*parts, strict=True))
        return Estimate(*(part.reshape(above.shape[1:]) for part in joined))
