"""Does a head matter? What its absence does to the loss, or to the hidden states."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

import pandas as pd

from headscope.arguments import fits
from headscope.contracts import Analysis, Watch
from headscope.data.attention import Changes, parse_head_name
from headscope.data.table import Tables
from headscope.errors import StudyError, say_count, shorten
from headscope.lazy import Tensor, torch
from headscope.options import option
from headscope.stats.estimates import Estimates, Number
from headscope.stats.interval import Estimate
from headscope.stats.sums import REPLICATE, Sums, mean_of
from headscope.view.answer import Answer, AnswerMaker, Topic
from headscope.view.facts import head_facts
from headscope.view.judge import name_head, top_row
from headscope.view.numbers import SMALL, row_estimate
from headscope.view.presentation import IMPORTANCE, Presentation
from headscope.view.specs import HOW_TO_READ, Dots, Grid, PrintedTable, how_to_read
from headscope.view.table import TextTable

__all__ = ["MODES", "Ablation", "read_heads"]

MODES = {
    "zero": "output removed",
    "mean": "output replaced by its mean",
    "sink": "attention to the sink moved",
}

Heads = tuple[tuple[int, int], ...]  # layer and head, from 0


def read_heads(heads: Any) -> Heads:
    """The heads, counted from 0, of names such as "3-5,8-10", or of pairs counted from 0.

    >>> read_heads("3-5,8-10"), read_heads([[2, 4]])
    (((2, 4), (7, 9)), ((2, 4),))
    """
    named = heads.split(",") if isinstance(heads, str) else heads
    named = list(named) if fits(named, Iterable[Any]) else [named]
    pairs = [parse_head_name(head) if isinstance(head, str) else _as_pair(head) for head in named]
    if not pairs or None in pairs:
        raise StudyError(
            f"--heads {shorten(heads)} cannot be read. Expected pairs of layer and head, counted "
            "from 1; separate them by commas, e.g. --heads 3-5,8-10."
        )
    return tuple(head for head in pairs if head is not None)


def _as_pair(head: Any) -> tuple[int, int] | None:
    match head:
        case [int(layer), int(number)] if layer >= 0 and number >= 0:
            return layer, number
    return None


@dataclass(frozen=True)
class Ablation(Analysis):
    """The mean change of the model's answer by altering one head, in each way.

    The change of an example is paired with the answer of the model as it is, so the interval is
    that of the difference. `heads` (layer, head, from 0) are those to alter; None: all.
    """

    heads: Any = option(  # Heads or None; Python and JSON may give names, lists or tuples
        None, "Heads to ablate, e.g. 3-5,8-10.", parse=read_heads, shown_default="all"
    )

    name = "ablation"
    watches = Watch.CHANGE
    weighs_documents = True
    sums = {
        "change": "*effect layer head mode", "measured": "layer head", "base": "", "examples": "",
    }  # fmt: skip
    labels = {"mode": list(MODES)}
    tables = {"ablation": ("layer", "head", "mode", "effect", "change", "low", "high", "base")}
    not_mergeable = (
        "one of its modes replaces a head's output by its mean over the corpus, so sums over "
        "different corpora cannot be added"
    )

    def __post_init__(self) -> None:
        if self.heads is not None:
            object.__setattr__(self, "heads", read_heads(self.heads))

    def altered_heads(self) -> Heads | None:
        """Those that the user named."""
        heads: Heads | None = self.heads
        return heads

    def measure(self, seen: Changes) -> Mapping[str, Tensor | Mapping[str, Tensor]]:
        """Changes by head and mode, which heads were altered, and the model's own answer."""
        is_measured = seen.is_measured.to(seen.changes.dtype)  # [layer, head]
        return {
            "change": {seen.effect: seen.changes},
            "measured": is_measured.expand(len(seen.changes), *is_measured.shape),
            "base": seen.base,
            "examples": torch.ones_like(seen.base),
        }

    def summarize(self, sums: Sums) -> Mapping[str, Estimates]:
        """The mean change over examples, of every head that was altered."""
        effect = min(sums.labels("change"))
        change = mean_of(sums("change", effect), sums("measured"))  # [replicate, layer, head, mode]
        change = change.expand_dims(effect=[effect], axis=-1)
        base = sums.mean("base", "examples").isel({REPLICATE: 0}, drop=True)
        return {self.name: Estimates({"change": Number(change), "base": base}, known="change")}


