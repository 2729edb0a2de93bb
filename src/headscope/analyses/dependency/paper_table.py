"""Table 1 for a model: the best head of each relation, for terminal, page and papers."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd

from headscope.analyses.dependency.claims import MIN_COUNT, beats_offsets
from headscope.analyses.dependency.measure import is_single
from headscope.analyses.dependency.tables import PAPER_TABLE_1, is_universal, name_in_paper
from headscope.data.table import Tables
from headscope.errors import say_count
from headscope.view.numbers import (
    PERCENT,
    ROUND_PERCENT,
    held_out,
    p_value,
    percent,
)
from headscope.view.table import (
    Column,
    TextTable,
    build_table,
    corpus_columns,
    rows_of,
    split_corpora,
)

__all__ = ["ARROWS", "build_table_1", "read_best"]
ARROWS = {"dependent-to-head": "dep>head", "head-to-dependent": "head>dep"}

# What Universal Dependencies mean by a label that the paper's table has in another sense.
OTHER_IN_UD = {
    "mark": "the to of infinitives too, which is aux in Stanford's",
    "aux": "without that to",
    "poss": "its 's is a case of the possessor",
}
SLIP = (
    "‡ The paper's auxpass row is most likely a slip: its notebook has 94.1 % against 82.5 %, and "
    "40.5 % is the baseline of the neighbouring row, cop."
)

Row = Mapping[Any, Any]  # of the table of best heads


def _in_paper(row: Row, form: str) -> str:
    """The paper's head, accuracy and offset for this relation; nothing where it has none."""
    paper = PAPER_TABLE_1.get(name_in_paper(str(row["relation"])))
    return form.format(*paper) if paper else ""


def _name_both(row: Row, marks: Mapping[str, str]) -> str:
    """The paper's label, then the treebank's own, then the sign of a note under the table."""
    label = str(row["relation"])
    name = name_in_paper(label)
    return (label if label.startswith(name) else f"{name} ({label})") + marks.get(name, "")


def _is_found(row: Row) -> bool:
    """Whether a row of Table 1 has a head that clearly finds the relation."""
    return "count" in row and bool(beats_offsets(pd.DataFrame([row])).iloc[0])


COUNT = Column("count", lambda row: str(row["count"]), drop=2)
HEAD = Column("head", lambda row: f"{row['layer']}-{row['head']}")
DIRECTION = Column("direction", lambda row: ARROWS[str(row["direction"])], drop=1)
HELD_OUT = Column("held out %", lambda row: PERCENT.estimate(held_out(row)))
CHOSEN = Column("folds", lambda row: f"{row['chosen_in']}/{row['folds']}", drop=7)
OFFSET = Column("offset", lambda row: f"{percent(row['baseline_accuracy'])} ({row['offset']:+})")
UNTRAINED = Column("untrained", lambda row: percent(row["untrained_accuracy"]), drop=3)
TERMINAL_COLUMNS = (
    Column("relation", lambda row: str(row["relation"])),
    *(COUNT, HEAD, DIRECTION),
    *(HELD_OUT, CHOSEN),
    Column("on all", lambda row: percent(row["accuracy"]), drop=6),
    OFFSET,
    Column("p", lambda row: p_value(row["p_value"]), drop=4),
)
PAGE_COLUMNS = (
    replace(COUNT, title="words", drop=0),
    *(HEAD, replace(DIRECTION, drop=0)),
    Column(
        "held out %",
        lambda row: percent(row["heldout_accuracy"]),
        is_bold=_is_found,
    ),
    Column("95 % interval", lambda row: PERCENT.interval(row["heldout_low"], row["heldout_high"])),
    replace(CHOSEN, title="folds that chose it"),
    Column("on all data %", lambda row: percent(row["accuracy"]), drop=6),
    replace(OFFSET, title="offset %"),
    Column("p", lambda row: p_value(row["p_value"]), drop=4),
)
VISIBLE = Column("visible %", lambda row: percent(row["visible_share"]), drop=8)
VISIBLE_ACCURACY = Column(
    "accuracy % of visible", lambda row: percent(row["visible_accuracy"]), drop=9
)
HIDDEN = (
    "Visible: arcs for which the model's mask lets one word attend to the other in that direction. "
    "Offsets follow the same mask."
)
BERT = Column("BERT-base: head, accuracy % (offset %)", partial(_in_paper, form="{} {} ({})"))


