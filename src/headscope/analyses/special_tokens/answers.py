"""How much attention goes to special tokens, in plain sentences; and to classes of the user."""

import pandas as pd

from headscope.data.table import Tables, rows_where
from headscope.view.answer import Answer, AnswerMaker, Topic, count_heads, name_heads, nearest_head
from headscope.view.judge import fill_exact, name_head, passing, top_row
from headscope.view.numbers import ROUND_PERCENT, SHARE, WHOLE_PERCENT, Form, row_estimate
from headscope.view.table import FIRM, TextTable

__all__ = ["ANSWERS", "list_own_classes", "read_own_classes"]

HALF = 0.5
SHOWN_HEADS = 5
TIMES = Form(".1f")
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
    """How much goes to the class of special tokens that gets most, and where it rises."""
    means = tables["special-tokens-layers"]
    is_over_all = (means["layers"] == "all") & (means["source"] == "all")
    means = means[is_over_all & means["target"].isin(list(CALLED)) & (means["weight"] > 0)]
    if means.empty:
        return []
    means = means.sort_values("weight", ascending=False, kind="stable")
    rows = means.to_dict("records")
    step = _find_step(tables, rows[0]["target"])
    rises = ""
    if step is not None:
        times = TIMES.estimate(row_estimate(step, "ratio"))
        rises = f", {times} times as much from layer {step['layer']:.0f} on as before"
    first, *others = [(WHOLE_PERCENT.row(row, "weight"), CALLED[row["target"]]) for row in rows]
    text = f"{first[0]} of all attention rests on {first[1]}{rises}"
    text += "".join(f"; {share} goes to {called}" for share, called in others[:1])
    detail = ", ".join(f"{CALLED[row['target']]} {SHARE.row(row, 'weight')}" for row in rows)
    mean = row_estimate(rows[0], "weight")
    return [Answer(f"{text}.", 1.0, f"{detail}.", (), FIGURE, Topic.REST, mean)]


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
    few = f"{'the first token' if has_first else 'special tokens'}, periods and commas together"
    does = f"puts over half of its attention on {few}"
    if not len(heads.sure):
        return [nearest_head(table, heads, does, FIGURE, threshold=HALF)]
    weight = 0.3 + 0.6 * len(heads.sure) / len(table)
    return [
        count_heads(heads, len(table), does, weight, FIGURE, topic=Topic.SUMMARY, threshold=HALF)
    ]


def answer_own_classes(tables: Tables) -> list[Answer]:
    """For each class of tokens that the user named, the head that attends to it most."""
    table, means = tables["special-tokens"], tables["special-tokens-layers"]
    answers = []
    for target, rows in list_own_classes(table):
        mean = rows_where(means, layers="all", source="all", target=target).iloc[0]
        top = top_row(rows, "weight")
        head = name_head(top)
        text = (
            f"Head {head} attends most of all {len(rows)} heads to your token class {target}: "
            f"{SHARE.row(top, 'weight')} of its attention; the mean of all heads is "
            f"{SHARE.row(mean, 'weight')}."
        )
        answers.append(
            Answer(
                *(text, 0.5 + float(top["weight"]), "", (head,), FIGURE, Topic.ASKED),
                *(row_estimate(top, "weight"), float(mean["weight"])),
            )
        )
    return answers


def list_own_classes(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """The classes of tokens that the user named, with their rows."""
    rows = table[(table["source"] == "all") & ~table["target"].isin([*CALLED, "other"])]
    return [(str(target), heads) for target, heads in rows.groupby("target", sort=False)]


def read_own_classes(table: pd.DataFrame, min_count: int) -> list[TextTable]:
    """For each class of tokens that the user named, how much attention it gets."""
    rows = []
    for target, heads in list_own_classes(table):
        top = heads.sort_values("weight", ascending=False, kind="stable").head(SHOWN_HEADS)
        strongest = [
            f"{name} {ROUND_PERCENT.row(row, 'weight')}".replace(" ", FIRM)
            for name, row in zip(name_heads(top), top.to_dict("records"), strict=True)
        ]
        is_seen = bool((heads["weight"] > 0).any())
        text = ", ".join(strongest) if is_seen else "the text has no such token"
        rows.append((target, SHARE.number(heads["weight"].mean()), text))
    columns = ("own token class", "mean of all heads", "strongest heads (95 % interval)")
    return [TextTable(columns, tuple(rows))] if rows else []


ANSWERS = (
    AnswerMaker(("special-tokens-layers",), answer_sink),
    AnswerMaker(("special-tokens-heads",), answer_often_half),
    AnswerMaker(("special-tokens", "special-tokens-layers"), answer_own_classes),
)
