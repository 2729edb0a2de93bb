"""Section 4.2 and Table 1: single heads and syntactic relations."""

from functools import partial

import pandas as pd

from headscope.analyses.dependency import tables as arcs
from headscope.analyses.dependency.tables import PAPER_TABLE_1, UNIVERSAL, is_single, name_in_paper
from headscope.data.table import Tables, rows_where
from headscope.errors import say_count
from headscope.view.answer import name_best
from headscope.view.judge import (
    CAUSAL,
    Claim,
    Outcome,
    Passing,
    beside_untrained,
    fill_exact,
    judge,
    judge_count,
    name_head,
    note_open,
    note_undecided,
    passing,
    top_row,
)
from headscope.view.numbers import POINTS, SHARE, held_out, percent, row_estimate

__all__ = ["ALPHA", "CLAIMS", "MIN_COUNT", "WAYS", "beats_offsets", "is_relation"]

MIN_COUNT = 50  # words; the accuracy of a rarer relation says little
WELL = 0.75
SUBSTANTIAL, MANY = 0.1, 0.25
ALPHA = 0.05
NAME = "relation"
BEST = ("dependency-best",)
TOO_FEW = f"None of these relations has {MIN_COUNT} words or more in the treebank."
FEW_MARKS = 20  # possessors with an 's
LITTLE = 0.01
CAUSAL_ARCS = (
    f"{CAUSAL} only the later word of an arc can attend to the earlier one, so the mask decides "
    f"the direction."
)
WAYS = {  # what is counted, by direction
    "dependent-to-head": "the dependent attends most to its head",
    "head-to-dependent": "the dependent gets its strongest attention from its head",
}
NO_POBJ = "The treebank has no pobj, and no case of Universal Dependencies, from which it follows."


def is_relation(table: pd.DataFrame) -> "pd.Series[bool]":
    """Rows of single relations with words enough: no sums, no punctuation, no root."""
    names = [str(name) for name in table["relation"].unique()]
    single = [n for n in names if is_single(n) and not n.startswith(("root", "punct"))]
    return table["relation"].isin(single) & (table["count"] >= MIN_COUNT)


def beats_offsets(best: pd.DataFrame) -> "pd.Series[bool]":
    """Relations that a head clearly finds better than any offset, and than moved arcs.

    Held out, p corrected; the best of all heads beats an offset by a little on arcs that were moved
    to random places too.
    """
    is_better = (best["p_value"] < ALPHA) & (best["heldout_difference"] > 0)
    if "chance_p_value" in best:  # NaN where no arcs were moved
        is_better &= ~(best["chance_p_value"] >= ALPHA)
    return is_better


def _relations(tables: Tables) -> pd.DataFrame:
    best = tables["dependency-best"]
    return best[is_relation(best)]


def check_overall(tables: Tables) -> Outcome:
    """The best head finds hardly more arcs than the best offset."""
    rows = rows_where(tables["dependency-best"], relation="all")
    if rows.empty:
        return Outcome("not measured", "The treebank has no words.")
    row = rows.iloc[0]
    shows = (
        f"{name_best(row, name_head(row))} finds {SHARE.estimate(held_out(row))} of all arcs held "
        f"out, the best offset {_baseline(row)}: {POINTS.row(row, 'heldout_difference')}."
        f"{_beside_untrained(row)}"
    )
    return judge(
        row_estimate(row, "heldout_difference"), SUBSTANTIAL, shows, POINTS, is_above=False
    )


def check_specialists(tables: Tables) -> Outcome:
    """Of the relations that are found well, no head finds most."""
    best = _relations(tables)
    rows = passing(best, WELL, "heldout_accuracy").sure
    rows = rows[beats_offsets(rows)]
    well = [str(name) for name in rows[NAME]]
    if len(well) < 2:
        few = (
            f"{say_count(len(well), 'relation')} {'is' if len(well) == 1 else 'are'} clearly found "
            "with over 75 % accuracy, held out, and better than by any offset."
        )
        return Outcome("not measured", f"{few} Expected at least two.")
    keys = [name for name in ("treebank", NAME) if name in best]
    table = tables["dependency"].merge(rows[[*keys, "baseline_accuracy"]], on=keys)
    table = table[table["low"] > table["baseline_accuracy"]]  # not by its distance alone
    heads = passing(table, WELL, "accuracy")
    sure, possible = (
        part.drop_duplicates([NAME, "layer", "head"]).groupby(["layer", "head"])[NAME].count()
        for part in (heads.sure, pd.concat([heads.sure, heads.open]))
    )
    top = sure.reset_index(name="found").sort_values("found", ascending=False, kind="stable")
    shows = (
        f"{len(well)} relations are found with over 75 % accuracy, held out, and better than by "
        f"any offset ({', '.join(well[:8])}{', ...' * (len(well) > 8)}). Head "
        f"{name_head(top.iloc[0])} finds the most of them so: {sure.max()}."
    )
    if sure.max() > len(well) / 2:
        return Outcome("does not hold", shows)
    if possible.max() > len(well) / 2:
        more = f" By the intervals, some head may find up to {possible.max()}: undecided."
        return Outcome("undecided", shows + more)
    return Outcome("holds", shows)