def read_best(best: pd.DataFrame, min_count: int) -> list[TextTable]:
    """Relations with at least `min_count` words, most frequent first; then treebanks compared."""
    shown = best[best["count"] >= min_count]
    untrained = [UNTRAINED] if "untrained_accuracy" in best else []
    paper = Column("paper (offset)", partial(_in_paper, form="{} {} ({})"), drop=5)
    sight = (VISIBLE, VISIBLE_ACCURACY) if _is_hidden(best) else ()
    columns = (*corpus_columns(best), *TERMINAL_COLUMNS, *sight, *untrained, paper)
    n_rare = len(best) - len(shown)
    has, are = ("has", "is") if n_rare == 1 else ("have", "are")
    rare = say_count(n_rare, "relation")
    note = f"{rare} {has} fewer than {min_count} words and {are} in the tables only."
    if shown.empty:
        note = f"No relation is printed: {note} Lower --min-count to print them."
    table = build_table(shown.to_dict("records"), columns, note=note * (n_rare > 0))
    return [table, _compare_treebanks(shown)] if "treebank" in best else [table]


def _compare_treebanks(best: pd.DataFrame) -> TextTable:
    """Which relations a single head finds significantly better than any offset, and where."""
    rows = []
    for relation, treebanks in best[beats_offsets(best)].groupby("relation", sort=False):
        where = [
            f"{row.treebank} {ROUND_PERCENT.number(row.heldout_accuracy)}"
            for row in rows_of(treebanks)
        ]
        rows.append((str(relation), ", ".join(where)))
    none = "In no treebank does a head find a relation clearly better than any fixed offset."
    note = none * (not rows)
    return TextTable(("found by a head", "in (held-out accuracy)"), tuple(rows), note=note)


def build_table_1(tables: Tables) -> list[TextTable]:
    """The relations in the order of the paper, then the other frequent ones of the treebank."""
    intro = (
        "The best head and direction for each relation, compared with the best fixed offset (in "
        "brackets: +1 is the next word). Held out: chosen on seven eighths of the documents, "
        "scored on the rest. BERT-base: the paper's result on the Wall Street Journal with "
        "Stanford labels. The Universal Dependencies name of a relation is in brackets; a dash "
        "means that the treebank does not have it. Other relations are shown if they have at least "
        f"{MIN_COUNT} words. In print, bold: better than any offset, and than moved arcs."
    )
    built = []
    for corpus, best in split_corpora(tables["dependency-best"]):
        sight = (VISIBLE, VISIBLE_ACCURACY) if _is_hidden(best) else ()
        marks, notes = _mark_labels(best["relation"])
        columns = (
            Column("relation", partial(_name_both, marks=marks)),
            *(
                replace(column, cell=partial(_or_dash, column))
                for column in (*PAGE_COLUMNS, *sight)
            ),
            BERT,
        )
        note = " ".join([intro, *[HIDDEN] * bool(sight), *notes])
        by_name = {name_in_paper(str(row["relation"])): row for row in best.to_dict("records")}
        rows = [by_name.pop(name, {"relation": name}) for name in PAPER_TABLE_1]
        rows += [row for row in by_name.values() if row["count"] >= MIN_COUNT]
        title = "Best heads by relation" + f" ({corpus})" * bool(corpus)
        built.append(build_table(rows, columns, title, note))
    return built


def _mark_labels(relations: "pd.Series[str]") -> tuple[dict[str, str], list[str]]:
    """The signs of relations that need a note, and the notes."""
    if not is_universal(set(relations)):
        return {"auxpass": " ‡"}, [SLIP]
    meanings = "; ".join(f"{name}: {what}" for name, what in OTHER_IN_UD.items())
    note = (
        f"† In Universal Dependencies the label covers different words ({meanings}). prep and pobj "
        "are derived from its relation case: the preposition to what its noun modifies, and the "
        "noun to its preposition."
    )
    return {**dict.fromkeys(OTHER_IN_UD, " †"), "auxpass": " ‡"}, [note, SLIP]


def _is_hidden(best: pd.DataFrame) -> bool:
    """Whether the model's mask hides some arcs from the best heads."""
    shown = best[best["relation"].map(is_single)]
    return "visible_share" in best and bool((shown["visible_share"] < 1).any())


def _or_dash(column: Column, row: Row) -> str:
    return column.cell(row) if "count" in row else "-"
