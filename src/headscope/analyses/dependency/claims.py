"""Section 4.2 and Table 1: single heads and syntactic relations."""

from collections.abc import Callable
from functools import partial

import pandas as pd

from headscope.analyses.dependency.measure import DIRECTIONS
from headscope.data.table import Tables
from headscope.view.claim import (
    Claim,
    Outcome,
    in_each_corpus,
    judge,
    name_head,
    straddles,
    top_row,
)
from headscope.view.numbers import POINTS, SHARE, percent, row_estimate

__all__ = ["ALPHA", "CLAIMS", "MIN_COUNT", "PAPER_TABLE_1", "name_in_paper"]

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
}
MIN_COUNT = 50  # words; the accuracy of a rarer relation says little
WELL, OVERALL = 0.75, 0.5
SUBSTANTIAL, SLIGHT, MANY = 0.1, 0.1, 0.25
ALPHA = 0.05
FROM_DEPENDENT = DIRECTIONS[0]
TOO_FEW = f"The treebank has no such relation with at least {MIN_COUNT} words."
NO_POBJ = (
    "The treebank has no pobj, which is Stanford's label: in Universal Dependencies the "
    "preposition hangs on its noun."
)


def check_overall(tables: Tables) -> Outcome:
    """The best head finds less than half of all arcs."""
    rows = tables["dependency-best"].query("relation == 'all'")
    if rows.empty:
        return Outcome(None, "The treebank has no words.")
    row = rows.iloc[0]
    found = row_estimate(row, "accuracy")
    caveat = " The interval includes 50.0 %: this may be chance." * straddles(found, OVERALL)
    shows = (
        f"The best head, {name_head(row)}, finds {SHARE.estimate(found)} of all arcs "
        f"({_held_out(row)}), the best offset {_baseline(row)}.{caveat}"
    )
    return Outcome(found.value < OVERALL, shows)


def check_specialists(tables: Tables) -> Outcome:
    """No head finds most relations well."""
    table = tables["dependency"]
    shown = table[_is_relation(table)]
    if shown.empty:
        return Outcome(None, TOO_FEW)
    by_head = shown.groupby(["layer", "head", "relation"])["accuracy"].max() > WELL
    counts = by_head.groupby(["layer", "head"]).sum().reset_index(name="found")
    n_relations, top = shown["relation"].nunique(), top_row(counts, "found")
    shows = (
        f"The head that finds most relations well is {name_head(top)}: {top['found']} of "
        f"{n_relations} relations with over 75 %."
    )
    return Outcome(bool(top["found"] <= n_relations / 2), shows)


def check_relation(tables: Tables, relation: str) -> Outcome:
    """A head finds the relation in more than 75 % of its words."""
    best = tables["dependency-best"]
    rows = best[best["relation"].map(name_in_paper) == relation]
    if rows.empty:
        why = NO_POBJ if relation == "pobj" else f"The treebank has no {_names(relation)}."
        return Outcome(None, why)
    row = top_row(rows, "count")
    if row["count"] < MIN_COUNT:
        few = f"Words of {row['relation']} in the treebank: {row['count']}"
        return Outcome(None, f"{few}. Expected {MIN_COUNT} or more.")
    shows = (
        f"Head {name_head(row)} finds {SHARE.row(row, 'accuracy')} of {row['relation']} "
        f"({_held_out(row)}), the best offset {_baseline(row)}."
    )
    return judge(row_estimate(row, "accuracy"), WELL, shows)


def check_beats_offset(tables: Tables) -> Outcome:
    """Some relation is found far better than by any offset, held out."""
    shown = _relations(tables)
    if shown.empty:
        return Outcome(None, TOO_FEW)
    is_sure = ~(shown["p_value"] >= ALPHA)  # no p-value where nothing varies: nothing to doubt
    found = shown[(shown["heldout_difference"] > SUBSTANTIAL) & is_sure]
    top = top_row(shown, "heldout_difference")
    gain = row_estimate(top, "heldout_difference", "difference_low", "difference_high")
    shows = (
        f"{len(found)} of {len(shown)} relations are found over 10 points better than by any "
        f"offset (held out, p < 0.05); the most is {top['relation']} by head "
        f"{name_head(top)}, {POINTS.estimate(gain)}."
    )
    return Outcome(len(found) > 0, shows)


def check_slight_gains(tables: Tables) -> Outcome:
    """Many relations are found hardly better than by an offset."""
    shown = _relations(tables)
    if shown.empty:
        return Outcome(None, TOO_FEW)
    slight = shown[shown["heldout_difference"] < SLIGHT]
    names = ", ".join(slight["relation"].head(8)) + ", ..." * (len(slight) > 8)
    shows = (
        f"{len(slight)} of {len(shown)} relations are found less than 10 points better than by the "
        f"best offset (held out){f': {names}' * bool(names)}."
    )
    return Outcome(len(slight) >= MANY * len(shown), shows)


