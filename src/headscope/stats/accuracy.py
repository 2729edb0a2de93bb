"""Shares of right answers: tables by group, the best candidate held out, and what is chance.

The totals are `KIND/GROUP` [fold, replicate, ...] and `count/GROUP` [fold, replicate, 1, 1].
"""

from collections.abc import Mapping, Sequence
from math import erfc, sqrt
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float
from numpy.typing import NDArray

from headscope.data.table import tidy_table
from headscope.stats.ranking import Values
from headscope.stats.tally import Tally, estimate, share

__all__ = [
    "SCORE_COLUMNS", "Choice", "choose_best", "choose_head", "estimate_columns", "group_table",
    "holm", "p_value_of", "rank_groups", "share",
]  # fmt: skip

SCORE_COLUMNS = ("correct", "count", "accuracy", "low", "high")

Array = NDArray[np.float64]


class Choice(NamedTuple):
    """A best candidate: which, its score on all data, and held out, by replicate."""

    place: int
    accuracy: Float[Array, " replicate"]
    heldout: Float[Array, " replicate"]


def group_table(
    tally: Tally, kind: str, group: str, axes: Mapping[str, Sequence[Any]]
) -> pd.DataFrame:
    """Right answers, their number and share, for the cells of one group; `axes` names them."""
    correct = tally.totals[f"{kind}/{group}"].sum(axis=0)  # [replicate, ...]
    count = tally.totals[f"count/{group}"].sum(axis=0)
    count = count.reshape(len(count), *[1] * (correct.ndim - 1))
    values = (correct[0].astype(int), count[0].astype(int), *estimate(share(correct, count)))
    return tidy_table(axes, dict(zip(SCORE_COLUMNS, values, strict=True)))


def rank_groups(values: Mapping[str, Values], groups: Sequence[str]) -> dict[str, Values]:
    """Right answers minus wrong ones of each example, by group; NaN where it asks nothing."""
    scores = {}
    for group in groups:
        correct, count = values[f"correct/{group}"], values[f"count/{group}"]
        count = count.reshape(len(count), *[1] * (correct.ndim - 1))  # [example, 1, ...]
        scores[group] = np.where(count > 0, 2 * correct - count, np.nan)
    return scores


def choose_best(
    correct: Float[Array, "fold replicate candidate"], count: Float[Array, "fold replicate"]
) -> Choice:
    """The candidate with most correct on all data, and the held-out score of choosing by fold."""
    place = int(correct[:, 0].sum(axis=0).argmax())
    accuracy = share(correct[..., place].sum(axis=0), count.sum(axis=0))
    chosen = correct[:, 0].argmax(axis=-1)  # the best candidate of each fold
    heldout = correct[0, :, chosen[1]] + correct[1, :, chosen[0]]  # [replicate]
    return Choice(place, accuracy, share(heldout, count.sum(axis=0)))


def choose_head(
    correct: Float[Array, "fold replicate layer head direction"],
    count: Float[Array, "fold replicate"],
    directions: Sequence[str],
) -> tuple[Choice, dict[str, object]]:
    """The best head with its better direction, and the columns of a table that name it."""
    best = choose_best(correct.reshape(*count.shape, -1), count)
    layer, head, direction = map(int, np.unravel_index(best.place, correct.shape[2:]))
    named = {"layer": layer + 1, "head": head + 1, "direction": directions[direction]}
    return best, {"count": int(count[:, 0].sum()), **named}


def estimate_columns(
    replicates: Float[Array, " replicate"], value: str, low: str = "low", high: str = "high"
) -> dict[str, float]:
    """An estimate and its interval as columns of a table."""
    return dict(zip((value, low, high), map(float, estimate(replicates)), strict=True))


def p_value_of(difference: Float[Array, " replicate"]) -> float:
    """Two-sided: is the difference zero? The replicates' spread is its standard error."""
    draws = difference[1:][~np.isnan(difference[1:])]
    spread = draws.std(ddof=1) if len(draws) > 1 else 0.0
    return erfc(abs(difference[0]) / spread / sqrt(2)) if spread > 0 else float("nan")


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
