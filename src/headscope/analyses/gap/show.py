"""What is shown of GAP: how often a pronoun attends to the right name, by gender."""

import pandas as pd

from headscope.analyses.coreference.show import WAYS
from headscope.data.table import Tables, rows_where
from headscope.view.answer import in_hundred, name_best, weigh
from headscope.view.facts import accuracy_facts
from headscope.view.judge import name_head, top_row
from headscope.view.numbers import PERCENT, RATIO, SHARE, held_out, percent
from headscope.view.presentation import ANTECEDENTS, Presentation
from headscope.view.specs import Answer, AnswerMaker, PrintedTable
from headscope.view.table import Column, TextTable, build_table, corpus_columns

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
    Column("ratio", lambda row: RATIO.row(row, "ratio")),
)


def read_best(best: pd.DataFrame, min_count: int) -> list[TextTable]:
    """The best head and the rules by gender; the ratio is feminine over masculine."""
    shown = best[best["system"] != "head-match"]  # no name has a pronoun's head word
    return [build_table(shown.to_dict("records"), (*corpus_columns(best), *COLUMNS))]


def answer_names(tables: Tables) -> list[Answer]:
    """How often the best head picks the right name, beside the strongest baseline."""
    best = rows_where(tables["gap-best"], candidates="mentions")
    is_head = best["system"] == "best head"
    rows = best[is_head]
    if rows.empty or pd.isna(rows["heldout_accuracy"].iloc[0]):
        return []
    row = rows.iloc[0]
    head, accuracy = name_head(row), held_out(row)
    rule = top_row(best[~is_head], "accuracy")
    is_better = accuracy.low > rule["accuracy"]
    text = (
        f"{name_best(row, head)} finds the right one of the annotated names for "
        f"{in_hundred(accuracy.value)} of 100 pronouns (held out; {WAYS[row['direction']]}); the "
        f"strongest baseline, {rule['system']}, finds {in_hundred(rule['accuracy'])}"
        f"{'' if is_better else ', so it is not clearly better'}."
    )
    detail = f"{SHARE.estimate(accuracy)} of {row['count']} pronouns."
    return [Answer(text, weigh(0.75 if is_better else 0.5, accuracy), detail, (head,))]


PRESENTATION = Presentation(ANTECEDENTS, [
    AnswerMaker(("gap-best",), answer_names),
    accuracy_facts(
        "GAP: right names", "gap", WAYS, gender="all", candidates="mentions", system="head"
    ),
    PrintedTable("gap-best", read_best),
])  # fmt: skip
