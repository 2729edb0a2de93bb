"""What is shown of the largest weights (section 3.3)."""

from typing import Any

from headscope.data.table import Tables
from headscope.view.card import FactMaker, Facts, add_rank, by_head
from headscope.view.claim import (
    Claim,
    Outcome,
    fill_exact,
    judge_count,
    name_head,
    note_open,
    passing,
)
from headscope.view.figure import Figure
from headscope.view.heads_grid import HOW_TO_READ, HeadsGrid
from headscope.view.numbers import SHARE
from headscope.view.presentation import SURFACE, Presentation

__all__ = ["PRESENTATION"]

LITTLE = 0.1
GRID = HeadsGrid("weight", "mean largest weight")


def max_weight_facts(tables: Tables) -> Facts:
    """How much goes to the token that gets most."""
    table = tables["max-weight"]

    def phrase(row: Any) -> str:
        return f"{SHARE.row(row, 'weight')} in the mean (rank {row.rank:.0f} of {len(table)})"

    return by_head(add_rank(table, "weight"), "largest weight of a row", phrase)


def check_little(tables: Tables) -> Outcome:
    """Some heads put at most 10 % on any single word."""
    table = fill_exact(tables["max-weight"])
    found = passing(table, LITTLE, is_above=False)
    lowest = table.sort_values("weight", kind="stable").iloc[0]
    shows = (
        f"{len(found.sure)} of {len(table)} heads have a mean largest weight of at most 10 %; the "
        f"lowest is {SHARE.row(lowest, 'weight')}, of head {name_head(lowest)}."
        f"{note_open(found, '10 %')}"
    )
    return judge_count(len(found.sure), len(found.open), 1, shows)


PRESENTATION = Presentation(
    section=SURFACE,
    figures=(
        Figure(
            name="max-weight",
            title="How much goes to one token",
            caption=f"{HOW_TO_READ} The darker, the more goes to the token that gets most.",
            needs=("max-weight",),
            made_by="--text FILE",
            draw_tables=lambda tables: GRID.draw(tables["max-weight"]),
            is_half=True,
        ),
    ),
    claims=(
        Claim(
            "at-most-a-tenth-on-a-word",
            "3.3",
            "Some heads attend so broadly that no single word gets more than 10 % (here: the mean "
            "largest weight of their rows is at most 10 %).",
            '"These high-entropy attention heads typically spend at most 10% of their attention '
            'mass on any single word."',
            ("max-weight",),
            "--text FILE",
            check_little,
            "max-weight",
        ),
    ),
    facts=(FactMaker(("max-weight",), max_weight_facts),),
)
