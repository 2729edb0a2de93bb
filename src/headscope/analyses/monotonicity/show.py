"""What is shown of the order in which cross attention goes through the source."""

from headscope.data.table import Tables
from headscope.view.answer import count_heads, nearest_head
from headscope.view.facts import head_facts
from headscope.view.judge import passing
from headscope.view.numbers import Form
from headscope.view.presentation import CROSS, Presentation
from headscope.view.specs import (
    COLOURS,
    HOW_TO_READ,
    Answer,
    AnswerMaker,
    Behaviour,
    Grid,
    Kind,
    Threshold,
)

__all__ = ["PRESENTATION"]

CORRELATION = Form("+.2f", to=" to ")
KIND = Kind("the source in order or backwards", COLOURS[5], "triangle-right")
THRESHOLD = Threshold("monotone", 0.5, "Threshold for calling a cross head monotone.")


def answer_order(tables: Tables) -> list[Answer]:
    """How many heads read the source in order, or backwards, and the one that does so most."""
    table = tables["monotonicity"]
    table = table[table["correlation"].notna()]
    if table.empty:
        return []
    is_back = abs(table["correlation"].min()) > table["correlation"].max()
    if is_back:
        ends = {"correlation": "correlation", "low": "high", "high": "low"}
        table = table.assign(**{name: -table[old] for name, old in ends.items()})
    order, line = ("backwards", "anti-diagonal") if is_back else ("in order", "diagonal")
    heads = passing(table, THRESHOLD.default, "correlation")
    forms = ("monotonicity", "correlation", CORRELATION, CORRELATION)
    if not len(heads.sure):
        return [nearest_head(table, heads, "reads the source in order or backwards", *forms)]
    does = f"reads the source {order} (1 is a straight {line})"
    return [count_heads(heads, len(table), does, 0.9, *forms)]


PRESENTATION = Presentation(CROSS, made_by="--text PAIRS.jsonl", show=[
    Grid(
        name="monotonicity", column="correlation", axis="order (1 diagonal, -1 anti-diagonal)",
        diverging=True, title="Heads that read the source in order",
        caption=f"{HOW_TO_READ} Correlation between the position in the target and the attended "
        "position in the source. Red: the source is read in order (1 is a straight diagonal). "
        "Blue: backwards.",
    ),
    AnswerMaker(("monotonicity",), answer_order),
    head_facts("order of the source", "monotonicity", "correlation", form=CORRELATION, bar="none"),
    *(
        Behaviour(
            f"source {order}", f"reads the source {order} ({{}})", KIND, THRESHOLD, "monotonicity",
            "correlation", ranking=order, short=short, is_negative=order == "backwards",
        )
        for order, short in (("in order", "order"), ("backwards", "back"))
    ),
])  # fmt: skip
