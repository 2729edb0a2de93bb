"""The one statistical axis: documents in 64 buckets, and buckets in 8 folds.

Words of one document are alike, so they are no independent evidence. A stable hash puts every
document whole into a bucket, and totals are kept by bucket. Intervals come from leaving out one
bucket after another, held-out scores from choosing on the buckets of seven folds and scoring on the
eighth. No random number is drawn, so the result is the same in any order, batch or shard.
"""

from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from headscope.data.example import stable_hash

__all__ = ["N_BUCKETS", "N_FOLDS", "add_folds", "bucket_of", "fold_of", "leave_one_out"]

N_BUCKETS = 64
N_FOLDS = 8

Array = NDArray[np.float64]


def bucket_of(document: str) -> int:
    """The bucket of a document, the same on every machine and in every run.

    >>> bucket_of("wiki.txt:1"), bucket_of("wiki.txt:1")
    (14, 14)
    """
    return stable_hash(document) % N_BUCKETS


def fold_of(bucket: Any) -> Any:
    """The fold of a bucket, or of an array of buckets."""
    return bucket % N_FOLDS


def add_folds(totals: Float[Array, "bucket ..."]) -> Float[Array, "fold ..."]:
    """The sums over the buckets of each fold, each in the place of a bucket of that fold.

    >>> add_folds(np.arange(64.0)).tolist()
    [224.0, 232.0, 240.0, 248.0, 256.0, 264.0, 272.0, 280.0]
    """
    by_fold: Array = totals.reshape(-1, N_FOLDS, *totals.shape[1:]).sum(axis=0)
    return by_fold


def leave_one_out(totals: Float[Array, "bucket ..."]) -> Float[Array, "replicate ..."]:
    """The sum over all buckets (replicate 0), then the sums without each of them.

    >>> leave_one_out(np.array([1.0, 0.0, 5.0]))
    array([6., 5., 6., 1.])
    """
    whole = totals.sum(axis=0, keepdims=True)
    return np.concatenate([whole, whole - totals])
