"""From the totals of arcs found to tables: every head, offsets, the best of both, and more."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headscope.data.table import empty_tables, head_axes, tidy_table
from headscope.stats import accuracy
from headscope.stats.heldout import choose_best
from headscope.stats.tally import PLAIN, Tally
from headscope.stats.tests import compare, holm, max_null_p, pool_random_effects

__all__ = ["TABLES", "correct_p", "is_single", "make_tables", "pool_treebanks"]

DIRECTIONS = ["dependent-to-head", "head-to-dependent"]
OFFSETS = [offset for offset in range(-10, 11) if offset != 0]
ALL, ALL_CONTENT = "all", "all (no punct or root)"
POSSESSIVES = ("poss", "nmod:poss")  # Stanford's and Universal Dependencies' name
NO_RULE, MARKED, BY_MARK = "{} (no 's rule)", "{} (before 's)", "{} (by the 's)"
LOST = "lost to special"  # arcs of ALL_CONTENT that are found only while no special token competes
NULL = f"{PLAIN}null/"  # begins the names of totals of moved arcs
POOLED = ("", "_low", "_high", "_spread", "_predicted_low", "_predicted_high")
TREEBANK_COLUMNS = (
    *("relation", "treebanks"),
    *(f"{name}{part}" for name in ("heldout_accuracy", "heldout_difference") for part in POOLED),
    "documents",
)
DIRECTION_COLUMNS = (
    *("relation", "count", "dependent_to_head", "head_to_dependent"),
    *("difference", "low", "high", "p_value"),
)

NORMAL = 1.96  # half of a 95 % interval in standard errors
TABLES: dict[str, tuple[str, ...]] = {
    "dependency": (
        *("relation", "direction", "layer", "head", *accuracy.SCORE_COLUMNS),
        *("visible_share", "visible_accuracy"),
    ),
    "dependency-offset": ("relation", "direction", "offset", *accuracy.SCORE_COLUMNS),
    "dependency-best": (
        *("relation", *accuracy.BEST_HEAD_COLUMNS, "offset", "baseline_accuracy"),
        *(*accuracy.DIFFERENCE_COLUMNS, "p_value", "chance_accuracy", "chance_p_value"),
        *("visible_share", "visible_accuracy", "choice_count", "choice_share"),
    ),
    "dependency-special": (
        *("direction", "layer", "head", "accuracy", "with_special"),
        *("difference", "low", "high"),
    ),
    "dependency-length": ("relation", "words", "low", "high"),
    "dependency-directions": DIRECTION_COLUMNS,
}


def make_tables(tally: Tally) -> dict[str, pd.DataFrame]:
    """Every head on every relation, the offsets, and the best of both."""
    relations = _list_relations(tally)
    if not relations:
        return empty_tables(TABLES)
    n_layers, n_heads = tally.totals[f"correct/{relations[0]}"].shape[1:3]
    heads = {**head_axes(n_layers, n_heads), "direction": DIRECTIONS}
    offsets: dict[str, Sequence[Any]] = {"layer": [1], "direction": DIRECTIONS}
    offsets["offset"] = OFFSETS
    every = _table_by_relation(tally, "correct", heads)
    for column, ratio in {
        "visible_share": ("visible", "count"),
        "visible_accuracy": ("correct", "visible"),
    }.items():
        every[column] = _ratios(tally, *ratio, (n_layers, n_heads, len(DIRECTIONS)))
    columns = ["relation", "layer", "head", "direction", "visible_share", "visible_accuracy"]
    rows = [_best_row(tally, relation) for relation in relations]
    own = [name for name in TABLES["dependency-best"] if name not in columns[4:]]
    best = accuracy.best_table(rows, own)
    best["p_value"] = correct_p(best["relation"], best["p_raw"])
    tables = {
        "dependency": every,
        "dependency-offset": _table_by_relation(tally, "offset", offsets),
        "dependency-best": best.merge(every[columns], how="left"),
        "dependency-special": _special_table(tally, heads),
        "dependency-length": _length_table(tally),
        "dependency-directions": _direction_table(tally, relations),
    }
    return {name: table[list(TABLES[name])] for name, table in tables.items()}


def is_single(relation: str) -> bool:
    """Whether it is a relation of the treebank: no sum over several, and not without its rule.

    >>> is_single("nmod:poss"), is_single("nmod:poss (no 's rule)"), is_single("all")
    (True, False, False)
    """
    return relation != ALL and " (" not in relation


def correct_p(relations: "pd.Series[str]", p_raw: "pd.Series[float]") -> NDArray[np.float64]:
    """Holm's p-values over relations and `all`, each question once.

    Possessives with and without their rule, and `all` without punctuation, ask one of these again:
    they have none.

    >>> correct_p(pd.Series(["all", "poss", "poss (no 's rule)"]), pd.Series([0.04, 0.01, 0.01]))
    array([0.04, 0.02,  nan])
    """
    is_question = relations.map(lambda relation: relation == ALL or is_single(relation))
    return holm(np.asarray(p_raw.where(is_question.astype(bool)), np.float64))


def _chance(tally: Tally, relation: str, accuracy: float, count: float) -> dict[str, float]:
    """What the best of all heads finds of moved arcs, and how often it is as good as here."""
    total = tally.totals.get(f"{NULL}{relation}")  # [1, layer, head, direction, draw]
    if total is None or relation in POSSESSIVES:  # whose rule for 's was not drawn
        return {"chance_accuracy": np.nan, "chance_p_value": np.nan}
    best = total[0].max(axis=(0, 1, 2)) / count  # [draw]
    return {"chance_accuracy": best.mean(), "chance_p_value": max_null_p(accuracy, best)}


def pool_treebanks(best: pd.DataFrame) -> pd.DataFrame:
    """For each relation of two treebanks or more: mean, spread, and what to expect of another."""
    rows = []
    for relation, found in best.groupby("relation", sort=False):
        known = found[found["difference_error"] > 0]
        if len(known) > 1:
            accuracy = known["heldout_accuracy"].to_numpy(float)
            width = known["heldout_high"] - known["heldout_low"]
            errors = width.to_numpy(float) / (2 * NORMAL)
            gains, gain_errors = (
                known[name].to_numpy(float) for name in ("heldout_difference", "difference_error")
            )
            errors = np.maximum(errors, known["difference_error"].min())
            parts = [
                pool_random_effects(accuracy, errors, lowest=0.0),
                pool_random_effects(gains, gain_errors),
            ]
            flat = [
                n for p in parts for n in (*p.mean, p.spread, p.predicted_low, p.predicted_high)
            ]
            rows.append((relation, len(known), *flat, int(known["documents"].sum())))
    return pd.DataFrame(rows, columns=list(TREEBANK_COLUMNS))


def _list_relations(tally: Tally) -> list[str]:
    """The relations that were counted, most frequent first."""
    counts = {
        name.removeprefix("count/"): total.sum()
        for name, total in tally.totals.items()
        if name.startswith("count/")
    }
    found = [relation for relation, count in counts.items() if count > 0]
    return sorted(found, key=lambda relation: (-counts[relation], relation))


def _table_by_relation(tally: Tally, kind: str, axes: Mapping[str, Sequence[Any]]) -> pd.DataFrame:
    return accuracy.group_table(tally, kind, {"relation": _list_relations(tally), **axes})


def _ratios(tally: Tally, above: str, below: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """One over the other for every relation, head and direction, in the order of the table."""
    parts = [
        np.broadcast_to(tally.ratio(f"{above}/{relation}", f"{below}/{relation}").value, shape)
        for relation in _list_relations(tally)
    ]
    return np.stack(parts).ravel()


def _special_table(tally: Tally, heads: Mapping[str, Sequence[Any]]) -> pd.DataFrame:
    """Arcs found where special tokens compete too; empty for a model that has none."""
    below = f"count/{ALL_CONTENT}"
    if LOST not in tally.totals:
        return empty_tables(TABLES)["dependency-special"]
    alone = tally.ratio(f"correct/{ALL_CONTENT}", below).value  # [layer, head, direction]
    lost = tally.ratio(LOST, below)
    values = {
        "accuracy": alone,
        "with_special": alone - lost.value,
        "difference": -lost.value,
        "low": -lost.high,
        "high": -lost.low,
    }
    return tidy_table(heads, values)


def _length_table(tally: Tally) -> pd.DataFrame:
    """The mean length of the arcs of each relation, in words."""
    rows = []
    for relation in _list_relations(tally):
        if relation == ALL_CONTENT or is_single(relation):
            found = tally.ratio(f"length/{relation}", f"count/{relation}")
            rows.append((relation, *(float(part.ravel()[0]) for part in found)))
    return pd.DataFrame(rows, columns=list(TABLES["dependency-length"]))


def _best_row(tally: Tally, relation: str) -> dict[str, object]:
    """The best head of a relation, held out, against the offset that is best on all data.

    An offset sees what the head sees.
    """
    count = tally.totals[f"count/{relation}"][:, 0, 0]  # [bucket]
    head, columns = accuracy.best_head(tally.totals[f"correct/{relation}"], count, DIRECTIONS)
    direction = DIRECTIONS.index(str(columns["direction"]))
    offsets = tally.totals[f"offset/{relation}"][:, 0, direction]  # [bucket, offset]
    best_offset = int(offsets.sum(axis=0).argmax())
    return {
        "relation": relation,
        **columns,
        "offset": OFFSETS[best_offset],
        "baseline_accuracy": offsets[:, best_offset].sum() / count.sum(),
        **accuracy.difference_columns(head, offsets[:, best_offset]),
        **_chance(tally, relation, float(str(columns["accuracy"])), count.sum()),
        **_choice(tally, relation, columns),
    }


def _choice(tally: Tally, relation: str, best: Mapping[str, Any]) -> dict[str, float]:
    """How often the head word's own row chooses its dependent, where it has one such dependent.

    For a best head that reads the dependent's column; the column's winner may well attend to
    another word more.
    """
    found = tally.totals.get(f"choice/{relation}")  # [bucket, layer, head]
    if found is None or best["direction"] == DIRECTIONS[0]:
        return {"choice_count": np.nan, "choice_share": np.nan}
    count = tally.totals[f"choices/{relation}"].sum()
    n_found = found[:, best["layer"] - 1, best["head"] - 1].sum()
    return {"choice_count": count, "choice_share": n_found / count if count else np.nan}


def _direction_table(tally: Tally, relations: Sequence[str]) -> pd.DataFrame:
    """The best head of each direction, held out, and their difference, paired by bucket.

    The p-values are corrected by Holm.
    """
    rows = []
    for relation in relations:
        count = tally.totals[f"count/{relation}"][:, 0, 0]  # [bucket]
        correct = tally.totals[f"correct/{relation}"]
        ways = [
            choose_best(correct[..., way].reshape(len(correct), -1), count)
            for way in range(len(DIRECTIONS))
        ]
        n_heldout = ways[0].heldout_count.sum()
        shares = [way.heldout.sum() / n_heldout if n_heldout else np.nan for way in ways]
        found = compare(ways[0].heldout, ways[1].heldout, ways[0].heldout_count)
        rows.append((relation, int(count.sum()), *shares, *found[:3], found.p_value))
    table = pd.DataFrame(rows, columns=list(DIRECTION_COLUMNS))
    return table.assign(p_value=correct_p(table["relation"], table["p_value"]))
