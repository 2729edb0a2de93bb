"""Tests of differences, paired by bucket of documents or over seeds, corrected for being many."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from headscope.stats.bucket import leave_one_out
from headscope.stats.interval import (
    LEVEL,
    Estimate,
    count_buckets,
    estimate,
    quantile,
    share,
    standard_error,
)

__all__ = [
    "Difference", "add_seeds", "add_spread", "compare", "half_spread", "holm", "max_null_p",
    "pool_random_effects", "seed_spread", "sign_flip_p",
]  # fmt: skip

FEW = 12  # buckets up to which all ways to flip their signs are tried: 4,096
ROUNDING = 1e-9
POWER = 0.8  # with which a difference is to be found

Array = NDArray[np.float64]


class Difference(NamedTuple):
    """A difference of two shares over the same words, and whether it could be chance."""

    value: float
    low: float
    high: float
    error: float  # its standard error
    p_value: float  # two-sided; NaN where there is nothing to test
    p_better: float  # one-sided: how often a system that is no better gains as much
    detectable: float  # the smallest true difference that would be found in 4 of 5 studies


def compare(
    found: Float[Array, " bucket"], other: Float[Array, " bucket"], count: Float[Array, " bucket"]
) -> Difference:
    """Right answers of one system minus those of another, per answer, paired by bucket.

    The test is t over buckets; where there are few of them, the exact sign-flip test.
    """
    replicates = share(leave_one_out(found - other), leave_one_out(count))
    value, low, high = (float(np.clip(part, -1, 1)) for part in estimate(replicates))  # of shares
    n_buckets, error = int(count_buckets(replicates)), float(standard_error(replicates))
    if n_buckets < 2:
        return Difference(value, low, high, *[np.nan] * 4)
    if n_buckets <= FEW:
        differences = (found - other)[count > 0]
        p_value, p_better = float(sign_flip_p(differences)), float(sign_flip_better_p(differences))
    else:
        t = value / error if error > 0 else np.nan
        p_value, p_better = (
            float(p) for p in (2 * stdtr(n_buckets - 1, -abs(t)), stdtr(n_buckets - 1, -t))
        )
    both = quantile(np.array(n_buckets)) + quantile(np.array(n_buckets), 2 * POWER - 1)
    detectable = float(both * error) if error > 0 else np.nan
    return Difference(value, low, high, error, p_value, p_better, detectable)


def sign_flip_p(differences: Float[Array, "bucket ..."]) -> Float[Array, "..."]:
    """How many of all ways to turn the signs of the differences give a sum as large.

    >>> sign_flip_p(np.array([[1.0], [2.0], [3.0]]))
    array([0.25])
    """
    sums = np.abs(_flip_signs(differences))  # [way, number]
    p_value: Array = (sums >= np.abs(differences.sum(axis=0)) - ROUNDING).mean(axis=0)
    return p_value


def sign_flip_better_p(differences: Float[Array, " bucket"]) -> np.float64:
    """How many of all ways to turn the signs of the differences give as large a sum, one-sided.

    >>> float(sign_flip_better_p(np.array([1.0, 2.0, 3.0])))
    0.125
    """
    return np.float64((_flip_signs(differences) >= differences.sum() - ROUNDING).mean())


def _flip_signs(differences: Float[Array, "bucket ..."]) -> Float[Array, "way ..."]:
    """The sums for all ways to turn signs."""
    n_buckets = len(differences)
    signs = 1 - 2.0 * ((np.arange(2**n_buckets)[:, None] >> np.arange(n_buckets)) & 1)
    return np.asarray(signs @ differences)


def max_null_p(best: float, null_best: Float[Array, " draw"]) -> float:
    """How often the best of all candidates is as good where nothing is to be found.

    The data at hand count as one draw, so it is never 0.
    """
    return float((1 + (null_best >= best).sum()) / (1 + len(null_best)))


def holm(p_values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Holm's step-down correction; what is not a number stays so and does not count.

    >>> holm(np.array([0.01, 0.04, 0.03]))
    array([0.03, 0.06, 0.06])
    """
    corrected = np.full(len(p_values), np.nan)
    order = [i for i in np.argsort(p_values) if not np.isnan(p_values[i])]
    highest = 0.0
    for rank, i in enumerate(order):
        highest = max(highest, min(1.0, (len(order) - rank) * p_values[i]))
        corrected[i] = highest
    return corrected


