"""From the totals of arcs found to tables: every head, offsets, the best of both, treebanks."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headscope.data.table import empty_tables, head_axes, tidy_table
from headscope.stats import accuracy
from headscope.stats.accuracy import choose_best
from headscope.stats.estimates import Summary, estimate_array
from headscope.stats.sums import PLAIN, Sums
from headscope.stats.tests import compare, holm, max_null_p, pool_random_effects

__all__ = [
    "COLUMNS", "DERIVED_POBJ", "DERIVED_PREP", "NULL", "PAPER_TABLE_1", "TABLES", "UNIVERSAL",
    "correct_p", "find_shared_heads", "is_single", "is_universal", "make_tables", "name_in_paper",
    "pool_treebanks",
]  # fmt: skip

# Clark et al. 2019, Table 1 (BERT-base on WSJ, Stanford labels): head, accuracy, best offset.
PAPER_TABLE_1 = {
    "all": ("7-6", 34.5, 26.3),
    "prep": ("7-4", 66.7, 61.8),
    "pobj": ("9-6", 76.3, 34.6),
    "det": ("8-11", 94.3, 51.7),
    "nn": ("4-10", 70.4, 70.2),
    "nsubj": ("8-2", 58.5, 45.5),
    "amod": ("4-10", 75.6, 68.3),
    "dobj": ("8-10", 86.8, 40.0),
    "advmod": ("7-6", 48.8, 40.2),
    "aux": ("4-10", 81.1, 71.5),
    "poss": ("7-6", 80.5, 47.7),
    "auxpass": ("4-10", 82.5, 40.5),
    "ccomp": ("8-1", 48.8, 12.4),
    "mark": ("8-2", 50.7, 14.5),
    "prt": ("6-7", 99.1, 91.4),
}
# Universal Dependencies' names for the same relations.
UNIVERSAL = {
    "obj": "dobj",
    "aux:pass": "auxpass",
    "compound": "nn",
    "nmod:poss": "poss",
    "compound:prt": "prt",
    "prep (derived)": "prep",
    "pobj (derived)": "pobj",
}
DERIVED_PREP, DERIVED_POBJ = "prep (derived)", "pobj (derived)"  # from the UD relation `case`
ONLY_UNIVERSAL = {"case", "obj", "obl", "nmod", "nmod:poss", "aux:pass", "compound"}


def is_universal(relations: Collection[str]) -> bool:
    """Whether these are labels of Universal Dependencies, and not of Stanford.

    >>> is_universal(["det", "case", "obj"]), is_universal(["det", "pobj", "dobj"])
    (True, False)
    """
    return not ONLY_UNIVERSAL.isdisjoint(relations)


def name_in_paper(relation: str) -> str:
    """The Stanford label of a relation, as the paper has it."""
    return UNIVERSAL.get(relation, relation)


DIRECTIONS = ["dependent-to-head", "head-to-dependent"]
OFFSETS = [offset for offset in range(-10, 11) if offset != 0]
ALL, ALL_CONTENT = "all", "all (no punct or root)"
POSSESSIVES = ("poss", "nmod:poss")  # Stanford's and Universal Dependencies' name
NO_RULE, MARKED, BY_MARK = "{} (no 's rule)", "{} (before 's)", "{} (by the 's)"
NULL = f"{PLAIN}null"  # the sum of moved arcs
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


def make_tables(sums: Sums) -> dict[str, Summary]:
    """Every head on every relation, the offsets, and the best of both."""
    relations = _list_relations(sums)
    if not relations:
        return {**empty_tables(TABLES)}
    n_layers, n_heads = sums.values("correct", relations[0]).shape[1:3]
    heads = {**head_axes(n_layers, n_heads), "direction": DIRECTIONS}
    every = accuracy.group_table(sums, "correct", {"relation": relations, **heads})
    offsets: dict[str, Sequence[Any]] = {"relation": relations, "direction": DIRECTIONS}
    offsets["offset"] = OFFSETS
    for column, ratio in {
        "visible_share": ("visible", "count"),
        "visible_accuracy": ("correct", "visible"),
    }.items():
        every[column] = _ratios(sums, *ratio, n_heads)
    columns = ["relation", "layer", "head", "direction", "visible_share", "visible_accuracy"]
    rows = [_best_row(sums, relation) for relation in relations]
    best_columns = [name for name in TABLES["dependency-best"] if name not in columns[4:]]
    best = accuracy.best_table(rows, best_columns)
    best["p_value"] = correct_p(best["relation"], best["p_raw"])
    tables = {
        "dependency": every,
        "dependency-offset": accuracy.group_table(sums, "offset", offsets),
        "dependency-best": best.merge(every[columns], how="left"),
        "dependency-special": _special_table(sums, heads),
        "dependency-length": _length_table(sums),
        "dependency-directions": _direction_table(sums, relations),
    }
    frames = {name: table[list(TABLES[name])] for name, table in tables.items()}
    answers = {r: (sums.values("correct", r), sums.values("count", r)) for r in relations}
    return {**frames, "dependency-best": accuracy.BestHeads(frames["dependency-best"], answers)}


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
    asked = (ALL, DERIVED_PREP, DERIVED_POBJ)
    is_question = relations.map(lambda relation: relation in asked or is_single(relation))
    return holm(np.asarray(p_raw.where(is_question.astype(bool)), np.float64))


def _chance(sums: Sums, relation: str, accuracy: float, count: float) -> dict[str, float]:
    """What the best of all heads finds of moved arcs, and how often it is as good as here."""
    is_drawn = relation in sums.labels(NULL)
    if not is_drawn or relation in POSSESSIVES:  # whose rule for 's was not drawn
        return {"chance_accuracy": np.nan, "chance_p_value": np.nan}
    best = sums.values(NULL, relation)[0].max(axis=(0, 1, 2)) / count  # [draw]
    return {"chance_accuracy": best.mean(), "chance_p_value": max_null_p(accuracy, best)}


def pool_treebanks(best: pd.DataFrame) -> pd.DataFrame:
    """For each relation of two treebanks or more: mean, spread, and what to expect of another."""
    rows = []
    for relation, rows_of_relation in best.groupby("relation", sort=False):
        known = rows_of_relation[rows_of_relation["difference_error"] > 0]
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


def _list_relations(sums: Sums) -> list[str]:
    """The relations that were counted, most frequent first."""
    counts = {name: sums.values("count", name).sum() for name in sums.labels("count")}
    relations = [relation for relation, count in counts.items() if count > 0]
    return sorted(relations, key=lambda relation: (-counts[relation], relation))


def _ratios(sums: Sums, above: str, below: str, n_heads: int) -> NDArray[np.float64]:
    """One over the other for every relation, head and direction, in the order of the table."""
    parts = [sums.ratio(above, below, relation) for relation in _list_relations(sums)]
    wide = [part if "head" in part.dims else part.expand_dims(head=n_heads) for part in parts]
    return np.stack([part.transpose("layer", "head", "direction") for part in wide]).ravel()


def _special_table(sums: Sums, heads: Mapping[str, Sequence[Any]]) -> pd.DataFrame:
    """Arcs found where special tokens compete too; empty for a model that has none."""
    if "lost" not in sums:
        return empty_tables(TABLES)["dependency-special"]
    alone = sums.ratio("correct", "count", ALL_CONTENT)  # [layer, head, direction]
    lost = estimate_array(sums.mean("lost", "count", ALL_CONTENT))
    values = {
        "accuracy": alone,
        "with_special": alone - lost.value,
        "difference": -lost.value,
        "low": -lost.high,
        "high": -lost.low,
    }
    return tidy_table(heads, values)


def _length_table(sums: Sums) -> pd.DataFrame:
    """The mean length of the arcs of each relation, in words."""
    rows = []
    for relation in _list_relations(sums):
        if relation == ALL_CONTENT or is_single(relation):
            length = estimate_array(sums.mean("length", "count", relation))
            rows.append((relation, *map(float, length)))
    return pd.DataFrame(rows, columns=list(TABLES["dependency-length"]))


def _best_row(sums: Sums, relation: str) -> dict[str, object]:
    """The best head of a relation, held out, against the offset that is best on all data.

    An offset sees what the head sees.
    """
    count = sums.values("count", relation)  # [bucket]
    head, columns = accuracy.best_head(sums.values("correct", relation), count, DIRECTIONS)
    direction = DIRECTIONS.index(str(columns["direction"]))
    offsets = sums.values("offset", relation)[:, direction]  # [bucket, offset]
    best_offset = int(offsets.sum(axis=0).argmax())
    return {
        "relation": relation,
        **columns,
        "offset": OFFSETS[best_offset],
        "baseline_accuracy": offsets[:, best_offset].sum() / count.sum(),
        **accuracy.difference_columns(head, offsets[:, best_offset]),
        **_chance(sums, relation, float(str(columns["accuracy"])), count.sum()),
        **_choice(sums, relation, columns),
    }


def _choice(sums: Sums, relation: str, best: Mapping[str, Any]) -> dict[str, float]:
    """How often the head word's own row chooses its dependent, where it has one such dependent.

    For a best head that reads the dependent's column; the column's winner may well attend to
    another word more.
    """
    if relation not in sums.labels("choice") or best["direction"] == DIRECTIONS[0]:
        return {"choice_count": np.nan, "choice_share": np.nan}
    count = sums.values("choices", relation).sum()
    n_found = sums.values("choice", relation)[:, best["layer"] - 1, best["head"] - 1].sum()
    return {"choice_count": count, "choice_share": n_found / count if count else np.nan}


def _direction_table(sums: Sums, relations: Sequence[str]) -> pd.DataFrame:
    """The best head of each direction, held out, and their difference, paired by bucket.

    The p-values are corrected by Holm.
    """
    rows = []
    for relation in relations:
        count = sums.values("count", relation)  # [bucket]
        correct = sums.values("correct", relation)
        ways = [
            choose_best(correct[..., way].reshape(len(correct), -1), count)
            for way in range(len(DIRECTIONS))
        ]
        n_heldout = ways[0].heldout_count.sum()
        shares = [way.heldout.sum() / n_heldout if n_heldout else np.nan for way in ways]
        difference = compare(ways[0].heldout, ways[1].heldout, ways[0].heldout_count)
        rows.append((relation, int(count.sum()), *shares, *difference[:3], difference.p_value))
    table = pd.DataFrame(rows, columns=list(DIRECTION_COLUMNS))
    return table.assign(p_value=correct_p(table["relation"], table["p_value"]))


HEAD = ["layer", "head", "direction"]
COLUMNS = (
    *("relation", "treebanks", *HEAD, "serves", "best_in", "accuracy", "lowest_accuracy"),
    *("transfer_accuracy", "own_accuracy"),
)


def find_shared_heads(every: pd.DataFrame, best: pd.DataFrame) -> pd.DataFrame:
    """For each relation of two treebanks or more the head that serves most of them.

    A head serves a treebank if the whole interval of its accuracy is above the best fixed offset
    there. Of heads that serve as many, the one with the highest mean accuracy is taken; if none
    serves any, so is the highest of all. `transfer_accuracy` is held out by treebank: the head with
    the highest mean accuracy on the others, scored on each.
    """
    baselines = best.set_index(["treebank", "relation"])["baseline_accuracy"]
    rows = []
    for relation, part in every.groupby("relation", sort=False):
        by_bank = part.pivot_table(index=HEAD, columns="treebank", values="accuracy")
        if by_bank.shape[1] < 2:
            continue
        lows = part.pivot_table(index=HEAD, columns="treebank", values="low")
        lows = lows.reindex(index=by_bank.index, columns=by_bank.columns)
        line = [baselines.get((bank, relation), float("nan")) for bank in by_bank]
        serves = (lows > line).sum(axis=1)
        mean = by_bank.mean(axis=1)
        top = mean[serves == serves.max()].idxmax()
        best_heads = best[best["relation"] == relation].set_index("treebank")
        records = best_heads.to_dict("records")
        is_best = [tuple(row[name] for name in HEAD) == top for row in records]
        rows.append(
            (
                *(relation, by_bank.shape[1], *top, int(serves[top]), sum(is_best)),
                *(mean[top], by_bank.loc[top].min(), _transfer(by_bank)),
                best_heads["heldout_accuracy"].mean(),
            )
        )
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _transfer(by_bank: pd.DataFrame) -> float:
    """The mean over treebanks of the head that is best on the others."""
    values = by_bank.to_numpy(float)  # [head, treebank]
    scores = [
        values[int(np.nanmean(np.delete(values, bank, axis=1), axis=1).argmax()), bank]
        for bank in range(values.shape[1])
    ]
    return float(np.mean(scores))
