"""The best of many candidates, and its score on documents that had no part in the choice."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from headscope.stats.bucket import N_FOLDS, fold_of

__all__ = ["Choice", "choose_best"]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


class Choice(NamedTuple):
    """The best candidate on all data, and those that each fold's other folds choose."""

    place: int
    by_fold: Int[Ints, " fold"]  # -1 where a fold has no data, or all of it
    heldout: Float[Array, " bucket"]  # right answers of each bucket, by what the other folds chose
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

    For each of 8 folds the candidate is chosen on the other seven, whole documents each, and scored
    on the fold; the scores add up. Of equal candidates the first is chosen.

    >>> correct = np.zeros((64, 2)); correct[:, 1] = 1
    >>> int(choose_best(correct, np.ones(64)).heldout.sum())
    64
    """
    buckets = np.arange(len(count))
    in_fold = np.arange(N_FOLDS)[:, None] == fold_of(buckets)  # [fold, bucket]
    n_inside, n_all = in_fold @ count, count.sum()
    rest = correct.sum(axis=0) - in_fold @ correct  # [fold, candidate]
    is_scored = (n_inside > 0) & (n_inside < n_all)
    by_fold = np.where(is_scored, rest.argmax(axis=1), -1)
    chosen = by_fold[fold_of(buckets)]  # [bucket]
    found = correct[buckets, np.maximum(chosen, 0)]
    return Choice(
        place=int(correct.sum(axis=0).argmax()),
        by_fold=by_fold,
        heldout=np.where(chosen >= 0, found, 0.0),
        heldout_count=np.where(chosen >= 0, count, 0.0),
    )