def check_relation(tables: Tables, relation: str) -> Outcome:
    """A head finds the relation in more than 75 % of its words."""
    best = tables["dependency-best"]
    rows = best[best[NAME].map(name_in_paper) == relation]
    if rows.empty:
        why = NO_POBJ if relation == "pobj" else f"The treebank has no {_names(relation)}."
        return Outcome("not measured", why)
    row = top_row(rows, "count")
    if row["count"] < MIN_COUNT:
        few = f"Words of {row[NAME]} in the treebank: {row['count']}"
        return Outcome("not measured", f"{few}. Expected {MIN_COUNT} or more.")
    shows = (
        f"{name_best(row, name_head(row))} finds {SHARE.estimate(held_out(row))} of {row[NAME]} "
        f"held out (on all data {percent(row['accuracy'])} %; {WAYS[row['direction']]}), the best "
        f"offset {_baseline(row)}.{_beside_untrained(row)}"
    )
    return judge(held_out(row), WELL, shows)


def check_beats_offset(tables: Tables) -> Outcome:
    """Some relation is found far better than by any offset, held out."""
    shown = _relations(tables)
    if shown.empty:
        return Outcome("not measured", TOO_FEW)
    above = passing(shown, SUBSTANTIAL, "heldout_difference")
    is_tested = beats_offsets(above.sure)
    above = Passing(above.sure[is_tested], pd.concat([above.open, above.sure[~is_tested]]))
    top = top_row(shown, "heldout_difference")
    shows = (
        "clearly found over 10 points better than by any offset (held out, p < 0.05); the most is "
        f"{top[NAME]} by head {name_head(top)}, {POINTS.row(top, 'heldout_difference')}"
    )
    return _judge_relations(above, shown, 1, shows)


def check_slight_gains(tables: Tables) -> Outcome:
    """Many relations are found hardly better than by an offset."""
    shown = _relations(tables)
    if shown.empty:
        return Outcome("not measured", TOO_FEW)
    below = passing(shown, SUBSTANTIAL, "heldout_difference", is_above=False)
    names = ", ".join(below.sure[NAME].head(8)) + ", ..." * (len(below.sure) > 8)
    shows = "clearly found less than 10 points better than by the best offset (held out)"
    return _judge_relations(below, shown, MANY * len(shown), shows + f": {names}" * bool(names))


