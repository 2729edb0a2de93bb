"""What is shown of cross attention as a word aligner."""

from typing import Any

import pandas as pd

from headscope.data.table import Tables
from headscope.view.answer import Answer, AnswerMaker, write_percent
from headscope.view.card import FactMaker, Facts, Part, add_rank, by_head, read_rank
from headscope.view.claim import name_head, top_row
from headscope.view.figure import Chart, Figure
from headscope.view.heads_grid import HOW_TO_READ, HeadsGrid
from headscope.view.numbers import SHARE
from headscope.view.presentation import (
    CROSS,
    LEAST_SHARE,
    NotableHead,
    Presentation,
    PrintedTable,
)
from headscope.view.table import Column, TextTable, build_table

__all__ = ["PRESENTATION"]

STEPS = {"output": "as it writes the word", "input": "as it has read the word"}
SHOWN_HEADS = 5
TITLE = "word alignment"


def draw_alignment(tables: Tables) -> Chart:
    """A panel a step."""
    table = tables["word-alignment"]
    grid = HeadsGrid("aer", "alignment error rate", panel="step", panel_order=[*STEPS.values()])
    return grid.draw(table.assign(step=table["step"].map(STEPS)))


def alignment_facts(tables: Tables) -> Facts:
    """The error rate at each step, and its rank from the lowest up."""
    table = tables["word-alignment"]
    ranked = add_rank(table.assign(right=1 - table["aer"]), "right", "step")
    n_heads = table.groupby(["layer", "head"]).ngroups

    def phrase(row: Any) -> Part:
        rate = f"{SHARE.row(row, 'aer')} {STEPS[row.step]}"
        return Part("error rate", rate, row.aer, rank=read_rank(row), n_heads=n_heads)

    return by_head(ranked, "word alignment", phrase)


def answer_alignment(tables: Tables) -> list[Answer]:
    """The head that aligns best, beside the diagonal."""
    table = tables["word-alignment"]
    table = table[table["aer"].notna()]
    if table.empty:
        return []
    row = top_row(table.assign(right=1 - table["aer"]), "right")
    name = name_head(row)
    rates = (
        f"its alignment error rate is {write_percent(row['aer'])} (chosen on the same words; the "
        f"diagonal has {write_percent(row['diagonal_aer'])}; 0 % is perfect)"
    )
    is_better = row["high"] < row["diagonal_aer"]
    clearly = "" if row["low"] > row["diagonal_aer"] else "clearly "
    none = f"No head {clearly}aligns words better than the diagonal; the best is {name}"
    text = f"{f'Head {name} aligns words best' if is_better else none}: {rates}."
    detail = f"{SHARE.row(row, 'aer')}, read {STEPS[row['step']]}."
    return [Answer(text, 0.95 if is_better else 0.3, detail, (name,), "word-alignment")]


def find_aligner(tables: Tables) -> list[NotableHead]:
    """The head that aligns best, at its step, if it aligns at all."""
    if not len(table := tables.get("word-alignment", pd.DataFrame())):
        return []
    best = top_row(table.assign(right=1 - table["aer"]), "right")
    place = int(best["layer"]) - 1, int(best["head"]) - 1, ([*STEPS].index(best["step"]),)
    return [NotableHead(TITLE, "aligned", *place)] if best["right"] > LEAST_SHARE else []


def read_best(table: pd.DataFrame, min_count: int) -> list[TextTable]:
    """The heads that align best."""
    best = table.sort_values("aer", kind="stable").head(SHOWN_HEADS)
    columns = (
        Column("best aligners", lambda row: f"{row['layer']}-{row['head']}"),
        Column("read", lambda row: STEPS[row["step"]]),
        Column("alignment error rate", lambda row: SHARE.row(pd.Series(row), "aer")),
        Column("precision", lambda row: SHARE.number(row["precision"])),
        Column("recall", lambda row: SHARE.number(row["recall"])),
        Column("the diagonal", lambda row: SHARE.number(row["diagonal_aer"])),
    )
    return [build_table(best.to_dict("records"), columns)]


PRESENTATION = Presentation(
    section=CROSS,
    figures=(
        Figure(
            name="word-alignment",
            title="Heads as word aligners",
            caption=(
                f"{HOW_TO_READ} Alignment error rate when each target word is linked to the source "
                f"word that its row attends to most. The lighter, the better. One panel: rows that "
                f"write the word. The other: rows that have just read it."
            ),
            needs=("word-alignment",),
            made_by="--text PAIRS.jsonl (with gold alignments)",
            draw_tables=draw_alignment,
            in_line=3,
        ),
    ),
    answers=(AnswerMaker(("word-alignment",), answer_alignment),),
    facts=(FactMaker(("word-alignment",), alignment_facts),),
    printed=(PrintedTable("word-alignment", read_best),),
    notable_heads=find_aligner,
)
