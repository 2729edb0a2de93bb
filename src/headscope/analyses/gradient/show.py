"""What is shown of gradients: does the loss depend on attention to a class of tokens? (Figure 3)"""

from collections.abc import Callable
from typing import Any

import pandas as pd

from headscope.analyses.special_tokens.show import PANELS, TARGETS, find_sink
from headscope.data.table import Tables
from headscope.stats.interval import Estimate
from headscope.view.card import FactMaker, Facts, by_head
from headscope.view.claim import Claim, Outcome, mean_over, straddles
from headscope.view.depth import count_layers, like_paper, name_layers, of_layers
from headscope.view.figure import Chart, Figure
from headscope.view.layer_dots import LayerDots, how_to_read
from headscope.view.numbers import SMALL
from headscope.view.presentation import IMPORTANCE, Presentation, PrintedTable
from headscope.view.table import TextTable

__all__ = ["PRESENTATION"]

MADE_BY = "--text FILE --also gradient"
UNLESS = "A model without a trained language-modelling head cannot have it."
VERY_SMALL = 0.5  # of the gradient to other tokens
THIRDS = {0: "lower layers", 1: "middle layers", 2: "upper layers"}


def _attended(tables: Tables) -> pd.DataFrame:
    """The classes of tokens that there are."""
    table = tables["gradient"]
    return table[table.groupby("target")["gradient"].transform("max") > 0]


def draw_gradient(tables: Tables) -> Chart:
    """One colour a class of tokens."""
    rows = _attended(tables)
    dots = LayerDots(
        value="gradient",
        title="size of the gradient of the loss",
        split="target",
        words=PANELS,
        by_panel=False,
    )
    return dots.draw(rows if len(rows) else tables["gradient"])


def gradient_facts(tables: Tables) -> Facts:
    """How far the loss depends on its attention, by target."""

    def phrase(row: Any) -> str:
        return f"to {TARGETS.get(row.target, row.target)} {SMALL.row(row, 'gradient')}"

    return by_head(_attended(tables), "gradient of the loss", phrase)


def read_gradients(table: pd.DataFrame, min_count: int) -> list[TextTable]:
    """For each class of tokens the mean gradient over the heads of each third of the layers."""
    third = ((table["layer"] - 1) * 3 // count_layers(table)).rename("third")
    means = table.groupby(["target", third], sort=False)["gradient"].mean().unstack()
    parts = [part for part in THIRDS if part in means]
    columns = ("the loss depends on attention to", *(THIRDS[part] for part in parts))
    rows = [
        (str(target), *(SMALL.number(row[part]) for part in parts))
        for target, row in means.iterrows()
    ]
    return [TextTable(columns, tuple(rows))]


def check_small(tables: Tables) -> Outcome:
    """From layer 5 of 12 on the loss depends on attention to [SEP] less than on other attention."""
    table = tables["gradient"]
    target, called, note = find_sink(table, "gradient")
    n_layers = count_layers(table)
    layers = like_paper(5, 12, n_layers)
    sink, rest = (_mean(table, kind, layers) for kind in (target, "other"))
    if pd.isna(sink.value) or not rest.value > 0:
        return Outcome(None, f"{note}There are no gradients to compare.")
    is_open = straddles(sink, VERY_SMALL * rest.value)
    caveat = " The interval includes half of that: this may be chance." * is_open
    shows = (
        f"{note}In {name_layers(layers, n_layers)} the gradient to {called} is "
        f"{SMALL.estimate(sink)}, that to other tokens {SMALL.estimate(rest)}: "
        f"{sink.value / rest.value:.2f} times as large.{caveat}"
    )
    return Outcome(sink.value < VERY_SMALL * rest.value, shows)


def check_falls(tables: Tables) -> Outcome:
    """The gradient to [SEP] is smaller from layer 5 of 12 on than before."""
    table = tables["gradient"]
    target, called, note = find_sink(table, "gradient")
    n_layers = count_layers(table)
    upper = like_paper(5, 12, n_layers)
    lower = [layer for layer in range(1, n_layers + 1) if layer not in upper]
    if not lower:
        return Outcome(None, "The model has one layer: there are no lower and upper ones.")
    before, after = (_mean(table, target, layers) for layers in (lower, upper))
    if pd.isna(before.value) or pd.isna(after.value):
        return Outcome(None, f"{note}There are no gradients to compare.")
    is_open = straddles(after, before.value)
    caveat = " The interval includes that of before: this may be chance." * is_open
    shows = (
        f"{note}The gradient to {called} is {SMALL.estimate(before)} in "
        f"{name_layers(lower, n_layers)} and {SMALL.estimate(after)} in "
        f"{name_layers(upper, n_layers)}.{caveat}"
    )
    return Outcome(after.value < before.value, shows)


def _mean(table: pd.DataFrame, target: str, layers: list[int]) -> Estimate[float]:
    return mean_over(of_layers(table[table["target"] == target], layers), "gradient")


def _claim(name: str, says: str, paper: str, check: Callable[[Tables], Outcome]) -> Claim:
    return Claim(name, "3.2", says, paper, ("gradient",), MADE_BY, check, "gradient", UNLESS)


FIGURE = Figure(
    name="gradient",
    title="Does attention matter to the loss?",
    caption=(
        "How strongly the loss changes with the attention weights to a class of tokens. "
        f"{how_to_read('mean size of the gradient')} One colour for each class of attended tokens. "
        "Where it is near zero, attending more or less there changes nothing."
    ),
    needs=("gradient",),
    made_by=MADE_BY,
    draw_tables=draw_gradient,
    paper="Figure 3",
)
CLAIMS = (
    _claim(
        "gradient-to-sep-is-small",
        "From layer 5 of 12 on, the gradients for attention to [SEP] are very small (here: less "
        "than half of those to other tokens).",
        "very small; seen in Figure 3",
        check_small,
    ),
    _claim(
        "gradient-to-sep-falls",
        "The gradients for attention to [SEP] are smaller from layer 5 of 12 on than before.",
        "they become very small there; seen in Figure 3",
        check_falls,
    ),
)
PRESENTATION = Presentation(
    section=IMPORTANCE,
    figures=(FIGURE,),
    claims=CLAIMS,
    facts=(FactMaker(("gradient",), gradient_facts),),
    printed=(PrintedTable("gradient", read_gradients),),
)
