"""What is shown of the order in which cross attention goes through the source."""

from typing import Any

import pandas as pd

from headscope.data.table import Tables
from headscope.view.answer import Answer, AnswerMaker, say_more, say_none
from headscope.view.behaviour import Behaviour, Kind, Threshold
from headscope.view.card import FactMaker, Facts, Part, add_rank, by_head, read_rank
from headscope.view.claim import name_head, passing, top_row
from headscope.view.figure import COLOURS, Figure
from headscope.view.heads_grid import HOW_TO_READ, HeadsGrid
from headscope.view.numbers import Form
from headscope.view.presentation import CROSS, Presentation

__all__ = ["PRESENTATION"]

GRID = HeadsGrid("correlation", "order (1 diagonal, -1 anti-diagonal)", diverging=True)
CORRELATION = Form("+.2f", to=" to ")
KIND = Kind("the source in order or backwards", COLOURS[5], "triangle-right")
THRESHOLD = Threshold("monotone", 0.5, "Threshold for calling a cross head monotone.")


def order_facts(tables: Tables) -> Facts:
    """The correlation, and its rank."""
    table = tables["monotonicity"]

    def phrase(row: Any) -> Part:
        correlation = CORRELATION.row(row, "correlation")
        return Part("", correlation, rank=read_rank(row), n_heads=len(table))

    return by_head(add_rank(table, "correlation"), "order of the source", phrase)


def answer_order(tables: Tables) -> list[Answer]:
    """How many heads read the source in order, or backwards, and the one that does so most."""
    table = tables["monotonicity"]
    table = table[table["correlation"].notna()]
    if table.empty:
        return []
    is_back = abs(table["correlation"].min()) > table["correlation"].max()
    order = "backwards" if is_back else "in order"
    names = ("correlation", "high", "low") if is_back else ("correlation", "low", "high")
    sizes = {
        new: -table[old] if is_back else table[old]
        for new, old in zip(("size", "size_low", "size_high"), names, strict=True)
    }
    table = table.assign(**sizes)
    found = passing(table, THRESHOLD.default, "size", "size_low", "size_high")
    n_found = len(found.sure)
    top = top_row(found.sure if n_found else table, "size")
    name = name_head(top)
    correlation = f"{name} (correlation {CORRELATION.number(top['correlation'])})"
    read = "reads" if n_found == 1 else "read"
    more = f"most of all {correlation}{say_more(found)}"
    text = f"{n_found} of {len(table)} heads {read} the source {order}, {more}."
    if not n_found:
        none = say_none("reads the source in order or backwards", found)
        text = f"{none}; the closest is {correlation}."
    detail = f"{name} {CORRELATION.row(top, 'correlation')}; 1 is a straight diagonal."
    return [Answer(text, 0.9 if n_found else 0.3, detail, (name,), "monotonicity")]


def forwards(table: pd.DataFrame) -> pd.DataFrame:
    """How much a head goes forwards."""
    return table.rename(columns={"correlation": "share"})


def backwards(table: pd.DataFrame) -> pd.DataFrame:
    """How much a head goes backwards."""
    turned = table.assign(share=-table["correlation"], low=-table["high"], high=-table["low"])
    return turned.drop(columns="correlation")


PRESENTATION = Presentation(
    section=CROSS,
    figures=(
        Figure(
            name="monotonicity",
            title="Heads that read the source in order",
            caption=(
                f"{HOW_TO_READ} Correlation between the position in the target and the attended "
                f"position in the source. Red: the source is read in order (1 is a straight "
                f"diagonal). Blue: backwards."
            ),
            needs=("monotonicity",),
            made_by="--text PAIRS.jsonl",
            draw_tables=lambda tables: GRID.draw(tables["monotonicity"]),
            in_line=3,
        ),
    ),
    answers=(AnswerMaker(("monotonicity",), answer_order),),
    facts=(FactMaker(("monotonicity",), order_facts),),
    behaviours=(
        Behaviour(
            "source in order",
            "reads the source in order ({})",
            KIND,
            THRESHOLD,
            "monotonicity",
            forwards,
            short="order",
            ranking="in order",
        ),
        Behaviour(
            "source backwards",
            "reads the source backwards ({})",
            KIND,
            THRESHOLD,
            "monotonicity",
            backwards,
            short="back",
            ranking="backwards",
        ),
    ),
)