def check_learned(tables: Tables) -> Outcome:
    """Most relations are found better than by the best head of the untrained model."""
    shown = _relations(tables)
    if "untrained_difference" not in shown:
        how = "headscope analyze MODEL --treebank FILE --null 1"
        return Outcome("not measured", f"The run has no untrained model. Measure with: {how}")
    if shown.empty:
        return Outcome("not measured", TOO_FEW)
    top = top_row(shown, "untrained_difference")
    shows = (
        "clearly found better than by the best head of the untrained model (held out, paired by "
        f"document); the most is {top[NAME]}, {POINTS.row(top, 'untrained_difference')}"
    )
    better = passing(shown, 0.0, "untrained_difference")
    return _judge_relations(better, shown, len(shown) // 2 + 1, shows)


def _judge_relations(relations: Passing, shown: pd.DataFrame, least: float, shows: str) -> Outcome:
    n_sure, n_open = len(relations.sure), len(relations.open)
    are = "is" if n_sure == 1 else "are"
    text = f"{n_sure} of {len(shown)} relations {are} {shows}.{note_undecided(n_open)}"
    return judge_count(n_sure, n_open, least, text)


def is_causal(table: pd.DataFrame) -> bool:
    """Whether every arc can be seen in one direction alone, by the table of all heads."""
    rows = table[table["relation"] == arcs.ALL_CONTENT]
    if rows.empty or "visible_share" not in rows:
        return False
    shares = rows.groupby(["layer", "head"])["visible_share"].sum()
    return bool((shares < 1 + 1e-9).all())


def check_direction(tables: Tables) -> Outcome:
    """The dependent attends to its head in all relations of Table 1 but pobj."""
    if is_causal(tables["dependency"]):
        return Outcome("not measured", CAUSAL_ARCS)
    table = tables["dependency-directions"]
    in_paper = set(PAPER_TABLE_1) - {"pobj", "all"}
    shown = table[is_relation(table) & table[NAME].map(name_in_paper).isin(in_paper)]
    if shown.empty:
        return Outcome("not measured", TOO_FEW)
    so, is_open = passing(shown, 0.0, "difference")
    n_other = len(shown) - len(so) - len(is_open)
    doubtful = shown[~shown.index.isin(so.index)].sort_values("difference").head(4)
    but = [f"{row[NAME]} {POINTS.row(row, 'difference')}" for _, row in doubtful.iterrows()]
    named = f" ({', '.join(but)})" * bool(but)
    shows = (
        f"Of {len(shown)} relations that the treebank has, {len(so)} are clearly found better from "
        f"the dependent, {n_other} from its head{named}."
    )
    if n_other:
        return Outcome("does not hold", shows)
    unsure = f" Undecided: {len(is_open)}."
    return Outcome("undecided", shows + unsure) if len(is_open) else Outcome("holds", shows)


def check_pobj_direction(tables: Tables) -> Outcome:
    """Prepositions attend to their objects."""
    if is_causal(tables["dependency"]):
        return Outcome("not measured", CAUSAL_ARCS)
    table = tables["dependency-directions"]
    of_relation = table[table[NAME].map(name_in_paper) == "pobj"]
    rows = of_relation[of_relation["count"] >= MIN_COUNT]
    if rows.empty:
        why = TOO_FEW if len(of_relation) else NO_POBJ
        return Outcome("not measured", why)
    row = rows.iloc[0]
    shows = (
        f"In the best head of each kind, {percent(row['dependent_to_head'])} % of objects attend "
        f"most to their preposition, and {percent(row['head_to_dependent'])} % get their strongest "
        f"attention from it: {POINTS.row(row, 'difference')}."
    )
    return judge(row_estimate(row, "difference"), 0.0, shows, POINTS, is_above=False)


def check_possessive_mark(tables: Tables) -> Outcome:
    """The head word of a possessor is found from its 's, more often than from itself."""
    best = tables["dependency-best"]
    names = [name for name in best["relation"] if name_in_paper(str(name)) == "poss"]
    if not names:
        return Outcome("not measured", "The treebank has no poss or nmod:poss.")
    if is_causal(tables["dependency"]):
        reason = f"{CAUSAL} a possessor and its 's stand before their head word."
        return Outcome("not measured", reason)
    name = names[0]
    row = best[best["relation"] == name].iloc[0]
    table = tables["dependency"]
    same = (table["layer"] == row["layer"]) & (table["head"] == row["head"])
    if "treebank" in table:
        same &= table["treebank"] == row["treebank"]
    of_head = table[same & (table["direction"] == arcs.DIRECTIONS[0])].set_index("relation")
    marked = of_head[of_head.index == arcs.MARKED.format(name)]
    if marked.empty or marked["count"].iloc[0] < FEW_MARKS:
        few = f"The treebank has fewer than {FEW_MARKS} possessors with an 's."
        return Outcome("not measured", few)
    by_word, by_mark = marked.iloc[0], of_head[of_head.index == arcs.BY_MARK.format(name)].iloc[0]
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
    changes = passing(fill_exact(heads, "difference"), -LITTLE, "difference")
    top, most = heads.iloc[0], heads.sort_values("difference", kind="stable").iloc[0]
    unsure = note_open(changes, "-1 point")
    shows = (
        f"{len(changes.sure)} of {len(heads)} heads lose under 1 point of all arcs where special "
        f"tokens compete. The best head, {name_head(top)}, goes from {percent(top['accuracy'])} to "
        f"{percent(top['with_special'])} %; the one that loses most is {name_head(most)}, "
        f"{POINTS.estimate(row_estimate(most, 'difference'))}.{unsure}"
    )
    return judge_count(len(changes.sure), len(changes.open), len(heads) // 2 + 1, shows)


def _names(relation: str) -> str:
    return " or ".join([relation, *(ud for ud, name in UNIVERSAL.items() if name == relation)])


def _baseline(row: pd.Series) -> str:
    return f"{percent(row['baseline_accuracy'])} % ({row['offset']:+})"


def _beside_untrained(row: pd.Series) -> str:
    """What the untrained model's best head finds, where the run has it."""
    return beside_untrained({**row, "untrained": row.get("untrained_accuracy")})


def _finds(relation: str, called: str) -> Claim:
    head, accuracy, baseline = PAPER_TABLE_1[relation]
    return Claim(
        f"finds-{called.replace(' ', '-')}",
        partial(check_relation, relation=relation),
        f"A head finds {called} ({_names(relation)}) with over 75 % accuracy, held out.",
        f"{accuracy} % by head {head}, chosen on the same data; best offset {baseline} % (Table 1)",
        BEST,
    )


CLAIMS = [
    Claim(
        "no-head-parses", check_overall, needs=BEST,
        says="No single head does well at syntax overall (here: held out, the best head finds less "
        "than 10 points more of the arcs than the best offset).",
        paper="\"there is no single attention head that does well at syntax 'overall'; the best "
        'head gets 34.5 UAS, which is not much better than the right-branching baseline, which '
        'gets 26.3 UAS"',
    ),
    Claim(
        "heads-are-specialists", check_specialists, needs=("dependency-best", "dependency"),
        says="Different heads find different relations (here: of the relations that some head "
        "finds with over 75 % accuracy and better than any offset, no single head finds more than "
        "half).",
        paper='"While no single head performs well at many relations, we find that particular '
        'heads correspond remarkably well to particular relations." (section 1)',
    ),
    _finds("dobj", "direct objects"),
    _finds("det", "determiners"),
    _finds("pobj", "objects of prepositions"),
    _finds("poss", "possessives"),
    _finds("auxpass", "passive auxiliaries"),
    Claim(
        "heads-beat-offsets", check_beats_offset, needs=BEST,
        says="For some relations a head is far better than any fixed offset (here: over 10 points, "
        "held out).",
        paper='"sometimes achieving high accuracy and substantially outperforming the fixed-offset '
        'baseline"; e.g. direct objects: 86.8 % against 40.0 % (Table 1)',
    ),
    Claim(
        "many-relations-gain-little", check_slight_gains, needs=BEST,
        says="For many relations the best head improves only slightly over an offset (here: by "
        "under 10 points, held out, for at least a quarter of the relations).",
        paper='"There are many relations for which BERT only slightly improves over the simple '
        'baseline"; e.g. nn: 70.4 % against 70.2 % (Table 1)',
    ),
    Claim(
        "dependents-look-at-heads", check_direction, needs=("dependency-directions", "dependency"),
        says="In all relations of Table 1 but pobj the best head is one in which the dependent "
        "attends to its head word, not the other way around.",
        paper='"for all relations in Table 1 except pobj, the dependent attends to the head word '
        'rather than the other way around"',
    ),
    Claim(
        "prepositions-look-at-objects", check_pobj_direction,
        needs=("dependency-directions", "dependency"),
        says="For pobj it is the reverse: in the best head the preposition attends to its object.",
        paper='"except pobj"; head 9-6, 76.3 % (Table 1)',
    ),
    Claim(
        "possessive-s-stands-for-its-word", check_possessive_mark,
        needs=("dependency-best", "dependency"),
        says="The best head for possessives treats the 's as the dependent (here: for over half of "
        "the possessors with an 's, the 's attends most to the head word, and does so more often "
        "than the possessor).",
        paper="head 7-6 marks 's as the dependent",
    ),
    Claim(
        "special-tokens-change-little", check_special, needs=("dependency-special",),
        section="4.1", figure=None,
        unless="It needs a model with special tokens in its input.",
        says="The accuracy of most heads changes little if [CLS] and [SEP] may be predicted too "
        "(here: for over half of the heads, each in its better direction, by under 1 point of all "
        "arcs).",
        paper="in practice this does not significantly change the accuracies for most heads "
        "(footnote 3)",
    ),
    Claim(
        "relations-are-learned", check_learned, needs=BEST, made_by="--treebank FILE --null 1",
        says="Heads learn relations in training (here: most relations are found better than by the "
        "best head of the same model untrained).",
        paper='"the behavior of the attention heads emerges purely from self-supervised training '
        'on unlabeled data" (section 1; the paper has no untrained model here)',
    ),
]  # fmt: skip
