"""How much attention goes to special tokens, in plain sentences; and to classes of the user."""

import pandas as pd

from headscope.data.table import Tables
from headscope.view.answer import (
    count_heads,
    is_wide,
    name_heads,
    nearest_head,
    note_rough,
    write_percent,
)
from headscope.view.judge import fill_exact, passing, top_row
from headscope.view.numbers import RATIO, ROUND_PERCENT, SHARE, row_estimate
from headscope.view.specs import Answer, AnswerMaker
from headscope.view.table import FIRM, TextTable

__all__ = ["ANSWERS", "read_own_classes"]

HALF = 0.5
SHOWN_HEADS = 5
CLEAR_RISE = 1.5  # times as much as before, to be said in the answer
FIGURE = "special-tokens"
CALLED = {
    "cls": "the opening token ([CLS])",
    "sep": "the closing token ([SEP])",
    "first": "the first token",
    "punctuation": "periods and commas",
    "sink": "no token (the learned sink)",
}


def answer_sink(tables: Tables) -> list[Answer]:
    """How much goes to the class of special tokens that gets most, and from which layer on."""
    means = tables["special-tokens-layers"]
    is_over_all = (means["layers"] == "all") & (means["source"] == "all")
    means = means[is_over_all & means["target"].isin(list(CALLED)) & (means["weight"] > 0)]
    if means.empty:
        return []
    row = top_row(means, "weight")
    mean = row_estimate(row, "weight")
    if is_wide(mean):
        return []
    called, share = CALLED[row["target"]], write_percent(row["weight"])
    detail = f"Over all layers and heads {SHARE.row(row, 'weight')}."
    step = _find_step(tables, row["target"])
    if step is None:
        text = f"{share} of all attention goes to {called}{note_rough(mean)}."
        return [Answer(text, _weigh(row["weight"]), detail, (), FIGURE)]
    text = (
        f"From layer {step['layer']:.0f} on, {write_percent(step['after'])} of attention goes to "
        f"{called}; in earlier layers {write_percent(step['before'])}."
    )
    change = row_estimate(step, "ratio")
    rises = f"From there on it is {RATIO.estimate(change)} times as much as before."
    if pd.notna(step["low"]) and step["high"] > step["low"]:
        rises = f"The rise is between layers {step['low']:.0f} and {step['high']:.0f}. {rises}"
    return [Answer(text, _weigh(step["after"]), f"{detail} {rises}", (), FIGURE)]


def _weigh(share: float) -> float:
    """The more attention, the more it says."""
    return float(min(0.5 + share, 0.97))


def _find_step(tables: Tables, target: str) -> pd.Series | None:
    """Where attention to a class clearly rises to over one and a half times what it was."""
    steps = tables.get("special-tokens-steps", pd.DataFrame(columns=["target", "ratio_low"]))
    rows = steps[(steps["target"] == target) & (steps["ratio_low"] > CLEAR_RISE)]
    return None if rows.empty else rows.iloc[0]


def answer_often_half(tables: Tables) -> list[Answer]:
    """How many heads give most of their attention to a few tokens."""
    table = fill_exact(tables["special-tokens-heads"])
    heads = passing(table, HALF)
    means = tables.get("special-tokens-layers", pd.DataFrame(columns=["target", "weight"]))
    has_first = bool(((means["target"] == "first") & (means["weight"] > 0)).any())
    few = f"{'the first token' if has_first else 'special tokens'}, periods and commas"
    does = f"puts over half of its attention on {few}"
    if not len(heads.sure):
        return [nearest_head(table, heads, does, FIGURE)]
    weight = 0.7 * len(heads.sure) / len(table) + 0.3
    return [count_heads(heads, len(table), does, weight, FIGURE)]


def read_own_classes(table: pd.DataFrame, min_count: int) -> list[TextTable]:
    """For each class of tokens that the user named, how much attention it gets."""
    rows_of_classes = table[(table["source"] == "all") & ~table["target"].isin([*CALLED, "other"])]
    rows = []
    for target, heads in rows_of_classes.groupby("target", sort=False):
        top = heads.sort_values("weight", ascending=False, kind="stable").head(SHOWN_HEADS)
        strongest = [
            f"{name} {ROUND_PERCENT.row(row, 'weight')}".replace(" ", FIRM)
            for name, row in zip(name_heads(top), top.to_dict("records"), strict=True)
        ]
        is_seen = bool((heads["weight"] > 0).any())
        text = ", ".join(strongest) if is_seen else "the text has no such token"
        rows.append((str(target), SHARE.number(heads["weight"].mean()), text))
    columns = ("own token class", "mean of all heads", "strongest heads (95 % interval)")
    return [TextTable(columns, tuple(rows))] if rows else []


ANSWERS = (
    AnswerMaker(("special-tokens-layers",), answer_sink),
    AnswerMaker(("special-tokens-heads",), answer_often_half),
)
