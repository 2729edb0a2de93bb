"""Differences of numbers of two runs, whatever they are, with intervals and tests.

Both are given as replicates, `[replicate, ...]`: first on all data, then without each bucket.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from headscope.stats.bucket import N_FOLDS, make_partitions
from headscope.stats.interval import LEVEL, align, count_buckets, estimate, standard_error
from headscope.stats.tests import FEW, sign_flip_p

__all__ = ["Best", "Differences", "best_of", "paired_difference", "unpaired_difference", "widen"]

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
    """Over different documents: variances add, degrees of freedom by Welch and Satterthwaite."""
    value = first[0] - other[0]
    errors = np.stack([standard_error(first), standard_error(other)])  # [run, number]
    freedoms = np.stack([count_buckets(first), count_buckets(other)]) - 1.0
    variance = (errors**2).sum(axis=0)
    is_tested = (freedoms > 0).all(axis=0) & (variance > 0)
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
