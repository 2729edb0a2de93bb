"""Numbers that are derived from several layers: means, steps of a curve, ratios, differences.

All are computed on replicates, `[replicate, layer, ...]`: first on all data, then without each
bucket. So their intervals are their own, and not made of the intervals of their parts.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from headscope.stats.interval import Estimate, align, count_buckets, estimate

__all__ = [
    "Step", "correlate", "find_step", "over_layers", "ratio_estimate", "untrained_columns",
]  # fmt: skip

Array = NDArray[np.float64]


def over_layers(
    replicates: Float[Array, "replicate layer ..."], layers: Sequence[int]
) -> Float[Array, "replicate ..."]:
    """The mean over these layers, which are counted from 1.

    >>> over_layers(np.array([[1.0, 2.0, 4.0]]), [2, 3])
    array([3.])
    """
    mean: Array = replicates[:, [layer - 1 for layer in layers]].mean(axis=1)
    return mean


def ratio_estimate(above: Array, below: Array) -> Estimate[Array]:
    """One over the other with its interval, which is made of logarithms, so it is never below 0."""
    value, low, high = estimate(log_ratio(above, below))
    return Estimate(np.exp(value), np.exp(low), np.exp(high))


def log_ratio(above: Array, below: Array) -> Float[Array, "replicate ..."]:
    """The logarithm of one over the other; NaN where one of them is not above 0."""
    above, below = align(above, below)
    is_known = (above > 0) & (below > 0)
    ratio: Array = np.divide(above, below, out=np.full(above.shape, np.nan), where=is_known)
    return np.asarray(np.log(ratio), np.float64)


def correlate(
    first: Float[Array, "replicate layer"], other: Float[Array, "replicate layer_"]
) -> Float[Array, " replicate"]:
    """Pearson's correlation of two curves over layers; NaN for fewer than three, or a flat one.

    The longer one is read off at the depths of the shorter one's layers.

    >>> correlate(np.array([[1.0, 2.0, 4.0]]), np.array([[3.0, 5.0, 9.0]]))
    array([1.])
    """
    n_layers = min(first.shape[1], other.shape[1])
    if n_layers < 3:
        return np.full(len(first), np.nan)
    first, other = (_at_depths(curve, n_layers) for curve in (first, other))
    missing = np.isnan(first).all(axis=1) & np.isnan(other).all(axis=1)
    parts = [np.where(np.isnan(curve), curve[:1], curve) for curve in (first, other)]
    parts = [part - part.mean(axis=1, keepdims=True) for part in parts]
    above = (parts[0] * parts[1]).sum(axis=1)
    below = np.sqrt((parts[0] ** 2).sum(axis=1) * (parts[1] ** 2).sum(axis=1))
    correlations: Array = np.divide(
        above, below, out=np.full(len(first), np.nan), where=~missing & (below > 1e-12)
    )
    return correlations


def _at_depths(curve: Float[Array, "replicate layer"], n_layers: int) -> Array:
    """The curve at the middles of so many layers, by straight lines between its own."""
    depths = [(np.arange(n) + 0.5) / n for n in (n_layers, curve.shape[1])]
    return np.stack([np.interp(depths[0], depths[1], row) for row in curve])


class Step(NamedTuple):
    """The layer (from 1) at which a curve changes most; the first and last that may be it.

    Both are NaN where there are fewer than two buckets to tell.
    """

    layer: int
    low: float
    high: float


def find_step(curve: Float[Array, "replicate layer"], is_rise: bool = True) -> Step | None:
    """Where a curve over layers steps up (or down): of two levels, the split that fits best.

    A split before layer l fits by the difference of the means from l on and before it, times the
    root of n_before n_after / n; the square of this is what the two levels explain. Another layer
    may be the right one if its fit is not clearly worse: if the jackknife's 95 % interval of the
    difference of the two fits includes 0. None for one layer.

    >>> find_step(np.array([[0.1, 0.1, 0.5], [0.1, 0.1, 0.49], [0.1, 0.1, 0.51]]))
    Step(layer=3, low=3.0, high=3.0)
    """
    n_layers = curve.shape[1]
    if n_layers < 2 or np.isnan(curve[0]).any():
        return None
    splits = range(2, n_layers + 1)
    fits = np.stack([_fit(curve, first, is_rise) for first in splits], axis=1)  # [replicate, split]
    best = int(fits[0].argmax())
    if count_buckets(fits[:, best]) < 2:
        return Step(splits[best], np.nan, np.nan)
    worse = estimate(fits[:, [best]] - fits)
    # no interval: a fit that is always worse by as much, or the best one itself
    is_open = np.where(np.isnan(worse.low), worse.value <= 0, worse.low <= 0)
    layers = [layer for layer, may_be in zip(splits, is_open, strict=True) if may_be]
    return Step(splits[best], float(min(layers)), float(max(layers)))


def _fit(curve: Array, first: int, is_rise: bool) -> Float[Array, " replicate"]:
    n_before, n_after = first - 1, curve.shape[1] - first + 1
    change = curve[:, first - 1 :].mean(axis=1) - curve[:, : first - 1].mean(axis=1)
    weight = np.sqrt(n_before * n_after / curve.shape[1])
    fit: Array = weight * (change if is_rise else -change)
    return fit


def untrained_columns(replicates: Array, untrained: Sequence[Array]) -> dict[str, Array]:
    """The mean over untrained models, and by how much the model is above it, paired by bucket."""
    model, mean = align(replicates, np.mean(untrained, axis=0))
    value, low, high = estimate(model - mean)
    return {
        "untrained": mean[0],
        "untrained_difference": value,
        "untrained_difference_low": low,
        "untrained_difference_high": high,
    }