WHAT = {"loss": "loss", "cosine": "hidden states"}
CHANGED = {"loss": ("rises", "falls"), "cosine": ("change", "change")}
SHOWN_HEADS = 5


def _effect(table: pd.DataFrame) -> str:
    return str(table["effect"].iloc[0])


def name_change(tables: Tables) -> str:
    """What changes, for the axis of a chart."""
    return f"change of the {WHAT[_effect(tables['ablation'])]}"


def answer_ablation(tables: Tables) -> list[Answer]:
    """The head that changes most in any mode, if its interval does not include 0."""
    table = tables["ablation"]
    rows = table[table["change"].notna()]
    if rows.empty:
        return []
    row = top_row(rows.assign(size=rows["change"].abs()), "size")
    name, mode = name_head(row), MODES.get(row["mode"], row["mode"])
    tested = f"{_count(rows[['layer', 'head']], 'head')} tested in {_count(rows[['mode']], 'mode')}"
    detail = f"Head {name}, {mode}: {SMALL.row(row, 'change')}."
    verb = CHANGED[row["effect"]][int(row["change"] < 0)]
    change = row_estimate(row, "change")
    size = Estimate(abs(change.value), *sorted((abs(change.low), abs(change.high))))
    text = (
        f"Of the {tested}, {name} has the largest effect: the {WHAT[row['effect']]} {verb} by "
        f"{SMALL.estimate(size)} ({mode})."
    )
    return [Answer(text, 0.85, detail, (name,), "ablation", Topic.ASKED, change, 0.0, inf)]


def _count(rows: pd.DataFrame, noun: str) -> str:
    return say_count(len(rows.drop_duplicates()), noun)


def read_changes(table: pd.DataFrame, min_count: int) -> list[TextTable]:
    """For each way to alter a head the mean change, and the heads that change most."""
    answer = "loss" if _effect(table) == "loss" else "hidden states (1 - cosine)"
    columns = ("a head altered", f"mean change of the {answer}", "most by (95 % interval)")
    rows = []
    for mode, changes in table.groupby("mode", sort=False):
        most = changes.sort_values("change", ascending=False).head(SHOWN_HEADS)
        heads = [f"{row.layer}-{row.head} {SMALL.row(row, 'change')}" for row in most.itertuples()]
        rows.append((str(mode), SMALL.number(changes["change"].mean()), ", ".join(heads)))
    return [TextTable(columns, tuple(rows))]


PRESENTATION = Presentation(IMPORTANCE, made_by="--text FILE --also ablation", show=[
    Dots(
        name="ablation", column="change", axis=name_change, split="mode", words=MODES,
        own_scales=True, title="Heads that matter",
        caption="What changes when one head is altered: its output is removed, its output is "
        "replaced by its mean, or its attention to the sink (the closing tokens) is moved to the "
        f"other tokens. {how_to_read('the change')} Above 0 the loss is worse. The change of "
        "hidden states is 1 minus the cosine. Each panel has its own scale.",
    ),
    Grid(
        name="heads-ablation", needs=("ablation",), column="change", axis=name_change,
        panel="mode", words=MODES, own_scales=True, in_line=1,
        # Hidden states can only differ, the loss can also fall.
        diverging=lambda tables: _effect(tables["ablation"]) == "loss",
        title="How much each head matters",
        caption=f"{HOW_TO_READ} Change of the loss: red, the loss is higher (the model is worse); "
        "blue, it is lower. Change of the hidden states: the darker, the larger. Each panel is one "
        "way to alter the head and has its own scale.",
    ),
    AnswerMaker(("ablation",), answer_ablation),
    head_facts(
        "ablation", "ablation", "change", form=SMALL, split="mode", words=MODES,
        bar="largest of its kind",
        note=lambda row: f"change of the {WHAT[row.effect]}",
    ),
    PrintedTable("ablation", read_changes),
])  # fmt: skip