class Pooled(NamedTuple):
    """A mean over corpora with its interval, their spread, and what another corpus would show."""

    mean: Estimate[float]
    spread: float  # standard deviation of the true values between corpora
    predicted_low: float
    predicted_high: float


def pool_random_effects(values: Array, errors: Array, lowest: float = -1.0) -> Pooled:
    """Corpora as draws from many: DerSimonian and Laird's spread, intervals by t (k - 1, k - 2).

    Values lie between `lowest` and 1 (0 for shares, -1 for their differences), so intervals do.

    >>> pooled = pool_random_effects(np.array([0.5, 0.6, 0.7]), np.array([0.01, 0.01, 0.01]))
    >>> round(pooled.mean.value, 2), round(pooled.spread, 2)
    (0.6, 0.1)
    """
    k = len(values)
    weights = 1 / errors**2
    fixed = (weights * values).sum() / weights.sum()
    excess = (weights * (values - fixed) ** 2).sum() - (k - 1)
    scale = weights.sum() - (weights**2).sum() / weights.sum()
    spread = np.sqrt(max(0.0, excess / scale)) if k > 1 else 0.0
    weights = 1 / (errors**2 + spread**2)
    mean = float((weights * values).sum() / weights.sum())
    error = float(np.sqrt(1 / weights.sum()))
    half = float(quantile(np.array(k))) * error
    reach = float(quantile(np.array(k - 1))) * float(np.hypot(error, spread))
    low, high, predicted_low, predicted_high = (
        float(np.clip(end, lowest, 1.0))
        for end in (mean - half, mean + half, mean - reach, mean + reach)
    )
    return Pooled(Estimate(mean, low, high), float(spread), predicted_low, predicted_high)


def seed_spread(values: Float[Array, " seed"]) -> float:
    """The standard deviation between seeds; NaN for a single one."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")


def half_spread(values: Float[Array, " seed"]) -> float:
    """Half the 95 % interval of the mean over seeds, by t; 0 for a single one.

    >>> round(half_spread(np.array([0.1, 0.2, 0.3])), 3)
    0.248
    """
    n = len(values)
    if n < 2:
        return 0.0
    return float(quantile(np.array(n)) * seed_spread(values) / np.sqrt(n))


def add_spread(
    documents: Estimate[float], values: Float[Array, " seed"], within: tuple[float, float]
) -> Estimate[float]:
    """An interval over documents, widened by the spread between seeds, which is independent of it.

    >>> add_spread(Estimate(0.5, 0.47, 0.53), np.array([0.5, 0.5]), (0.0, 1.0))
    Estimate(value=0.5, low=0.47, high=0.53)
    """
    value, low, high = documents
    half = half_spread(values)
    low, high = value - np.hypot(value - low, half), value + np.hypot(high - value, half)
    return Estimate(value, *(float(np.clip(end, *within).round(12)) for end in (low, high)))


def add_seeds(difference: Difference, n_buckets: int, *values: Float[Array, " seed"]) -> Difference:
    """A difference over documents with the variance of the means over seeds of both sides.

    Degrees of freedom are Welch and Satterthwaite's. Without seeds it stays as it is.
    """
    spreads = [
        (seed_spread(by_seed) ** 2 / len(by_seed), len(by_seed) - 1)
        for by_seed in values
        if len(by_seed) > 1
    ]
    if not any(variance > 0 for variance, _ in spreads) or not difference.error >= 0:
        return difference
    parts = [(difference.error**2, n_buckets - 1), *spreads]
    variance = sum(part for part, _ in parts)
    freedom = variance**2 / sum(part**2 / n for part, n in parts)
    error, value = float(np.sqrt(variance)), difference.value
    half = float(stdtrit(freedom, (1 + LEVEL) / 2)) * error
    p_value, p_better = (
        2 * float(stdtr(freedom, -abs(value) / error)),
        float(stdtr(freedom, -value / error)),
    )
    detectable = half + float(stdtrit(freedom, POWER)) * error
    return Difference(value, value - half, value + half, error, p_value, p_better, detectable)
