"""From totals of arcs to tables: every head, every offset, and the best of both, held out.

The totals are `correct/RELATION` [fold, replicate, layer, head, direction], `offset/RELATION`
[fold, replicate, 1, offset] and `count/RELATION` [fold, replicate, 1, 1].
"""

from collections.abc import Callable, Sequence
from math import erfc, sqrt
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float
from numpy.typing import NDArray

from headscope.data.replicates import N_FOLDS
from headscope.data.table import head_axes, tidy_table
from headscope.data.tally import Tally, estimate

__all__ = [
    "BEST_COLUMNS",
    "DIRECTIONS",
    "SCORE_COLUMNS",
    "best_heads",
    "best_table",
    "offset_table",
    "score_table",
]

DIRECTIONS = ["dependent-to-head", "head-to-dependent"]
SCORE_COLUMNS = ("correct", "count", "accuracy", "low", "high")
BEST_COLUMNS = (
    "relation",
    "count",
    "layer",
    "head",
    "direction",
    "accuracy",
    "low",
    "high",
    "heldout_accuracy",
    "offset",
    "baseline_accuracy",
    "heldout_baseline_accuracy",
    "heldout_difference",
    "difference_low",
    "difference_high",
    "p_value",
)

Array = NDArray[np.float64]
Head = tuple[int, int, int]  # layer, head, direction


class Choice(NamedTuple):
    """A best candidate: which, its score on all data, and held out, by replicate."""

    place: int
    accuracy: Float[Array, " replicate"]
    heldout: Float[Array, " replicate"]


def relations_of(tally: Tally) -> list[str]:
    """The relations that were counted, most frequent first."""
    counts = {
        name.removeprefix("count/"): total[:, 0].sum()
        for name, total in tally.totals.items()
        if name.startswith("count/")
    }
    found = [relation for relation, count in counts.items() if count > 0]
    return sorted(found, key=lambda relation: (-counts[relation], relation))


def score_table(tally: Tally) -> pd.DataFrame:
    """Accuracy of every head in both directions on every relation."""

    def axes(correct: Array) -> dict[str, Sequence[Any]]:
        n_layers, n_heads, _ = correct.shape[1:]
        return {**head_axes(n_layers, n_heads), "direction": DIRECTIONS}

    table = _table_by_relation(tally, "correct", axes)
    return table[["relation", "direction", "layer", "head", *SCORE_COLUMNS]]


def offset_table(tally: Tally, offsets: Sequence[int]) -> pd.DataFrame:
    """Accuracy of every fixed offset on every relation: the baseline without a model."""
    return _table_by_relation(tally, "offset", lambda _: {"layer": [1], "offset": offsets}).drop(
        columns="layer"
    )


def best_table(tally: Tally, offsets: Sequence[int]) -> pd.DataFrame:
    """For each relation the best head and the best offset, on all data and held out.

    Held out: chosen on one fold and scored on the other, and the other way round. The p-value is
    that of the held-out difference (normal, with the bootstrap's spread), Holm-corrected.
    """
    rows = [_best_row(tally, relation, offsets) for relation in relations_of(tally)]
    table = pd.DataFrame(rows)
    table["p_value"] = holm(table["p_value"].to_numpy(dtype=float))
    return table[list(BEST_COLUMNS)]


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


def _best_row(tally: Tally, relation: str, offsets: Sequence[int]) -> dict[str, object]:
    count = tally.totals[f"count/{relation}"][:, :, 0, 0]  # [fold, replicate]
    correct = tally.totals[f"correct/{relation}"]
    shape = correct.shape[2:]  # layer, head, direction
    head = choose_best(correct.reshape(*count.shape, -1), count)
    offset = choose_best(tally.totals[f"offset/{relation}"][:, :, 0], count)
    layer, number, direction = np.unravel_index(head.place, shape)
    accuracy, difference = estimate(head.accuracy), estimate(head.heldout - offset.heldout)
    return {
        "relation": relation,
        "count": int(count[:, 0].sum()),
        "layer": int(layer) + 1,
        "head": int(number) + 1,
        "direction": DIRECTIONS[direction],
        "accuracy": float(accuracy.value),
        "low": float(accuracy.low),
        "high": float(accuracy.high),
        "heldout_accuracy": head.heldout[0],
        "offset": offsets[offset.place],
        "baseline_accuracy": offset.accuracy[0],
        "heldout_baseline_accuracy": offset.heldout[0],
        "heldout_difference": float(difference.value),
        "difference_low": float(difference.low),
        "difference_high": float(difference.high),
        "p_value": _p_value(head.heldout - offset.heldout),
    }


def choose_best(
    correct: Float[Array, "fold replicate candidate"], count: Float[Array, "fold replicate"]
) -> Choice:
    """The candidate with most correct on all data, and the held-out score of choosing by fold."""
    place = int(correct[:, 0].sum(axis=0).argmax())
    accuracy = _divide(correct[..., place].sum(axis=0), count.sum(axis=0))
    chosen = correct[:, 0].argmax(axis=-1)  # the best candidate of each fold
    heldout = correct[0, :, chosen[1]] + correct[1, :, chosen[0]]  # [replicate]
    return Choice(place, accuracy, _divide(heldout, count.sum(axis=0)))


def best_heads(tally: Tally, min_count: int = 20) -> tuple[tuple[Head, ...], ...]:
    """For each fold, the best head of every relation that it has enough words of."""
    chosen: list[tuple[Head, ...]] = []
    for fold in range(N_FOLDS):
        count = {r: tally.totals[f"count/{r}"][fold, 0].sum() for r in relations_of(tally)}
        plain = [r for r, n in count.items() if n >= min_count and not r.startswith("all")]
        heads = []
        for relation in plain or ["all"]:
            correct = tally.totals[f"correct/{relation}"][fold, 0]  # [layer, head, direction]
            layer, head, direction = np.unravel_index(correct.argmax(), correct.shape)
            heads.append((int(layer), int(head), int(direction)))
        chosen.append(tuple(heads))
    return tuple(chosen)


def _table_by_relation(
    tally: Tally, kind: str, axes: Callable[[Array], dict[str, Sequence[Any]]]
) -> pd.DataFrame:
    parts = []
    for relation in relations_of(tally):
        correct = tally.totals[f"{kind}/{relation}"].sum(axis=0)  # [replicate, ...]
        count = tally.totals[f"count/{relation}"].sum(axis=0)
        count = count.reshape(len(count), *[1] * (correct.ndim - 1))
        accuracy = estimate(_divide(correct, count))
        values = {
            "correct": correct[0].astype(int),
            "count": count[0].astype(int),
            "accuracy": accuracy.value,
            "low": accuracy.low,
            "high": accuracy.high,
        }
        parts.append(tidy_table({"relation": [relation], **axes(correct)}, values))
    return pd.concat(parts, ignore_index=True)


def _divide(above: Array, below: Array) -> Array:
    below = np.broadcast_to(below, above.shape)
    quotient: Array = np.divide(above, below, out=np.full(above.shape, np.nan), where=below != 0)
    return quotient


def _p_value(difference: Float[Array, " replicate"]) -> float:
    """Two-sided: is the difference zero? The replicates' spread is its standard error."""
    draws = difference[1:][~np.isnan(difference[1:])]
    spread = draws.std(ddof=1) if len(draws) > 1 else 0.0
    return erfc(abs(difference[0]) / spread / sqrt(2)) if spread > 0 else float("nan")
