"""What is shown of whole parses: how much of them each head finds."""

from headscope.data.table import Tables, rows_where
from headscope.view.answer import OPEN, write_percent
from headscope.view.facts import accuracy_facts
from headscope.view.judge import name_head, top_row
from headscope.view.numbers import SHARE
from headscope.view.presentation import SYNTAX, Presentation
from headscope.view.specs import Answer, AnswerMaker

__all__ = ["PRESENTATION"]


def answer_trees(tables: Tables) -> list[Answer]:
    """The head with the best whole trees, beside a chain of neighbours."""
    rows = rows_where(tables["trees"], tree="undirected")
    rows = rows[rows["accuracy"].notna()]
    heads, chain = (rows_where(rows, system=system) for system in ("head", "adjacent chain"))
    if heads.empty:
        return []
    row = top_row(heads, "accuracy")
    name, weight = name_head(row), 0.4
    text = (
        f"Of all heads, {name} gives the best trees: {write_percent(row['accuracy'])} of the arcs "
        "are right (without direction; chosen on the same sentences)"
    )
    if len(chain):
        share = chain["accuracy"].iloc[0]
        is_better = bool(row["low"] > share)
        weight = 0.4 if is_better else OPEN
        text += f"; linking each word to its neighbour gets {write_percent(share)}"
        text += "" if is_better else ", so it is not clearly better"
    detail = f"{SHARE.row(row, 'accuracy')} of {row['count']} arcs, without direction."
    return [Answer(f"{text}.", weight, detail, (name,))]


PRESENTATION = Presentation(SYNTAX, [
    AnswerMaker(("trees",), answer_trees),
    accuracy_facts(
        "whole trees, without direction", "trees", {}, system="head", tree="undirected"
    ),
])  # fmt: skip
