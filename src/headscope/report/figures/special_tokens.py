"""Attention to special tokens and punctuation, layer by layer (the paper's Figure 2)."""

import pandas as pd

from headscope.report.figures.figure import Drawing, Figure, Tables
from headscope.report.figures.layer_dots import LayerDots

__all__ = ["SPECIAL_TOKENS", "SPECIAL_TOKENS_FROM_SEP", "TARGETS"]

TARGETS = {
    "cls": "to opening tokens ([CLS])",
    "sep": "to closing tokens ([SEP])",
    "first": "to the first token",
    "punctuation": "to periods and commas",
    "other": "to all other tokens",
}


def draw_special_tokens(tables: Tables) -> Drawing:
    """From all tokens; one panel a class of tokens."""
    return _draw(_rows(tables, "all"))


def draw_from_sep(tables: Tables) -> Drawing:
    """From the closing tokens alone; one panel a class of tokens."""
    return _draw(_rows(tables, "sep"))


def _draw(rows: pd.DataFrame) -> Drawing:
    dots = LayerDots(value="weight", title="share of attention", split="target", words=TARGETS)
    return dots.draw(rows)


def _rows(tables: Tables, source: str) -> pd.DataFrame:
    """One source's rows of the classes that get any attention; a model need not have them all."""
    rows = tables["special-tokens"]
    rows = rows[(rows["source"] == source) & rows["weight"].notna()]
    return rows[rows.groupby("target")["weight"].transform("max") > 0]


def _has_sep_rows(tables: Tables) -> bool:
    return len(_rows(tables, "sep")) > 0


HOW_TO_READ = (
    "One panel for each class of tokens that get attention. Every dot is a head: how far to the "
    "right is its layer, how high the share of its attention that goes to the class. The line is "
    "the mean of the layer."
)

SPECIAL_TOKENS = Figure(
    name="special-tokens",
    title="Attention to special tokens",
    caption=f"{HOW_TO_READ} The shares of a head add up to 1 over the panels.",
    needs=("special-tokens",),
    made_by="--text FILE",
    draw_tables=draw_special_tokens,
    paper="Figure 2",
)

SPECIAL_TOKENS_FROM_SEP = Figure(
    name="special-tokens-from-sep",
    title="Where closing tokens look",
    caption=(
        f"{HOW_TO_READ} Only the attention of the closing tokens ([SEP]) themselves is counted. In "
        "the paper they look at themselves and each other where other tokens look at them."
    ),
    needs=("special-tokens",),
    made_by="--text FILE",
    draw_tables=draw_from_sep,
    paper="Figure 2",
    has_content=_has_sep_rows,
    content="attention from closing tokens (an encoder's [SEP])",
)
