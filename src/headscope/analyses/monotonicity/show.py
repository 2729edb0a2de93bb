"""What is shown of the order in which cross attention goes through the source."""

from typing import Any

import pandas as pd

from headscope.data.table import Tables
from headscope.view.behaviour import Behaviour, Kind, Threshold
from headscope.view.card import FactMaker, Facts, add_rank, by_head
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

    def phrase(row: Any) -> str:
        return f"{CORRELATION.row(row, 'correlation')} (rank {row.rank:.0f} of {len(table)})"

    return by_head(add_rank(table, "correlation"), "order of the source", phrase)


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
                f"{HOW_TO_READ} The correlation of the place in the target with the place attended "
                "to in the source: red, the source is read in order (1 is a straight diagonal); "
                "blue, backwards."
            ),
            needs=("monotonicity",),
            made_by="--text PAIRS.jsonl",
            draw_tables=lambda tables: GRID.draw(tables["monotonicity"]),
            is_half=True,
        ),
    ),
    facts=(FactMaker(("monotonicity",), order_facts),),
    behaviours=(
        Behaviour(
            "source in order",
            "reads the source in order ({})",
            KIND,
            THRESHOLD,
            "monotonicity",
            forwards,
        ),
        Behaviour(
            "source backwards",
            "reads the source backwards ({})",
            KIND,
            THRESHOLD,
            "monotonicity",
            backwards,
        ),
    ),
)
