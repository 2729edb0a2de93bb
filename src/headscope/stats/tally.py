"""Totals over examples by bucket of documents: the only state a run has, and it adds."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from headscope.stats.bucket import N_BUCKETS, leave_one_out
from headscope.stats.exact import ExactSum, add_exactly, on_grid
from headscope.stats.interval import (
    ANY,
    Estimate,
    Measured,
    count_independent,
    estimate,
    share,
    standard_error,
)

__all__ = [
    "PLAIN", "PRODUCT", "SEGMENTS", "SHARE", "SQUARE", "Tally", "group_squares",
    "pair_products", "pair_squares", "pair_sums", "segment_means",
]  # fmt: skip

PLAIN = "plain/"  # begins the name of a total that is kept in one sum, not by bucket
SQUARE = PLAIN + "{}^2"  # the name of the sum of squares
PRODUCT = PLAIN + "{}*{}"  # the name of the sum of products
PRODUCTS = PLAIN + "{}@"  # of the sums of products of every two numbers of an example
SEGMENTS = PLAIN + "segments/{}"  # of the number of examples in which a count is above 0
GROUP = PLAIN + "{}: squares"  # of a group's sums of squares, products and examples, side by side
SHARE = (0.0, 1.0)  # the bounds of a share
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
            columns = torch.from_numpy(value).flatten(1)  # [example, column]
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

    def __add__(self, other: "Tally") -> "Tally":
        total = Tally()
        total += self
        total += other
        return total

    def __iadd__(self, other: "Tally") -> "Tally":
        """Add another one in place: sums over many heads are large."""
        for name, value in other.totals.items():
            self._put(name, value.shape, slice(None), ExactSum(value, other.rests.get(name)))
        return self

    def _put(self, name: str, shape: tuple[int, ...], rows: Any, added: ExactSum) -> None:
        """Add to these rows of a total."""
        if name not in self.totals:
            self.totals[name] = np.zeros(shape)
        total, rest = self.totals[name], self.rests.get(name)
        own = ExactSum(total[rows], None if rest is None else rest[rows])
        total[rows], new_rest = add_exactly(own, added)
        if new_rest is not None:
            self.rests.setdefault(name, np.zeros(shape) if rest is None else rest)[rows] = new_rest

    def join_squares(self) -> None:
        """Sums of squares and products by bucket, as runs up to format 4 have them, in one sum."""
        for name in list(self.totals):
            one, _, other = name.removesuffix("^2").partition("*")
            if one != name and {one, other or one} <= set(self.totals):
                self.totals[PLAIN + name] = self.totals.pop(name).sum(axis=0, keepdims=True)
                self.rests.pop(name, None)

    def __bool__(self) -> bool:
        return bool(self.totals)

    def __iter__(self) -> Iterator[str]:
        return iter(self.totals)

    def replicates(self, numerator: str, denominator: str) -> Float[Array, "replicate layer ..."]:
        """Mean of `numerator` per `denominator` on all data, then without each bucket.

        The denominator's axes are the leading axes of the numerator's, of size 1 where it does not
        depend on them.
        """
        above, below = (leave_one_out(self.totals[name]) for name in (numerator, denominator))
        return share(above, below.reshape(below.shape + (1,) * (above.ndim - below.ndim)))

    def _whole(self, name: str, like: Array) -> Array:
        """The sum over all buckets, in the shape of these; NaN for one that was not kept."""
        total = self.totals[name].sum(axis=0) if name in self.totals else np.full((), np.nan)
        return np.broadcast_to(
            total.reshape(total.shape + (1,) * (like.ndim - total.ndim)), like.shape
        )

    def mean(
        self, name: str, count: str = "segments", within: tuple[float, float] = ANY
    ) -> Measured:
        """Mean over examples with its interval, of what `segment_means` gave.

        The effective number of examples is their variance over that of the mean.
        """
        mean = self.replicates(name, count)
        return self.measure_mean(name, mean, self._whole(count, mean[0]), within)

    def measure_mean(
        self, name: str, mean: Float[Array, "replicate ..."], n: Array, within: tuple[float, float]
    ) -> Measured:
        """As `mean`, of a mean over `n` examples that was made of others; its squares were kept."""
        value, error = mean[0], standard_error(mean)
        spread = self._whole(SQUARE.format(name), value) - n * value**2
        return Measured(*estimate(mean, within), count_independent(spread, n * error**2, n))

    def pooled(
        self,
        numerator: str,
        denominator: str,
        within: tuple[float, float] = ANY,
        segments: str = "segments",
    ) -> Measured:
        """The ratio of what `pair_sums` gave, with the effective number of examples.

        That is the spread of independent examples around the ratio over the spread of the ratio.
        `segments` names how many examples there are.
        """
        names = (
            *(SQUARE.format(numerator), PRODUCT.format(numerator, denominator)),
            *(SQUARE.format(denominator), segments),
        )
        like = np.empty(self.totals[numerator].shape[1:])
        return self._pool(numerator, denominator, within, [self._whole(n, like) for n in names])

    def pooled_group(self, kind: str, group: str) -> Measured:
        """The mean of `KIND/GROUP` per `count/GROUP`, of what `group_squares` saw."""
        name = f"{kind}/{group}"
        kept = self.totals.get(GROUP.format(name), np.full((1, 4), np.nan))[0]
        return self._pool(name, f"count/{group}", ANY, np.moveaxis(kept, -1, 0))

    def _pool(
        self, above: str, below: str, within: tuple[float, float], sums: Iterable[Array]
    ) -> Measured:
        """The ratio; `sums` are of its squares, its products, the squares below, and examples."""
        (value, low, high), error = self._ratio(above, below, within)
        squares, products, below_squares, n = (np.broadcast_to(part, value.shape) for part in sums)
        spread = squares - 2 * value * products + value**2 * below_squares
        total = self._whole(below, value)
        effective = count_independent(n * spread, (total * error) ** 2, n)
        return Measured(value, low, high, effective)

    def products(self, name: str) -> Float[Array, "number number ..."] | None:
        """The sums of what `pair_products` gave; None where they were not kept."""
        kept = self.totals.get(PRODUCTS.format(name))
        return None if kept is None else kept[0]

    def ratio(
        self, numerator: str, denominator: str, within: tuple[float, float] = ANY
    ) -> Estimate[Array]:
        """Mean of `numerator` per `denominator` with its interval; NaN for 0 / 0.

        `within` are the bounds that the mean cannot pass.
        """
        return self._ratio(numerator, denominator, within)[0]

    def _ratio(
        self, numerator: str, denominator: str, within: tuple[float, float]
    ) -> tuple[Estimate[Array], Array]:
        """The ratio, and its standard error."""
        above, below = self.totals[numerator], self.totals[denominator]
        below = below.reshape(below.shape + (1,) * (above.ndim - below.ndim))
        flat = above.reshape(len(above), -1)  # [bucket, column]
        under = np.broadcast_to(below, above.shape).reshape(flat.shape)
        parts = []
        for start in range(0, flat.shape[1], CHUNK):
            some = slice(start, start + CHUNK)
            replicates = share(leave_one_out(flat[:, some]), leave_one_out(under[:, some]))
            parts.append((*estimate(replicates, within), standard_error(replicates)))
        value, low, high, error = (
            np.concatenate(part).reshape(above.shape[1:]) for part in zip(*parts, strict=True)
        )
        return Estimate(value, low, high), error


def segment_means(name: str, values: Tensor) -> dict[str, Tensor]:
    """What `Tally.mean` needs of a number that each example has: itself, its square, a count."""
    ones = values.new_ones(len(values))
    return {name: values, SQUARE.format(name): values.double() ** 2, "segments": ones}


def pair_sums(name: str, values: Tensor, count_name: str, counts: Tensor) -> dict[str, Tensor]:
    """What `Tally.pooled` needs of a sum that each example has, and of the count below it.

    The count's axes are the leading axes of the sum's, of size 1 where it does not depend on them.
    """
    squares = pair_squares(name, values, count_name, counts)
    ones = values.new_ones(len(values))
    return {name: values, count_name: counts, **squares, "segments": ones}


def pair_squares(name: str, values: Tensor, count_name: str, counts: Tensor) -> dict[str, Tensor]:
    """The squares and products of `pair_sums` alone."""
    below = counts.double().reshape(counts.shape + (1,) * (values.ndim - counts.ndim))
    return {
        SQUARE.format(name): values.double() ** 2,
        PRODUCT.format(name, count_name): values.double() * below,
        SQUARE.format(count_name): counts.double() ** 2,
    }


def group_squares(
    kind: str, values: Mapping[str, Tensor], groups: Sequence[str]
) -> dict[str, Tensor]:
    """What `Tally.pooled_group` needs beside these `KIND/GROUP` and `count/GROUP`."""
    above, below = (
        torch.stack([values[f"{name}/{group}"] for group in groups], dim=1).double()
        for name in (kind, "count")
    )  # [example, group, ...]
    below = below.reshape(below.shape + (1,) * (above.ndim - below.ndim)).expand_as(above)
    numbers = (above**2, above * below, below**2, (below > 0).double())
    packed = torch.stack(numbers, dim=-1).unbind(1)
    return {GROUP.format(f"{kind}/{g}"): own for g, own in zip(groups, packed, strict=True)}


def pair_products(
    name: str, values: Float[Tensor, "example number ..."]
) -> dict[str, Float[Tensor, "example number number ..."]]:
    """The products of every two numbers of an example, for `stats.contrast.count_examples`."""
    wide = values.double()
    return {PRODUCTS.format(name): wide[:, :, None] * wide[:, None]}
