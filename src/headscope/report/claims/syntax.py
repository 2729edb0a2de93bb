"""Section 4.2 and Table 1: single heads and syntactic relations."""

from collections.abc import Callable
from functools import partial

import pandas as pd

from headscope.report.cells import percent
from headscope.report.claims.claim import (
    Claim,
    Estimate,
    Outcome,
    Tables,
    judge,
    name_head,
    top_row,
)
from headscope.report.claims.parts import in_each_corpus
from headscope.report.dependency import PAPER_TABLE_1, UNIVERSAL

__all__ = ["CLAIMS"]

MIN_COUNT = 50  # words; with fewer, an accuracy says little
WELL, OVERALL = 0.75, 0.5
SUBSTANTIAL, SLIGHT, MANY = 0.1, 0.1, 0.25
ALPHA = 0.05
FROM_DEPENDENT = "dependent-to-head"
NO_POBJ = (
    "The treebank has no pobj, which is Stanford's label: in Universal Dependencies the "
    "preposition hangs on its noun."
)


def check_overall(tables: Tables) -> Outcome:
    """The best head finds less than half of all arcs."""
    best = tables["dependency-best"]
    rows = best[best["relation"] == "all"]
    if rows.empty:
        return Outcome(None, "The treebank has no words.")
    row = rows.iloc[0]
    found = Estimate.from_row(row)
    caveat = " The interval includes 50.0 %: this may be chance." * found.straddles(OVERALL)
    shows = (
        f"The best head, {name_head(row)}, finds {found} of all arcs ({_held_out(row)}), the best "
        f"offset {_baseline(row)}.{caveat}"
    )
    return Outcome(found.value < OVERALL, shows)


def check_specialists(tables: Tables) -> Outcome:
    """No head finds most relations well."""
    table = tables["dependency"]
    shown = table[_is_relation(table)]
    if shown.empty:
        return Outcome(None, _too_few())
    by_head = shown.groupby(["layer", "head", "relation"])["accuracy"].max() > WELL
    counts = by_head.groupby(["layer", "head"]).sum().reset_index(name="found")
    n_relations = shown["relation"].nunique()
    top = top_row(counts, "found")
    most = int(top["found"])
    shows = (
        f"The head that finds most relations well is {name_head(top)}: {most} of {n_relations} "
        "relations with over 75 %."
    )
    return Outcome(most <= n_relations / 2, shows)


def check_relation(tables: Tables, relation: str) -> Outcome:
    """A head finds the relation in more than 75 % of its words."""
    best = tables["dependency-best"]
    rows = best[best["relation"].map(_stanford) == relation]
    if rows.empty:
        why = NO_POBJ if relation == "pobj" else f"The treebank has no {_names(relation)}."
        return Outcome(None, why)
    row = top_row(rows, "count")
    if row["count"] < MIN_COUNT:
        few = f"Words of {row['relation']} in the treebank: {row['count']}"
        return Outcome(None, f"{few}. Expected {MIN_COUNT} or more.")
    found = Estimate.from_row(row)
    shows = (
        f"Head {name_head(row)} finds {found} of {row['relation']} ({_held_out(row)}), the best "
        f"offset {_baseline(row)}."
    )
    return judge(found, WELL, shows)


def check_beats_offset(tables: Tables) -> Outcome:
    """Some relation is found far better than by any offset, held out."""
    shown = _relations(tables)
    if shown.empty:
        return Outcome(None, _too_few())
    is_sure = ~(shown["p_value"] >= ALPHA)  # no p-value where nothing varies: nothing to doubt
    found = shown[(shown["heldout_difference"] > SUBSTANTIAL) & is_sure]
    top = top_row(shown, "heldout_difference")
    gap = Estimate(top["heldout_difference"], top["difference_low"], top["difference_high"])
    shows = (
        f"{len(found)} of {len(shown)} relations are found over 10 points better than by any "
        f"offset (held out, p < 0.05); the most is {top['relation']} by head "
        f"{name_head(top)}, {gap.as_points()}."
    )
    return Outcome(len(found) > 0, shows)


def check_slight_gains(tables: Tables) -> Outcome:
    """Many relations are found hardly better than by an offset."""
    shown = _relations(tables)
    if shown.empty:
        return Outcome(None, _too_few())
    slight = shown[shown["heldout_difference"] < SLIGHT]
    names = ", ".join(slight["relation"].head(8)) + ", ..." * (len(slight) > 8)
    which = f": {names}" if len(slight) else ""
    shows = (
        f"{len(slight)} of {len(shown)} relations are found less than 10 points better than by the "
        f"best offset (held out){which}."
    )
    return Outcome(len(slight) >= MANY * len(shown), shows)


def check_direction(tables: Tables) -> Outcome:
    """The dependent attends to its head in all relations of Table 1 but pobj."""
    shown = _relations(tables)
    is_named = shown["relation"].map(_stanford).isin(set(PAPER_TABLE_1) - {"pobj"})
    shown = shown[is_named]
    if shown.empty:
        return Outcome(None, _too_few())
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
    found = Estimate.from_row(row)
    return f"{row['relation']} ({name_head(row)}: {found}, from the dependent {from_dependent} %)"


def check_pobj_direction(tables: Tables) -> Outcome:
    """Prepositions attend to their objects."""
    best = tables["dependency-best"]
    rows = best[(best["relation"] == "pobj") & (best["count"] >= MIN_COUNT)]
    if rows.empty:
        return Outcome(None, _too_few() if (best["relation"] == "pobj").any() else NO_POBJ)
    row = rows.iloc[0]
    is_dependent = row["direction"] == FROM_DEPENDENT
    words = ("object", "preposition") if is_dependent else ("preposition", "object")
    found = Estimate.from_row(row)
    way = f"the {words[0]} attends to the {words[1]}"
    shows = f"In the best head, {name_head(row)}, {way} ({found})."
    return Outcome(not is_dependent, shows)


def _relations(tables: Tables) -> pd.DataFrame:
    best = tables["dependency-best"]
    return best[_is_relation(best)]


def _is_relation(table: pd.DataFrame) -> pd.Series:
    """Rows of single relations with words enough; root, which no head can find, is none."""
    relation = table["relation"]
    is_sum = relation.str.startswith("all") | relation.isin(["root", "poss (no 's rule)"])
    return ~is_sum & (table["count"] >= MIN_COUNT)


def _stanford(relation: str) -> str:
    return UNIVERSAL.get(relation, relation)


def _names(relation: str) -> str:
    return " or ".join([relation, *(ud for ud, name in UNIVERSAL.items() if name == relation)])


def _held_out(row: pd.Series) -> str:
    return f"held out {percent(row['heldout_accuracy'])} %"


def _baseline(row: pd.Series) -> str:
    return f"{percent(row['baseline_accuracy'])} % ({row['offset']:+})"


def _too_few() -> str:
    return f"The treebank has no such relation with at least {MIN_COUNT} words."


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
