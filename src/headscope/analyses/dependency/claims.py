"""Section 4.2 and Table 1: single heads and syntactic relations."""

from collections.abc import Callable, Collection
from functools import partial

import pandas as pd

from headscope.analyses.dependency.measure import (
    ALL_CONTENT,
    BY_MARK,
    DIRECTIONS,
    MARKED,
    is_single,
)
from headscope.data.table import Tables
from headscope.view.claim import (
    CAUSAL,
    Claim,
    Outcome,
    in_each_corpus,
    judge,
    name_head,
    note_open,
    straddles,
    top_row,
)
from headscope.view.numbers import POINTS, SHARE, percent, row_estimate

__all__ = [
    "ALPHA", "CLAIMS", "MIN_COUNT", "PAPER_TABLE_1", "is_universal", "name_in_paper",
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
}
ONLY_UNIVERSAL = {"case", "obj", "obl", "nmod", "nmod:poss", "aux:pass", "compound"}
MIN_COUNT = 50  # words; the accuracy of a rarer relation says little
WELL, OVERALL = 0.75, 0.5
SUBSTANTIAL, SLIGHT, MANY = 0.1, 0.1, 0.25
ALPHA = 0.05
FROM_DEPENDENT = DIRECTIONS[0]
TOO_FEW = f"The treebank has no such relation with at least {MIN_COUNT} words."
FEW_MARKS = 20  # possessors with an 's
LITTLE = 0.01
CAUSAL_ARCS = (
    f"{CAUSAL} of an arc only the later word can attend to the earlier one, so the mask decides "
    "the direction."
)
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


def is_causal(table: pd.DataFrame) -> bool:
    """Whether every arc can be seen in one direction alone, by the table of all heads."""
    rows = table[table["relation"] == ALL_CONTENT]
    if rows.empty or "visible_share" not in rows:
        return False
    shares = rows.groupby(["layer", "head"])["visible_share"].sum()
    return bool((shares < 1 + 1e-9).all())


def check_direction(tables: Tables) -> Outcome:
    """The dependent attends to its head in all relations of Table 1 but pobj."""
    if is_causal(tables["dependency"]):
        return Outcome(None, CAUSAL_ARCS)
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
    if is_causal(tables["dependency"]):
        return Outcome(None, CAUSAL_ARCS)
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


def check_possessive_mark(tables: Tables) -> Outcome:
    """The head word of a possessor is found from its 's, more often than from itself."""
    best = tables["dependency-best"]
    names = [name for name in best["relation"] if name_in_paper(str(name)) == "poss"]
    if not names:
        return Outcome(None, "The treebank has no poss or nmod:poss.")
    if is_causal(tables["dependency"]):
        return Outcome(None, f"{CAUSAL} a possessor and its 's stand before their head word.")
    name = names[0]
    row = best[best["relation"] == name].iloc[0]
    table = tables["dependency"]
    same = (table["layer"] == row["layer"]) & (table["head"] == row["head"])
    own = table[same & (table["direction"] == FROM_DEPENDENT)].set_index("relation")
    marked = own[own.index == MARKED.format(name)]
    if marked.empty or marked["count"].iloc[0] < FEW_MARKS:
        return Outcome(None, f"The treebank has fewer than {FEW_MARKS} possessors with an 's.")
    by_word, by_mark = marked.iloc[0], own.loc[BY_MARK.format(name)]
    shows = (
        f"In head {name_head(row)}, the best for {name}, the 's attends most to the head word in "
        f"{SHARE.row(by_mark, 'accuracy')} of {by_word['count']} cases, the possessor itself in "
        f"{SHARE.row(by_word, 'accuracy')}."
    )
    return judge(row_estimate(by_mark, "accuracy"), max(0.5, by_word["accuracy"]), shows)


def check_special(tables: Tables) -> Outcome:
    """Most heads find as many arcs where [CLS] and [SEP] compete."""
    table = tables["dependency-special"].sort_values("accuracy", ascending=False, kind="stable")
    heads = table.drop_duplicates(["layer", "head"])
    n_same = int((heads["difference"] > -LITTLE).sum())
    top, most = heads.iloc[0], heads.sort_values("difference", kind="stable").iloc[0]
    unsure = note_open(heads, -LITTLE, "-1 point")
    shows = (
        f"{n_same} of {len(heads)} heads lose under 1 point of all arcs where special tokens "
        f"compete. The best head, {name_head(top)}, goes from {percent(top['accuracy'])} to "
        f"{percent(top['with_special'])} %; the one that loses most is {name_head(most)}, "
        f"{POINTS.estimate(row_estimate(most, 'difference'))}.{unsure}"
    )
    return Outcome(n_same > len(heads) / 2, shows)


def _relations(tables: Tables) -> pd.DataFrame:
    best = tables["dependency-best"]
    return best[_is_relation(best)]


def _is_relation(table: pd.DataFrame) -> pd.Series:
    """Rows of single relations with words enough; root, which no head can find, is none."""
    relation = table["relation"].map(str)
    return relation.map(is_single) & (relation != "root") & (table["count"] >= MIN_COUNT)


def is_universal(relations: Collection[str]) -> bool:
    """Whether these are labels of Universal Dependencies, and not of Stanford.

    >>> is_universal(["det", "case", "obj"]), is_universal(["det", "pobj", "dobj"])
    (True, False)
    """
    return not ONLY_UNIVERSAL.isdisjoint(relations)


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
        needs=("dependency-best", "dependency"),
    ),
    _claim(
        "possessive-s-stands-for-its-word",
        "The best head for possessives takes the 's for the dependent (here: in over half of the "
        "possessors with an 's the head word is found from the 's, and more often than from the "
        "possessor).",
        "head 7-6 marks 's as the dependent",
        check_possessive_mark,
        needs=("dependency-best", "dependency"),
    ),
    Claim(
        "special-tokens-change-little",
        "4.1",
        "To let [CLS] and [SEP] be predicted too does not change the accuracy of most heads much "
        "(here: of over half of the heads, each in its better direction, by under 1 point of all "
        "arcs).",
        "in practice this does not significantly change the accuracies for most heads (footnote 3)",
        ("dependency-special",),
        "--treebank FILE",
        in_each_corpus(check_special),
        unless="A model without special tokens in its input cannot have it.",
    ),
)
