"""Several trainings of one thing: the spread between seeds as a part of the interval."""

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from headscope.stats.interval import LEVEL, Estimate, quantile
from headscope.stats.tests import POWER, Difference

__all__ = ["add_seeds", "add_spread", "half_spread", "seed_spread"]

Array = NDArray[np.float64]


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
