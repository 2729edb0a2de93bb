"""Section 3.2 and Figure 3: the loss hardly depends on attention to [SEP]."""

from collections.abc import Callable

import pandas as pd

from headscope.report.claims.claim import Claim, Estimate, Outcome, Tables
from headscope.report.claims.depth import count_layers, like_paper, name_layers, of_layers
from headscope.report.claims.special_tokens import find_sink

__all__ = ["CLAIMS"]

VERY_SMALL = 0.5  # of the gradient to other tokens


def check_small(tables: Tables) -> Outcome:
    """From layer 5 of 12 on the loss depends on attention to [SEP] less than on other attention."""
    table = tables["gradient"]
    target, called, note = find_sink(table, "gradient")
    n_layers = count_layers(table)
    layers = like_paper(5, 12, n_layers)
    sink, rest = (_mean(table, kind, layers) for kind in (target, "other"))
    if pd.isna(sink.value) or not rest.value > 0:
        return Outcome(None, f"{note}There are no gradients to compare.")
    is_open = sink.straddles(VERY_SMALL * rest.value)
    caveat = " The interval includes half of that: this may be chance." * is_open
    shows = (
        f"{note}In {name_layers(layers, n_layers)} the gradient to {called} is {_say(sink)}, that "
        f"to other tokens {_say(rest)}: {sink.value / rest.value:.2f} times as large.{caveat}"
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
    caveat = " The interval includes that of before: this may be chance."
    shows = (
        f"{note}The gradient to {called} is {_say(before)} in {name_layers(lower, n_layers)} and "
        f"{_say(after)} in {name_layers(upper, n_layers)}.{caveat * after.straddles(before.value)}"
    )
    return Outcome(after.value < before.value, shows)


def _mean(table: pd.DataFrame, target: str, layers: list[int]) -> Estimate:
    rows = of_layers(table[table["target"] == target], layers)
    return Estimate.mean_of(rows, "gradient")


def _say(estimate: Estimate) -> str:
    ends = "" if pd.isna(estimate.low) else f" [{estimate.low:.2g} to {estimate.high:.2g}]"
    return f"{estimate.value:.2g}{ends}"


def _claim(name: str, says: str, paper: str, check: Callable[[Tables], Outcome]) -> Claim:
    made_by = "--text FILE --also gradient"
    unless = "A model without a trained language-modelling head cannot have it."
    return Claim(name, "3.2", says, paper, ("gradient",), made_by, check, "gradient", unless)


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
