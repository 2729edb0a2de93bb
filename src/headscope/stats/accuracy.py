"""Shares of right answers: tables by group, and the best head of a group held out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from numpy.typing import NDArray

from headscope.data.table import tidy_table
from headscope.stats.bucket import N_FOLDS, make_partitions
from headscope.stats.interval import proportion
from headscope.stats.ranking import Values
from headscope.stats.sums import Sums
from headscope.stats.tests import Difference, compare

__all__ = [
    "BEST_HEAD_COLUMNS", "DIFFERENCE_COLUMNS", "SCORE_COLUMNS", "BestHeads", "Choice", "best_head",
    "best_table", "choose_best", "difference_columns", "group_table", "rank_groups",
    "score_columns",
]  # fmt: skip

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


SCORE_COLUMNS = ("correct", "count", "accuracy", "low", "high")
BEST_HEAD_COLUMNS = (
    *("count", "layer", "head", "direction", "heldout_accuracy", "heldout_low", "heldout_high"),
    *("accuracy", "low", "high", "chosen_in", "folds", "other_layer", "other_head"),
)
DIFFERENCE_COLUMNS = (
    *("heldout_difference", "difference_low", "difference_high", "difference_error"),
    *("p_raw", "detectable"),
)

WHOLE = ("count", "layer", "head", "chosen_in", "folds", "other_layer", "other_head")


def best_table(rows: Sequence[dict[str, object]], columns: Sequence[str]) -> pd.DataFrame:
    """A table of best heads; numbers of heads are whole also where some are absent."""
    return pd.DataFrame(rows, columns=list(columns)).astype(dict.fromkeys(WHOLE, "Int64"))


def group_table(sums: Sums, kind: str, axes: Mapping[str, Sequence[Any]]) -> pd.DataFrame:
    """Right answers (the sum `kind`), their number and share, for the cells of all groups.

    Of `axes` the first names the groups; the last are those of the sum, and between these may be
    some with one label.
    """
    groups, *others = axes.values()
    parts = [score_columns(sums.values(kind, g), sums.values("count", g)) for g in groups]
    values = {}
    for name in SCORE_COLUMNS:
        column = np.stack([part[name] for part in parts])  # [group, ...]
        between = [1] * (1 + len(others) - column.ndim)
        values[name] = column.reshape(len(groups), *between, *column.shape[1:])
    return tidy_table(axes, values)


def score_columns(correct: Float[Array, "bucket ..."], count: Float[Array, "bucket ..."]) -> Any:
    """The columns of a table of right answers; the count's axes lead those of the answers."""
    count = count.reshape(len(count), *[1] * (correct.ndim - 1))
    numbers = (correct.sum(axis=0).astype(int), count.sum(axis=0).astype(int))
    return dict(zip(SCORE_COLUMNS, (*numbers, *proportion(correct, count)), strict=True))


def rank_groups(values: Mapping[str, Values], groups: Sequence[str]) -> dict[str, Values]:
    """Right answers minus wrong ones of each example, by group; NaN where it asks nothing."""
    scores = {}
    for group in groups:
        correct, count = values[f"correct/{group}"], values[f"count/{group}"]
        count = count.reshape(len(count), *[1] * (correct.ndim - 1))  # [example, 1, ...]
        scores[group] = np.where(count > 0, 2 * correct - count, np.nan)
    return scores


def best_head(
    correct: Float[Array, "bucket layer head direction"],
    count: Float[Array, " bucket"],
    directions: Sequence[str],
) -> tuple[Choice, dict[str, object]]:
    """The best head with its better direction, and the columns of a table that tell of it."""
    flat = correct.reshape(len(correct), -1)
    best = choose_best(flat, count)
    layer, head, direction = map(int, np.unravel_index(best.place, correct.shape[1:]))
    other: tuple[Any, ...] = (pd.NA, pd.NA)
    if best.other is not None:
        other = tuple(int(i) + 1 for i in np.unravel_index(best.other, correct.shape[1:])[:2])
    heldout = proportion(best.heldout, best.heldout_count)
    on_all = proportion(flat[:, best.place], count)
    numbers = (
        *(int(count.sum()), layer + 1, head + 1, directions[direction]),
        *(float(part) for part in (*heldout, *on_all)),
        *(best.n_agreeing, best.n_folds, *other),
    )
    return best, dict(zip(BEST_HEAD_COLUMNS, numbers, strict=True))


def difference_columns(best: Choice, baseline: Float[Array, " bucket"]) -> dict[str, float]:
    """The held-out head against a baseline over the same words, as columns of a table.

    `p_raw` is one-sided: small where the head is better, near 1 where the baseline is.
    """
    is_heldout = best.heldout_count > 0
    difference: Difference = compare(
        best.heldout, np.where(is_heldout, baseline, 0.0), best.heldout_count
    )
    numbers = (*difference[:4], difference.p_better, difference.detectable)
    return dict(zip(DIFFERENCE_COLUMNS, numbers, strict=True))


@dataclass(frozen=True)
class BestHeads:
    """A table of best heads, and the answers of all heads and their number for each of its rows."""

    table: pd.DataFrame
    answers: Mapping[Any, tuple[Array, Array]]  # [bucket, layer, head, direction], [bucket]

    def frame(self, draws: Sequence["BestHeads"] = ()) -> pd.DataFrame:
        """The table, with what the best heads of untrained models find beside it."""
        if not draws:
            return self.table
        rows = [
            _untrained_columns([correct, *(draw.answers[row][0] for draw in draws)], count)
            for row, (correct, count) in self.answers.items()
        ]
        return self.table.join(pd.DataFrame(rows, index=self.table.index))


def _untrained_columns(
    correct: Sequence[Float[Array, "bucket layer head direction"]], count: Float[Array, " bucket"]
) -> dict[str, float]:
    """The model's best head (of the first array) against those of untrained models, held out.

    Their accuracy is the mean over draws, with its spread; the difference is paired by bucket.
    """
    model, *draws = (choose_best(part.reshape(len(part), -1), count) for part in correct)
    shares = [draw.heldout.sum() / max(draw.heldout_count.sum(), 1) for draw in draws]
    mean = np.mean([draw.heldout for draw in draws], axis=0)  # [bucket]
    difference = compare(model.heldout, mean, model.heldout_count)
    return {
        "untrained_accuracy": float(np.mean(shares)),
        "untrained_spread": float(np.std(shares, ddof=1)) if len(shares) > 1 else np.nan,
        "untrained_difference": difference.value,
        "untrained_difference_low": difference.low,
        "untrained_difference_high": difference.high,
    }
