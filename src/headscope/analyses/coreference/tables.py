"""From the totals of answers to tables: every head and rule, the best, and their gains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from headscope.analyses.coreference.rules import SYSTEMS
from headscope.data.example import KINDS
from headscope.data.table import head_axes
from headscope.stats import accuracy
from headscope.stats.accuracy import choose_best
from headscope.stats.bucket import leave_one_out
from headscope.stats.estimates import Summary, estimate_array
from headscope.stats.interval import (
    align,
    estimate,
    share,
)
from headscope.stats.sums import Sums
from headscope.stats.tests import holm

__all__ = [
    "CANDIDATES",
    "DIRECTIONS",
    "DISTANCES",
    "TABLES",
    "TABLE_COLUMNS",
    "TYPES",
    "make_tables",
    "system_table",
]

CANDIDATES = ["mentions", "words"]
DIRECTIONS = ["mention-to-antecedent", "antecedent-to-mention"]
RULES = [name.replace("-", "_") for name in SYSTEMS]
TABLE_COLUMNS = ("candidates", "system", "direction", "layer", "head", *accuracy.SCORE_COLUMNS)
BEST_COLUMNS = (
    *("candidates", *accuracy.BEST_HEAD_COLUMNS, *RULES),
    *(*accuracy.DIFFERENCE_COLUMNS, "p_value"),
    *("singletons", *(f"{rule}_with_singletons" for rule in RULES)),
)
CONTRAST_COLUMNS = ("candidates", "mention_type", "than", "difference", "low", "high")
TYPES = ["all", *KINDS]
NOMINAL = "nominal"
DISTANCES = {"1-4": 4, "5-9": 9, "10-19": 19, "20-49": 49, "50+": inf}  # words apart, at most

TABLES: dict[str, tuple[str, ...]] = {
    "coreference": ("mention_type", *TABLE_COLUMNS),
    "coreference-best": ("mention_type", *BEST_COLUMNS),
    "coreference-contrasts": CONTRAST_COLUMNS,
    "coreference-distance": ("distance", *TABLE_COLUMNS),
    "coreference-distance-best": ("distance", *BEST_COLUMNS),
    "coreference-length": ("mention_type", "words", "low", "high"),
}


def make_tables(sums: Sums) -> Mapping[str, Summary]:
    """Every head and baseline, and the best of them, by type of mention and by distance."""
    distances = list(DISTANCES)
    return {
        "coreference": system_table(sums, "mention_type", TYPES),
        "coreference-best": _best_table(sums, "mention_type", TYPES),
        "coreference-contrasts": _contrast_table(sums),
        "coreference-distance": system_table(sums, "distance", distances),
        "coreference-distance-best": _best_table(sums, "distance", distances).table,
        "coreference-length": _length_table(sums),
    }


def system_table(sums: Sums, label: str, groups: Sequence[str]) -> pd.DataFrame:
    """Accuracy of every head and of every baseline on each group; a baseline has no head."""
    n_layers, n_heads = sums.values("correct", groups[0]).shape[1:3]
    named: dict[str, Sequence[Any]] = {label: groups, "system": ["head"]}
    named |= head_axes(n_layers, n_heads)
    named |= {"direction": DIRECTIONS, "candidates": CANDIDATES}
    heads = accuracy.group_table(sums, "correct", named)
    named = {label: groups, "candidates": CANDIDATES[:1], "direction": [None]}
    named |= {"layer": [pd.NA], "head": [pd.NA], "system": list(SYSTEMS)}
    rules = accuracy.group_table(sums, "baseline", named)
    whole = {"layer": "Int64", "head": "Int64"}
    joined = pd.concat([heads.astype(whole), rules.astype(whole)], ignore_index=True)
    return joined[[label, *TABLE_COLUMNS]]


def _best_table(sums: Sums, label: str, groups: Sequence[str]) -> accuracy.BestHeads:
    """For each group and set of candidates the best head, and what rules find.

    The difference is that of the held-out head and the rule-based system; `p_value` is corrected by
    Holm over the rows.
    """
    rows, answers = [], {}
    for group in groups:
        count = sums.values("count", group)  # [bucket]
        for index, name in enumerate(CANDIDATES if count.sum() > 0 else ()):
            rows.append({label: group, "candidates": name, **_best_row(sums, group, index)})
            answers[group, name] = sums.values("correct", group)[..., index], count
    best = accuracy.best_table(rows, [label, *BEST_COLUMNS])
    best = best.assign(p_value=holm(best["p_raw"].to_numpy(dtype=float)))
    return accuracy.BestHeads(best, answers)


def _best_row(sums: Sums, group: str, candidates: int) -> dict[str, object]:
    count = sums.values("count", group)  # [bucket]
    correct = sums.values("correct", group)[..., candidates]
    best, columns = accuracy.best_head(correct, count, DIRECTIONS)
    rules = sums.values("baseline", group)  # [bucket, system]
    by_rule = rules.sum(axis=0) / count.sum()
    return {
        **columns,
        **{rule: by_rule[i] for i, rule in enumerate(RULES)},
        **accuracy.difference_columns(best, rules[:, list(SYSTEMS).index("rule-based")]),
        "singletons": int(sums.values("singletons").sum()),
        **_rules_with_singletons(sums, group),
    }


def _rules_with_singletons(sums: Sums, group: str) -> dict[str, float]:
    shares = sums.ratio("with singletons", "count", group).values  # [system]
    return {f"{rule}_with_singletons": share for rule, share in zip(RULES, shares, strict=True)}


def _length_table(sums: Sums) -> pd.DataFrame:
    """Words from a mention's head word back to that of its nearest antecedent, in the mean."""
    rows = []
    for kind in TYPES:
        length = estimate_array(sums.mean("length", "count", kind))
        rows.append((kind, *map(float, length)))
    return pd.DataFrame(rows, columns=list(TABLES["coreference-length"]))


