"""Labelled sums: what an analysis measured, added up by bucket of documents, with named axes.

An analysis declares the axes of its sums, `{"nats": "layer head rows", "segments": "rows"}`. Layers
and heads count from 1; other axes have the labels that it declares. An axis that begins with `*`
has its labels from the data, such as relations: there is one array for each label, and it comes
first. Arithmetic on the arrays goes by the names of axes (xarray).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple, Protocol

import numpy as np
import xarray as xr
from jaxtyping import Float, Int
from numpy.typing import NDArray

from headscope.lazy import torch
from headscope.stats.bucket import N_BUCKETS, leave_one_out
from headscope.stats.interval import ANY, Estimate, estimate, share

__all__ = [
    "BUCKET", "OPEN", "PLAIN", "REPLICATE", "ExactSum", "Sums", "SumsOf", "Tally", "add_exactly",
    "key_of", "mean_of", "on_grid", "on_replicates",
]  # fmt: skip

STEPS = 2.0**56  # in 1: a number that is no multiple of a step is rounded to one
ADDED_AT_ONCE = 1 << 15  # numbers added at a time

Array = NDArray[np.float64]


class ExactSum(NamedTuple):
    """A sum as the nearest float64 and what is left of it; None: nothing is left anywhere."""

    total: Array
    rest: Array | None = None


def on_grid(values: Array) -> Array:
    """The values rounded to multiples of a step, in place."""
    np.multiply(values, STEPS, out=values)
    np.rint(values, out=values)
    return np.divide(values, STEPS, out=values)


def add_exactly(one: ExactSum, other: ExactSum) -> ExactSum:
    """The sum of both, without loss, in the place of the first: Knuth's TwoSum.

    >>> a, b = (ExactSum(np.array([x])) for x in (1.0, 2.0**-55))
    >>> total, rest = add_exactly(a, b)
    >>> total[0], rest[0] == 2.0**-55
    (np.float64(1.0), np.True_)
    """
    first, second = one.total.reshape(-1), other.total.reshape(-1)
    rests = [part.rest.reshape(-1) for part in (one, other) if part.rest is not None]
    rest = rests[0] if one.rest is not None else None
    for start in range(0, len(first), ADDED_AT_ONCE):  # in the cache, and without large copies
        some = slice(start, start + ADDED_AT_ONCE)
        near, lost = _add_two(first[some], second[some])
        for known in rests:
            lost += known[some]
        np.add(near, lost, out=first[some])
        lost -= first[some] - near
        if rest is None and lost.any():
            rest = np.zeros_like(first)
        if rest is not None:
            rest[some] = lost
    shape = one.total.shape
    return ExactSum(first.reshape(shape), None if rest is None else rest.reshape(shape))


def _add_two(first: Array, second: Array) -> tuple[Array, Array]:
    """The nearest float64 to each sum, and what is lost of it."""
    near = first + second
    part = near - first
    lost = near - part
    np.subtract(first, lost, out=lost)
    lost += second - part
    return near, lost


PLAIN = "plain "  # begins the name of a total that is kept in one sum, not by bucket
CHUNK = 50_000  # numbers whose intervals are made at a time: 64 replicates of each are in memory


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


BUCKET, REPLICATE = "bucket", "replicate"
OPEN = "*"  # begins the name of an axis whose labels come from the data

Labels = Mapping[str, Sequence[Any]]


class SumsOf(Protocol):
    """What sums need to know of their analysis."""

    @property
    def sums(self) -> Mapping[str, str]: ...

    @property
    def labels(self) -> Labels: ...


def key_of(name: str, label: str | None = None) -> str:
    """The name of an array in a file: that of the sum, and of an open axis the label.

    >>> key_of("nats"), key_of("correct", "nsubj")
    ('nats', 'correct/nsubj')
    """
    return name if label is None else f"{name}/{label}"


@dataclass(frozen=True)
class Sums:
    """The sums of one analysis over a corpus."""

    tally: Tally
    axes: Mapping[str, str]  # of each sum, as declared
    axis_labels: Labels

    @classmethod
    def of(cls, analysis: SumsOf, tally: Tally) -> Sums:
        """The sums as the analysis declares them."""
        return cls(tally, analysis.sums, analysis.labels)

    def __contains__(self, name: str) -> bool:
        return any(key.partition("/")[0] == name for key in self.tally)

    def labels(self, name: str) -> list[str]:
        """The labels of an open axis that occur in the data, in the order of their appearance."""
        keys = (key.partition("/") for key in self.tally)
        return [label for first, slash, label in keys if first == name and slash]

    def values(self, name: str, label: str | None = None) -> NDArray[np.float64]:
        """A sum as a plain array `[bucket, ...]`; of an open axis that of one label."""
        return self.tally.totals[key_of(name, label)]

    def __call__(self, name: str, label: str | None = None) -> xr.DataArray:
        """A sum by bucket and its axes."""
        values = self.values(name, label)
        dims = [axis for axis in self.axes[name].split() if not axis.startswith(OPEN)]
        coords: dict[str, Any] = {}
        for axis, size in zip(dims, values.shape[1:], strict=True):
            if axis in ("layer", "head"):
                coords[axis] = np.arange(1, size + 1)
            elif axis in self.axis_labels:  # of a learned sink, say, there may be none
                coords[axis] = list(self.axis_labels[axis])[:size]
        return xr.DataArray(values, coords, (BUCKET, *dims))

    def mean(self, name: str, per: str, label: str | None = None) -> xr.DataArray:
        """One sum over another: on all data, then without each bucket (axis `replicate`).

        NaN for 0 / 0, and without a bucket that has none of what the mean is over.
        """
        return mean_of(self(name, label), self(per, label))

    def ratio(self, name: str, per: str, label: str | None = None) -> xr.DataArray:
        """One sum over another on all data; NaN for 0 / 0."""
        above, below = (self(part, label).sum(BUCKET) for part in (name, per))
        return above / below.where(below != 0)

    def estimate(
        self, name: str, per: str, within: tuple[float, float] = ANY
    ) -> Estimate[NDArray[np.float64]]:
        """One sum over another with its interval, of too many numbers to replicate all at once."""
        return self.tally.ratio(name, per, within)


def mean_of(above: xr.DataArray, below: xr.DataArray) -> xr.DataArray:
    """One sum by bucket over another: on all data, then without each bucket (`Sums.mean`)."""
    above, below = on_replicates(above), on_replicates(below)
    missing = {dim: below.sizes[dim] for dim in below.dims if dim not in above.dims}
    above = above.expand_dims(missing, axis=-1) if missing else above
    wide = below.broadcast_like(above).transpose(*above.dims)
    return above.copy(data=share(above.values, wide.values))


def on_replicates(sums: xr.DataArray) -> xr.DataArray:
    """Sums by bucket as sums over all data, then without each bucket."""
    others = [dim for dim in sums.dims if dim != BUCKET]
    values = leave_one_out(sums.transpose(BUCKET, *others).values)
    coords = {dim: sums.coords[dim] for dim in others if dim in sums.coords}
    return xr.DataArray(values, coords, (REPLICATE, *others))
