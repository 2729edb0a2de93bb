"""The one statistical axis: documents in 64 buckets, and buckets in 8 folds.

Words of one document are alike, so they are no independent evidence. A stable hash of its content
puts every document whole into a bucket, whatever it is called, and totals are kept by bucket.
Intervals come from leaving out one bucket after another, held-out scores from choosing on the
buckets of seven folds and scoring on the eighth. No random number is drawn, so the result is the
same in any order, batch or shard.
"""

from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from headscope.data.example import Example, stable_hash

__all__ = [
    "N_BUCKETS", "N_FOLDS", "N_PARTITIONS", "add_folds", "bucket_of", "fold_of", "leave_one_out",
    "make_partitions",
]  # fmt: skip

N_BUCKETS = 64
N_FOLDS = 8
N_PARTITIONS = 8  # ways to make folds, over which held-out scores are averaged

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


def bucket_of(example: Example) -> int:
    """The bucket of an example's document, the same on every machine and in every run.

    An example that is not of a sample goes by the name of its document.
    """
    key = example.document_key
    return (stable_hash(example.own_document) if key is None else key) % N_BUCKETS


def make_partitions(count: Float[Array, " bucket"]) -> Int[Ints, "partition bucket"]:
    """Several ways to put the buckets into folds, each fold with about as many words.

    In the order of their size, each eight buckets go to the eight folds, there and back again; the
    next way begins each eight at another fold.

    >>> make_partitions(np.arange(16.0))[0]
    array([0, 1, 2, 3, 4, 5, 6, 7, 7, 6, 5, 4, 3, 2, 1, 0])
    """
    order = np.lexsort((np.arange(len(count)), -count))
    turn, fold = np.divmod(np.arange(len(count)), N_FOLDS)
    fold = np.where(turn % 2, N_FOLDS - 1 - fold, fold)
    ways = np.arange(N_PARTITIONS)[:, None]  # [partition, 1]
    folds = np.empty((N_PARTITIONS, len(count)), np.int64)
    folds[:, order] = (fold + ways * turn) % N_FOLDS
    return folds


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