def _contrast_table(sums: Sums) -> pd.DataFrame:
    """The head that is best over all mentions, held out, beside each rule, by type of mention.

    Rows such as `nominal - pronoun` say how much more it gains over the rule there than here.
    """
    rows: list[tuple[object, ...]] = []
    for index, candidates in enumerate(CANDIDATES):
        gains = _gains(sums, index)
        parts = dict(gains)
        for other in [kind for kind in ("pronoun", "proper") if kind in gains and NOMINAL in gains]:
            nominal, rest = align(gains[NOMINAL], gains[other])
            parts[f"{NOMINAL} - {other}"] = nominal - rest
        for name, gain in parts.items():
            difference = estimate(gain)
            rows += [
                (candidates, name, rule, *(float(part[i]) for part in difference))
                for i, rule in enumerate(SYSTEMS)
            ]
    return pd.DataFrame(rows, columns=list(CONTRAST_COLUMNS))


def _gains(sums: Sums, candidates: int) -> dict[str, Float[Any, "replicate system"]]:
    """By type of mention, replicates of the held-out head's accuracy minus that of each rule."""
    count = sums.values("count", "all")  # [bucket]
    buckets = np.arange(len(count))
    every = sums.values("correct", "all")[..., candidates].reshape(len(count), -1)
    chosen = choose_best(every, count).by_bucket  # [partition, bucket]
    is_scored = np.asarray((chosen >= 0).all(axis=0))  # [bucket]
    gains = {}
    for kind in TYPES:
        n = np.where(is_scored, sums.values("count", kind), 0.0)
        if not n.sum():
            continue
        heads = sums.values("correct", kind)[..., candidates].reshape(len(count), -1)
        n_correct = heads[buckets, chosen].mean(axis=0)[:, None]  # [bucket, 1]
        rules = sums.values("baseline", kind)  # [bucket, system]
        more = (n_correct - rules) * is_scored[:, None]  # [bucket, system]
        gains[kind] = share(leave_one_out(more), leave_one_out(n)[:, None])
    return gains
