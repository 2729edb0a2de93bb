"""The best of many candidates, and its score on documents that had no part in the choice."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from headscope.stats.bucket import N_FOLDS, make_partitions

__all__ = ["Choice", "choose_best"]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


class Choice(NamedTuple):
    """The best candidate on all data, and those that are chosen without each fold of documents."""

    place: int
    by_fold: Int[Ints, "partition fold"]  # -1 where a fold has no data, or all of it
    by_bucket: Int[Ints, "partition bucket"]  # what was chosen without the bucket's fold
    heldout: Float[Array, " bucket"]  # right answers of each bucket, by what was chosen without it
    heldout_count: Float[Array, " bucket"]  # the answers that could be held out

    @property
    def n_folds(self) -> int:
        """How many folds have data to score a choice on."""
        return int((self.by_fold >= 0).sum())

    @property
    def n_agreeing(self) -> int:
        """How many of them chose the best candidate on all data."""
        return int((self.by_fold == self.place).sum())

    @property
    def other(self) -> int | None:
        """The candidate that was chosen most often in its place."""
        others = self.by_fold[(self.by_fold >= 0) & (self.by_fold != self.place)]
        return int(np.bincount(others).argmax()) if len(others) else None


def choose_best(
    correct: Float[Array, "bucket candidate"], count: Float[Array, " bucket"]
) -> Choice:
    """The candidate with most right answers, and how it does held out.

    For each of 8 folds of documents the candidate is chosen on the other seven and scored on the
    fold. The score is the mean over 8 ways to make the folds. Of equal candidates the first is
    chosen.

    >>> correct = np.zeros((64, 2)); correct[:, 1] = 1
    >>> int(choose_best(correct, np.ones(64)).heldout.sum())
    64
    """
    buckets, whole = np.arange(len(count)), correct.sum(axis=0)
    by_fold, by_bucket, scores = [], [], []
    for folds in make_partitions(count):
        in_fold = np.arange(N_FOLDS)[:, None] == folds  # [fold, bucket]
        n_inside = in_fold @ count
        is_scored = (n_inside > 0) & (n_inside < count.sum())
        rest = whole - in_fold @ correct  # [fold, candidate]
        by_fold.append(np.where(is_scored, rest.argmax(axis=1), -1))
        by_bucket.append(np.where(count > 0, by_fold[-1][folds], -1))
        scores.append(np.where(by_bucket[-1] >= 0, correct[buckets, by_bucket[-1]], 0.0))
    chosen = np.stack(by_bucket)  # [partition, bucket]
    return Choice(
        place=int(whole.argmax()),
        by_fold=np.stack(by_fold),
        by_bucket=chosen,
        heldout=np.mean(scores, axis=0),
        heldout_count=np.where((chosen >= 0).all(axis=0), count, 0.0),
    )
