"""What is shown of cross attention as a word aligner."""

import pandas as pd

from headscope.data.table import Tables
from headscope.view.answer import write_percent
from headscope.view.facts import head_facts
from headscope.view.judge import name_head
from headscope.view.numbers import SHARE
from headscope.view.presentation import CROSS, LEAST_SHARE, NotableHead, Presentation
from headscope.view.specs import HOW_TO_READ, Answer, AnswerMaker, Grid, PrintedTable
from headscope.view.table import Column, build_table

__all__ = ["PRESENTATION"]

STEPS = {"output": "as it writes the word", "input": "as it has read the word"}
SHOWN_HEADS = 5
COLUMNS = (
    Column("best aligners", lambda row: f"{row['layer']}-{row['head']}"),
    Column("read", lambda row: STEPS[row["step"]]),
    Column("alignment error rate", lambda row: SHARE.row(row, "aer")),
    Column("precision", lambda row: SHARE.number(row["precision"])),
    Column("recall", lambda row: SHARE.number(row["recall"])),
    Column("the diagonal", lambda row: SHARE.number(row["diagonal_aer"])),
)


def _best(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of heads, the lowest error rate first."""
    return table[table["aer"].notna()].sort_values("aer", kind="stable")


def answer_alignment(tables: Tables) -> list[Answer]:
    """The head that aligns best, beside the diagonal."""
    best = _best(tables["word-alignment"])
    if best.empty:
        return []
    row = best.iloc[0]
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
    best = _best(tables.get("word-alignment", pd.DataFrame({"aer": []})))
    if best.empty or not 1 - best["aer"].iloc[0] > LEAST_SHARE:
        return []
    row = best.iloc[0]
    step = [*STEPS].index(row["step"])
    place = int(row["layer"]) - 1, int(row["head"]) - 1
    return [NotableHead("word alignment", "aligned", *place, (step,))]


PRESENTATION = Presentation(CROSS, notable_heads=find_aligner, show=[
    Grid(
        name="word-alignment", column="aer", axis="alignment error rate", panel="step", words=STEPS,
        made_by="--text PAIRS.jsonl (with gold alignments)", title="Heads as word aligners",
        caption=f"{HOW_TO_READ} Alignment error rate when each target word is linked to the source "
        "word that its row attends to most. The lighter, the better. One panel: rows that write "
        "the word. The other: rows that have just read it.",
    ),
    AnswerMaker(("word-alignment",), answer_alignment),
    head_facts(
        "word alignment", "word-alignment", "aer", split="step", words=STEPS, label="error rate",
        is_lowest_first=True, note=lambda row: STEPS[row.step],
    ),
    PrintedTable(
        "word-alignment",
        lambda table, min_count: [
            build_table(_best(table).head(SHOWN_HEADS).to_dict("records"), COLUMNS)
        ],
    ),
])  # fmt: skip
