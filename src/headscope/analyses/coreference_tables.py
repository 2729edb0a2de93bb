"""From totals of right antecedents to tables: every head and baseline, and the best held out.

The totals of a group are `correct/GROUP` [fold, replicate, layer, head, direction, candidates],
`baseline/GROUP` [fold, replicate, 1, system] and `count/GROUP` [fold, replicate, 1, 1].
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from headscope.analyses.accuracy import SCORE_COLUMNS, choose_best, group_table, share
from headscope.analyses.antecedent_rules import SYSTEMS
from headscope.analyses.antecedents import CANDIDATES, DIRECTIONS
from headscope.data.table import head_axes
from headscope.data.tally import Tally, estimate

__all__ = ["BEST_COLUMNS", "TABLE_COLUMNS", "best_table", "system_table"]

TABLE_COLUMNS = ("candidates", "system", "direction", "layer", "head", *SCORE_COLUMNS)
BEST_COLUMNS = (
    "candidates",
    "count",
    "layer",
    "head",
    "direction",
    "accuracy",
    "low",
    "high",
    "heldout_accuracy",
    "nearest",
    "head_match",
    "rule_based",
    "heldout_difference",
    "difference_low",
    "difference_high",
)


def system_table(tally: Tally, label: str, groups: Sequence[str]) -> pd.DataFrame:
    """Accuracy of every head and of every baseline on each group; a baseline has no head."""
    heads, rules = [], []
    for group in groups:
        n_layers, n_heads = tally.totals[f"correct/{group}"].shape[2:4]
        named = {label: [group], "system": ["head"], **head_axes(n_layers, n_heads)}
        axes = {**named, "direction": DIRECTIONS, "candidates": CANDIDATES}
        heads.append(group_table(tally, "correct", group, axes))
        named = {label: [group], "candidates": CANDIDATES[:1], "direction": [None]}
        axes = {**named, "layer": [pd.NA], "head": [pd.NA], "system": list(SYSTEMS)}
        rules.append(group_table(tally, "baseline", group, axes))
    whole = {"layer": "Int64", "head": "Int64"}
    joined = pd.concat([part.astype(whole) for part in (*heads, *rules)], ignore_index=True)
    return joined[[label, *TABLE_COLUMNS]]


def best_table(tally: Tally, label: str, groups: Sequence[str]) -> pd.DataFrame:
    """For each group and set of candidates the best head, and what rules find.

    Held out: chosen on one half of the documents and scored on the other, and the other way round.
    The difference is that of the held-out head and the rule-based system.
    """
    rows = [
        {label: group, "candidates": name, **_best_row(tally, group, place)}
        for group in groups
        for place, name in enumerate(CANDIDATES)
        if tally.totals[f"count/{group}"][:, 0].sum() > 0
    ]
    return pd.DataFrame(rows, columns=[label, *BEST_COLUMNS])


def _best_row(tally: Tally, group: str, candidates: int) -> dict[str, object]:
    count = tally.totals[f"count/{group}"][:, :, 0, 0]  # [fold, replicate]
    correct = tally.totals[f"correct/{group}"][..., candidates]
    best = choose_best(correct.reshape(*count.shape, -1), count)
    layer, head, direction = np.unravel_index(best.place, correct.shape[2:])
    rules = tally.totals[f"baseline/{group}"][:, :, 0].sum(axis=0)  # [replicate, system]
    by_rule = share(rules, count.sum(axis=0)[:, None])
    accuracy = estimate(best.accuracy)
    difference = estimate(best.heldout - by_rule[:, list(SYSTEMS).index("rule-based")])
    return {
        "count": int(count[:, 0].sum()),
        "layer": int(layer) + 1,
        "head": int(head) + 1,
        "direction": DIRECTIONS[direction],
        "accuracy": float(accuracy.value),
        "low": float(accuracy.low),
        "high": float(accuracy.high),
        "heldout_accuracy": best.heldout[0],
        **{name.replace("-", "_"): by_rule[0, i] for i, name in enumerate(SYSTEMS)},
        "heldout_difference": float(difference.value),
        "difference_low": float(difference.low),
        "difference_high": float(difference.high),
    }
