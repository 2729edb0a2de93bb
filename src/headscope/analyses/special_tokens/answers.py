"""How much attention goes to special tokens, in plain sentences."""

import pandas as pd

from headscope.data.table import Tables
from headscope.view.answer import Answer, AnswerMaker, write_percent
from headscope.view.claim import name_head, top_row
from headscope.view.numbers import RATIO, SHARE, row_estimate

__all__ = ["ANSWERS"]

HALF = 0.5
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
    called, share = CALLED[row["target"]], write_percent(row["weight"])
    detail = f"Over all layers and heads {SHARE.row(row, 'weight')}."
    step = _find_step(tables, row["target"])
    if step is None:
        text = f"{share} of all attention goes to {called}."
        return [Answer(text, _weigh(row["weight"]), detail, (), FIGURE)]
    text = (
        f"From layer {step['layer']:.0f} on, {write_percent(step['after'])} of attention goes to "
        f"{called}; in earlier layers {write_percent(step['before'])}."
    )
    change = row_estimate(step, "ratio", "ratio_low", "ratio_high")
    rises = f"From there on it is {RATIO.estimate(change)} times as much as before."
    if pd.notna(step["low"]) and step["high"] > step["low"]:
        rises = f"The rise is between layers {step['low']:.0f} and {step['high']:.0f}. {rises}"
    return [Answer(text, _weigh(step["after"]), f"{detail} {rises}", (), FIGURE)]


def _weigh(share: float) -> float:
    """The more attention, the more it says."""
    return float(min(0.5 + share, 0.97))


def _find_step(tables: Tables, target: str) -> pd.Series | None:
    """Where attention to a class rises to one and a half times what it was, or more."""
    steps = tables.get("special-tokens-steps", pd.DataFrame(columns=["target", "ratio"]))
    rows = steps[(steps["target"] == target) & (steps["ratio"] > CLEAR_RISE)]
    return None if rows.empty else rows.iloc[0]


def answer_often_half(tables: Tables) -> list[Answer]:
    """How many heads give most of their attention to a few tokens."""
    table = tables["special-tokens-heads"]
    n_heads, n_found = len(table), int((table["weight"] > HALF).sum())
    targets = tables.get("special-tokens-layers", pd.DataFrame(columns=["target"]))["target"]
    special = "the first token" if "first" in set(targets) else "special tokens"
    few = f"{special}, periods and commas"
    if not n_found:
        top = top_row(table, "weight")
        head = name_head(top)
        text = f"No head puts over half of its attention on {few}."
        return [
            Answer(text, 0.2, f"The most is {SHARE.row(top, 'weight')}, by {head}.", (), FIGURE)
        ]
    verb, whose = ("puts", "its") if n_found == 1 else ("put", "their")
    text = f"{n_found} of {n_heads} heads {verb} over half of {whose} attention on {few}."
    shares = table["weight"]
    detail = (
        f"{write_percent(n_found / n_heads)} of the heads; median {SHARE.number(shares.median())}."
    )
    return [Answer(text, 0.7 * n_found / n_heads + 0.3, detail, (), FIGURE)]


ANSWERS = (
    AnswerMaker(("special-tokens-layers",), answer_sink),
    AnswerMaker(("special-tokens-heads",), answer_often_half),
)
