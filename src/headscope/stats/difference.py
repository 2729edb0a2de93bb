"""Differences of numbers of two runs or several layers, with intervals and tests.

Both are given as replicates, `[replicate, ...]`: first on all data, then without each bucket.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from headscope.stats.bucket import N_FOLDS, make_partitions
from headscope.stats.interval import LEVEL, Estimate, align, count_buckets, estimate, standard_error
from headscope.stats.tests import FEW, sign_flip_p

__all__ = [
    "Best", "Differences", "Step", "best_of", "correlate", "find_step", "over_layers",
    "paired_difference", "ratio_estimate", "unpaired_difference", "untrained_columns", "widen",
]  # fmt: skip

LEAST_BUCKETS = 10  # of each run, where a difference is not paired
CHUNK = 500  # numbers whose signs are flipped at a time

Array = NDArray[np.float64]


class Differences(NamedTuple):
    """One minus the other; NaN where there is no interval, or nothing to test."""

    value: Array
    low: Array
    high: Array
    p_value: Array  # two-sided, not corrected


def paired_difference(
    first: Float[Array, "replicate number"], other: Float[Array, "replicate number"]
) -> Differences:
    """Over the same documents: the same bucket is left out of both.

    The test is t over buckets; where there are few of them, all ways to flip the signs of their
    pseudo-values. Numbers that are the same without every bucket have no test.
    """
    first, other = align(first, other)
    replicates = first - other
    value, low, high = estimate(replicates)
    n_buckets, error = count_buckets(replicates), standard_error(replicates)
    is_tested = (n_buckets > 1) & (error > 0)
    t = np.divide(value, error, out=np.zeros_like(value), where=is_tested)
    p_value = np.where(is_tested, 2 * stdtr(np.maximum(n_buckets - 1, 1), -np.abs(t)), np.nan)
    few = np.flatnonzero(is_tested & (n_buckets <= FEW))
    for start in range(0, len(few), CHUNK):
        some = few[start : start + CHUNK]
        p_value[some] = _flip_signs(replicates[:, some], n_buckets[some])
    return Differences(value, low, high, p_value)


def unpaired_difference(
    first: Float[Array, "replicate number"], other: Float[Array, "replicate number"]
) -> Differences:
    """Over different documents: variances add, degrees of freedom by Welch and Satterthwaite.

    Not of a number that is in fewer than 10 buckets of a run: their spread may be small by luck.
    """
    value = first[0] - other[0]
    errors = np.stack([standard_error(first), standard_error(other)])  # [run, number]
    freedoms = np.stack([count_buckets(first), count_buckets(other)]) - 1.0
    variance = (errors**2).sum(axis=0)
    is_tested = (freedoms >= LEAST_BUCKETS - 1).all(axis=0) & (variance > 0)
    share = np.divide(errors**4, freedoms, out=np.ones_like(errors), where=freedoms > 0)
    freedom = np.divide(variance**2, share.sum(axis=0), out=np.ones_like(variance), where=is_tested)
    error = np.where(is_tested, np.sqrt(variance), np.nan)
    half = stdtrit(freedom, (1 + LEVEL) / 2) * error
    p_value = 2 * stdtr(freedom, -np.abs(value) / error)
    return Differences(value, value - half, value + half, p_value)


def widen(first: Differences, other: Differences) -> Differences:
    """The first with an interval that holds both, and the larger p value."""
    low, high = np.fmin(first.low, other.low), np.fmax(first.high, other.high)
    return Differences(first.value, low, high, np.fmax(first.p_value, other.p_value))


class Best(NamedTuple):
    """The largest of several numbers, and replicates of it that are too low and too high."""

    place: int  # on all data
    held_out: Float[Array, " replicate"]  # too low where the choice errs
    largest: Float[Array, " replicate"]  # too high by the luck of the choice


def best_of(replicates: Float[Array, "replicate number"]) -> Best:
    """The largest on all data, held out, and as it is.

    What a bucket adds to a number is its pseudo-value, n whole - (n - 1) rest. For each of 8 folds
    the largest is chosen by the buckets of the other seven and scored by its pseudo-values in the
    fold; the held-out value is the mean score over 8 ways to make the folds.
    """
    whole, rest = replicates[0], replicates[1:]
    is_used = ~np.isnan(rest).all(axis=1)
    rest = np.where(np.isnan(rest), whole, rest)  # nothing of a number in a bucket: no change
    largest = np.where(is_used, rest.max(axis=1), np.nan)
    largest = np.concatenate([[whole.max()], largest])
    place, n_buckets = int(whole.argmax()), int(is_used.sum())
    pseudo = n_buckets * whole - (n_buckets - 1) * rest  # [bucket, number]
    buckets = np.arange(len(rest))
    if n_buckets < 2:
        return Best(place, largest, largest)
    scores = []
    for folds in make_partitions(is_used.astype(float)):
        in_fold = (np.arange(N_FOLDS)[:, None] == folds) & is_used  # [fold, bucket]
        by_fold = in_fold @ pseudo  # [fold, number]
        chosen = (by_fold.sum(axis=0) - by_fold).argmax(axis=1)[folds]
        scores.append(pseudo[buckets, chosen])
    scored = np.mean(scores, axis=0)  # [bucket]
    mean = scored[is_used].mean()
    # the mean without each bucket's score
    without = np.where(is_used, (n_buckets * mean - scored) / (n_buckets - 1), np.nan)
    return Best(place, np.concatenate([[mean], without]), largest)


def _flip_signs(replicates: Array, n_buckets: NDArray[np.int64]) -> Float[Array, " number"]:
    """How many of all ways to turn the signs of pseudo-values give a sum as large."""
    whole, rest = replicates[0], replicates[1:]
    pseudo = np.nan_to_num(n_buckets * whole - (n_buckets - 1) * rest)  # [bucket, number]
    pseudo = pseudo[np.abs(pseudo).max(axis=1) > 0]  # buckets that any of the numbers has
    if len(pseudo) > FEW:  # numbers over different buckets: each by itself
        return np.concatenate(
            [
                _flip_signs(_drop_empty(replicates[:, [i]]), n_buckets[[i]])
                for i in range(replicates.shape[1])
            ]
        )
    return sign_flip_p(pseudo)


def _drop_empty(replicates: Array) -> Array:
    is_kept = ~np.isnan(replicates[:, 0])
    is_kept[0] = True
    return replicates[is_kept]


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
