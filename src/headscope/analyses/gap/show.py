"""What is shown of GAP: how often a pronoun attends to the right name, by gender."""

import pandas as pd

from headscope.analyses.coreference.show import WAYS
from headscope.data.table import Tables
from headscope.view.answer import Answer, AnswerMaker, in_hundred, name_best, weigh
from headscope.view.best_bars import corpus_columns
from headscope.view.card import FactMaker, Facts, accuracy_facts
from headscope.view.claim import name_head, top_row
from headscope.view.numbers import PERCENT, RATIO, SHARE, held_out, percent, row_estimate
from headscope.view.presentation import ANTECEDENTS, Presentation, PrintedTable
from headscope.view.table import Column, TextTable, build_table

__all__ = ["PRESENTATION"]

COLUMNS = (
    Column("pronouns by", lambda row: str(row["system"])),
    Column("compete", lambda row: str(row["candidates"])),
    Column("head", lambda row: "" if pd.isna(row["layer"]) else f"{row['layer']}-{row['head']}"),
    Column("count", lambda row: str(row["count"])),
    Column("held out %", lambda row: PERCENT.estimate(held_out(row))),
    Column("on all", lambda row: percent(row["accuracy"])),
    Column("masculine", lambda row: percent(row["masculine"])),
    Column("feminine", lambda row: percent(row["feminine"])),
    Column(
        "ratio",
        lambda row: RATIO.estimate(row_estimate(row, "ratio", "ratio_low", "ratio_high")),
    ),
)


def read_best(best: pd.DataFrame, min_count: int) -> list[TextTable]:
    """The best head and the rules by gender; the ratio is feminine over masculine."""
    shown = best[best["system"] != "head-match"]  # no name has a pronoun's head word
    return [build_table(shown.to_dict("records"), (*corpus_columns(best), *COLUMNS))]


def gap_facts(tables: Tables) -> Facts:
    """How often it picks the right one of two names."""
    table = tables["gap"]
    is_whole = (table["gender"] == "all") & (table["candidates"] == "mentions")
    return accuracy_facts("GAP: right names", table[is_whole & (table["system"] == "head")], WAYS)


def answer_names(tables: Tables) -> list[Answer]:
    """How often the best head picks the right name, beside the strongest baseline."""
    best = tables["gap-best"]
    best = best[best["candidates"] == "mentions"]
    is_head = best["system"] == "best head"
    rows = best[is_head]
    if rows.empty or pd.isna(rows["heldout_accuracy"].iloc[0]):
        return []
    row = rows.iloc[0]
    head, found = name_head(row), held_out(row)
    rule = top_row(best[~is_head], "accuracy")
    is_better = found.low > rule["accuracy"]
    text = (
        f"{name_best(row, head)} finds the right one of the annotated names for "
        f"{in_hundred(found.value)} of 100 pronouns (held out; {WAYS[row['direction']]}); the "
        f"strongest baseline, {rule['system']}, finds {in_hundred(rule['accuracy'])}"
        f"{'' if is_better else ', so it is not clearly better'}."
    )
    detail = f"{SHARE.estimate(found)} of {row['count']} pronouns."
    return [Answer(text, weigh(0.75 if is_better else 0.5, found), detail, (head,))]


PRESENTATION = Presentation(
    section=ANTECEDENTS,
    answers=(AnswerMaker(("gap-best",), answer_names),),
    facts=(FactMaker(("gap",), gap_facts),),
    printed=(PrintedTable("gap-best", read_best),),
)