def check_direction(tables: Tables) -> Outcome:
    """The dependent attends to its head in all relations of Table 1 but pobj."""
    shown = _relations(tables)
    shown = shown[shown["relation"].map(name_in_paper).isin(set(PAPER_TABLE_1) - {"pobj"})]
    if shown.empty:
        return Outcome(None, TOO_FEW)
    other_way = shown[shown["direction"] != FROM_DEPENDENT]
    named = [_compare_directions(row, tables["dependency"]) for _, row in other_way.iterrows()]
    but = f"; not in {', '.join(named)}" * bool(named)
    n_so = len(shown) - len(other_way)
    shows = f"The best head is read so in {n_so} of the {len(shown)} that the treebank has{but}."
    return Outcome(other_way.empty, shows)


def _compare_directions(row: pd.Series, table: pd.DataFrame) -> str:
    """By how much a relation is better found from its head."""
    same = (table["relation"] == row["relation"]) & (table["direction"] == FROM_DEPENDENT)
    from_dependent = percent(float(table[same]["accuracy"].max()))
    found = SHARE.row(row, "accuracy")
    return f"{row['relation']} ({name_head(row)}: {found}, from the dependent {from_dependent} %)"


def check_pobj_direction(tables: Tables) -> Outcome:
    """Prepositions attend to their objects."""
    best = tables["dependency-best"]
    rows = best[(best["relation"] == "pobj") & (best["count"] >= MIN_COUNT)]
    if rows.empty:
        return Outcome(None, TOO_FEW if (best["relation"] == "pobj").any() else NO_POBJ)
    row = rows.iloc[0]
    is_dependent = row["direction"] == FROM_DEPENDENT
    words = ("object", "preposition") if is_dependent else ("preposition", "object")
    way = f"the {words[0]} attends to the {words[1]}"
    shows = f"In the best head, {name_head(row)}, {way} ({SHARE.row(row, 'accuracy')})."
    return Outcome(not is_dependent, shows)


def _relations(tables: Tables) -> pd.DataFrame:
    best = tables["dependency-best"]
    return best[_is_relation(best)]


def _is_relation(table: pd.DataFrame) -> pd.Series:
    """Rows of single relations with words enough; root, which no head can find, is none."""
    relation = table["relation"]
    is_sum = relation.str.startswith("all") | relation.isin(["root", "poss (no 's rule)"])
    return ~is_sum & (table["count"] >= MIN_COUNT)


def name_in_paper(relation: str) -> str:
    """The Stanford label of a relation, as the paper has it."""
    return UNIVERSAL.get(relation, relation)


def _names(relation: str) -> str:
    return " or ".join([relation, *(ud for ud, name in UNIVERSAL.items() if name == relation)])


def _held_out(row: pd.Series) -> str:
    return f"held out {percent(row['heldout_accuracy'])} %"


def _baseline(row: pd.Series) -> str:
    return f"{percent(row['baseline_accuracy'])} % ({row['offset']:+})"


def _claim(
    name: str,
    says: str,
    paper: str,
    check: Callable[[Tables], Outcome],
    needs: tuple[str, ...] = ("dependency-best",),
) -> Claim:
    checked = in_each_corpus(check)
    return Claim(name, "4.2", says, paper, needs, "--treebank FILE", checked, "dependency-best")


def _finds(relation: str, called: str) -> Claim:
    head, accuracy, baseline = PAPER_TABLE_1[relation]
    return _claim(
        f"finds-{called.replace(' ', '-')}",
        f"A head finds {called} ({_names(relation)}) with over 75 % accuracy.",
        f"{accuracy} % by head {head}; the best offset has {baseline} %",
        partial(check_relation, relation=relation),
    )


CLAIMS = (
    _claim(
        "no-head-parses",
        "No single head does well at syntax overall (here: all find less than half of the arcs).",
        "the best head finds 34.5 %, the right neighbour 26.3 %",
        check_overall,
    ),
    _claim(
        "heads-are-specialists",
        "No single head does well at many relations (here: over 75 % in more than half of them).",
        "no head does",
        check_specialists,
        needs=("dependency",),
    ),
    _finds("dobj", "direct objects"),
    _finds("det", "determiners"),
    _finds("pobj", "objects of prepositions"),
    _finds("poss", "possessives"),
    _finds("auxpass", "passive auxiliaries"),
    _claim(
        "heads-beat-offsets",
        "For some relations a head is far better than any fixed offset (here: 10 points, held "
        "out).",
        "e.g. direct objects: 86.8 % against 40.0 %",
        check_beats_offset,
    ),
    _claim(
        "many-relations-gain-little",
        "For many relations the best head improves only slightly over an offset (here: under 10 "
        "points in a quarter of the relations or more).",
        "e.g. nn: 70.4 % against 70.2 %",
        check_slight_gains,
    ),
    _claim(
        "dependents-look-at-heads",
        "In all relations of Table 1 but pobj the dependent attends to its head word, not the "
        "other way around.",
        "in 14 of 15 rows",
        check_direction,
        needs=("dependency-best", "dependency"),
    ),
    _claim(
        "prepositions-look-at-objects",
        "Of pobj it is the other way: the preposition attends to its object.",
        "head 9-6, 76.3 %",
        check_pobj_direction,
    ),
)
