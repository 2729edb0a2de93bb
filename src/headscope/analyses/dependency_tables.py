"""From totals of arcs to tables: every head, every offset, and the best of both, held out.

The totals are `correct/RELATION` [fold, replicate, layer, head, direction], `offset/RELATION`
[fold, replicate, 1, offset] and `count/RELATION` [fold, replicate, 1, 1].
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from headscope.analyses.accuracy import (
    SCORE_COLUMNS,
    choose_best,
    group_table,
    holm,
    p_value,
)
from headscope.data.replicates import N_FOLDS
from headscope.data.table import head_axes
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

Head = tuple[int, int, int]  # layer, head, direction


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
    n_layers, n_heads, _ = tally.totals[f"correct/{relations_of(tally)[0]}"].shape[2:]
    axes = {**head_axes(n_layers, n_heads), "direction": DIRECTIONS}
    table = _table_by_relation(tally, "correct", axes)
    return table[["relation", "direction", "layer", "head", *SCORE_COLUMNS]]


def offset_table(tally: Tally, offsets: Sequence[int]) -> pd.DataFrame:
    """Accuracy of every fixed offset on every relation: the baseline without a model."""
    table = _table_by_relation(tally, "offset", {"layer": [1], "offset": offsets})
    return table.drop(columns="layer")


def best_table(tally: Tally, offsets: Sequence[int]) -> pd.DataFrame:
    """For each relation the best head and the best offset, on all data and held out.

    Held out: chosen on one fold and scored on the other, and the other way round. The p-value is
    that of the held-out difference (normal, with the bootstrap's spread), Holm-corrected.
    """
    rows = [_best_row(tally, relation, offsets) for relation in relations_of(tally)]
    table = pd.DataFrame(rows)
    table["p_value"] = holm(table["p_value"].to_numpy(dtype=float))
    return table[list(BEST_COLUMNS)]


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
        "p_value": p_value(head.heldout - offset.heldout),
    }


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


def _table_by_relation(tally: Tally, kind: str, axes: Mapping[str, Sequence[Any]]) -> pd.DataFrame:
    parts = [
        group_table(tally, kind, relation, {"relation": [relation], **axes})
        for relation in relations_of(tally)
    ]
    return pd.concat(parts, ignore_index=True)
