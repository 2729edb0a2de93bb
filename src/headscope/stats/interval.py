"""Numbers with their 95 % intervals, from replicates that each leave out one bucket.

Axis 0 of replicates is `replicate`: first the number on all data, then without each bucket. A
bucket that has nothing to say (no word of a relation, for example) is NaN there and does not count.
"""

from typing import Generic, NamedTuple, TypeVar

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray
from scipy.special import stdtrit

from headscope.stats.bucket import leave_one_out

__all__ = [
    "ANY", "ROUNDING", "Estimate", "align", "count_buckets", "estimate", "proportion", "quantile",
    "share", "standard_error",
]  # fmt: skip

LEVEL = 0.95
ROUNDING = 1e-12  # of a number: what changes by less does not change
ANY = (-np.inf, np.inf)

Array = NDArray[np.float64]
T = TypeVar("T")


class Estimate(NamedTuple, Generic[T]):
    """A number (or an array of numbers) with its 95 % interval; NaN where there is none."""

    value: T
    low: T
    high: T


def share(above: Array, below: Array) -> Float[Array, "replicate ..."]:
    """One over the other, by replicate; NaN for 0 / 0, and for a bucket that adds nothing below."""
    below = np.broadcast_to(below, above.shape)
    quotient: Array = np.divide(above, below, out=np.full(above.shape, np.nan), where=below != 0)
    quotient[1:][below[1:] == below[0]] = np.nan
    return quotient


def align(*parts: Float[Array, "replicate ..."]) -> tuple[Array, ...]:
    """Numbers over different words made to go together: a bucket counts if any of them has it.

    Where a number has nothing of a bucket, leaving it out changes nothing.
    """
    is_missing = np.logical_and.reduce(np.broadcast_arrays(*(np.isnan(part) for part in parts)))
    filled = (np.where(np.isnan(part), part[:1], part) for part in parts)
    return tuple(np.where(is_missing, np.nan, part) for part in filled)


def count_buckets(replicates: Float[Array, "replicate ..."]) -> Int[NDArray[np.int64], "..."]:
    """How many buckets have something to say."""
    counts: NDArray[np.int64] = (~np.isnan(replicates[1:])).sum(axis=0)
    return counts


def standard_error(replicates: Float[Array, "replicate ..."]) -> Float[Array, "..."]:
    """The jackknife's: the spread of what is left without each bucket; NaN for fewer than two."""
    n_buckets = count_buckets(replicates)
    squares = np.nansum((replicates[1:] - replicates[:1]) ** 2, axis=0)
    scale = np.divide(
        n_buckets - 1, n_buckets, out=np.full(n_buckets.shape, np.nan), where=n_buckets > 1
    )
    return np.asarray(np.sqrt(squares * scale), np.float64)


def quantile(n_buckets: Int[NDArray[np.int64], "..."], level: float = LEVEL) -> Array:
    """The two-sided quantile of t with one degree of freedom less than there are buckets."""
    t = stdtrit(np.maximum(n_buckets - 1, 1).astype(float), (1 + level) / 2)
    return np.asarray(np.where(n_buckets > 1, t, np.nan), np.float64)


def estimate(
    replicates: Float[Array, "replicate ..."], within: tuple[float, float] = ANY
) -> Estimate[Array]:
    """The number on all data, with the jackknife's t interval, cut where it leaves `within`.

    Fewer than two buckets, or none that differs from the others, give no interval.
    """
    value, error = np.asarray(replicates[0]), standard_error(replicates)
    is_more = error > ROUNDING * np.abs(value)
    half = quantile(count_buckets(replicates)) * np.where(is_more, error, np.nan)
    low, high = (np.clip(end, *within) for end in (value - half, value + half))
    return Estimate(value, low, high)


def proportion(
    correct: Float[Array, "bucket ..."], count: Float[Array, "bucket ..."]
) -> Estimate[Array]:
    """Shares of right answers with Wilson's interval for the effective number of answers.

    That number is the count over the design effect: the variance by the jackknife over that of
    independent answers, at least 1. Few right or few wrong answers tell little about it, so one
    more such answer is taken to have the square root of the answers in a bucket as its effect:
    halfway between independent answers (1) and a bucket that is all right or all wrong. The
    quantile is that of t.
    """
    count = np.broadcast_to(count, correct.shape)
    replicates = share(leave_one_out(correct), leave_one_out(count))
    value, n = np.asarray(replicates[0]), count.sum(axis=0)
    independent = np.divide(value * (1 - value), n, out=np.full(value.shape, np.nan), where=n > 0)
    variance = standard_error(replicates) ** 2
    effect = np.divide(
        variance, independent, out=np.where(np.isnan(variance), np.nan, 1.0), where=independent > 0
    )
    n_buckets, n_rare = count_buckets(replicates), np.minimum(value, 1 - value) * n
    halfway = np.sqrt(n / np.maximum(n_buckets, 1))
    effective = n * (n_rare + 1) / (n_rare * np.maximum(effect, 1) + np.maximum(halfway, 1))
    spread = quantile(n_buckets) ** 2 / effective
    middle = (value + spread / 2) / (1 + spread)
    half = np.sqrt(spread * (value * (1 - value) + spread / 4)) / (1 + spread)
    low, high = np.maximum(middle - half, 0), np.minimum(middle + half, 1)
    # The interval of 0 ends at 0, and that of 1 at 1, whatever is rounded.
    return Estimate(value, np.minimum(low, value), np.maximum(high, value))
