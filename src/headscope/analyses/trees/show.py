"""What is shown of whole parses: how much of them each head finds."""

from headscope.data.table import Tables
from headscope.view.answer import OPEN, Answer, AnswerMaker, write_percent
from headscope.view.card import FactMaker, Facts, accuracy_facts
from headscope.view.claim import name_head, top_row
from headscope.view.numbers import SHARE
from headscope.view.presentation import SYNTAX, Presentation

__all__ = ["PRESENTATION"]


def tree_facts(tables: Tables) -> Facts:
    """How much of whole parses is in it."""
    table = tables["trees"]
    rows = table[(table["system"] == "head") & (table["tree"] == "undirected")]
    return accuracy_facts("whole trees, without direction", rows, {})


def answer_trees(tables: Tables) -> list[Answer]:
    """The head with the best whole trees, beside a chain of neighbours."""
    table = tables["trees"]
    rows = table[(table["tree"] == "undirected") & table["accuracy"].notna()]
    heads, chain = rows[rows["system"] == "head"], rows[rows["system"] == "adjacent chain"]
    if heads.empty:
        return []
    row = top_row(heads, "accuracy")
    name = name_head(row)
    text = (
        f"Of all heads, {name} gives the best trees: {write_percent(row['accuracy'])} of the arcs "
        "are right (without direction; chosen on the same sentences)"
    )
    weight = 0.4
    if len(chain):
        share = chain["accuracy"].iloc[0]
        is_better = bool(row["low"] > share)
        weight = 0.4 if is_better else OPEN
        text += f"; linking each word to its neighbour gets {write_percent(share)}"
        text += "" if is_better else ", so it is not clearly better"
    detail = f"{SHARE.row(row, 'accuracy')} of {row['count']} arcs, without direction."
    return [Answer(f"{text}.", weight, detail, (name,))]


PRESENTATION = Presentation(
    section=SYNTAX,
    answers=(AnswerMaker(("trees",), answer_trees),),
    facts=(FactMaker(("trees",), tree_facts),),
)
