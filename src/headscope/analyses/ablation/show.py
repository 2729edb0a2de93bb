"""What is shown of ablation: what changes when a head is altered."""

from math import nan
from typing import Any

import altair as alt
import pandas as pd

from headscope.data.table import Tables
from headscope.view.answer import OPEN, Answer, AnswerMaker
from headscope.view.card import FactMaker, Facts, Part, add_rank, by_head, read_rank
from headscope.view.claim import name_head, top_row
from headscope.view.figure import Chart, Figure
from headscope.view.heads_grid import HOW_TO_READ, HeadsGrid
from headscope.view.layer_dots import LayerDots, how_to_read
from headscope.view.numbers import SMALL
from headscope.view.presentation import IMPORTANCE, Presentation, PrintedTable
from headscope.view.table import TextTable

__all__ = ["PRESENTATION"]

MADE_BY = "--text FILE --also ablation"
MODES = {
    "zero": "output removed",
    "mean": "output replaced by its mean",
    "sink": "attention to the sink moved",
}
WHAT = {"loss": "loss", "cosine": "hidden states"}
CHANGED = {"loss": ("rises", "falls"), "cosine": ("change", "change")}
CHANGES = {effect: f"change of the {what}" for effect, what in WHAT.items()}
EFFECTS = {"loss": "the loss changes by", "cosine": "the hidden states change by"}
SHOWN_HEADS = 5


def _effect(table: pd.DataFrame) -> str:
    return str(table["effect"].iloc[0])


def draw_ablation(tables: Tables) -> Chart:
    """One panel a mode."""
    table = tables["ablation"]
    title = CHANGES[_effect(table)]
    dots = LayerDots(value="change", title=title, split="mode", words=MODES, share_scale=False)
    return dots.draw(table)


def draw_ablation_grid(tables: Tables) -> Chart:
    """The change in each mode, each with its own colours."""
    table = tables["ablation"]
    effect = _effect(table)
    has_sign = effect == "loss"  # hidden states can only differ
    grid = HeadsGrid("change", CHANGES[effect], diverging=has_sign, panel="mode")
    called = table.assign(mode=table["mode"].map(lambda mode: MODES.get(mode, mode)))
    grids = [grid.draw(rows) for _, rows in called.groupby("mode", sort=False)]
    return alt.hconcat(*grids, spacing=24).resolve_scale(color="independent")


def ablation_facts(tables: Tables) -> Facts:
    """What changes without it."""
    table = add_rank(tables["ablation"], "change", "mode")
    n_heads = table.groupby(["layer", "head"]).ngroups

    largest = table.groupby("mode")["change"].max()

    def phrase(row: Any) -> Part:
        what = f"{MODES.get(row.mode, row.mode)}: {EFFECTS[row.effect]}"
        bar = row.change / largest[row.mode] if largest[row.mode] > 0 else nan
        change = SMALL.row(row, "change")
        return Part(what, change, bar, rank=read_rank(row), n_heads=n_heads)

    return by_head(table, "ablation", phrase)


def answer_ablation(tables: Tables) -> list[Answer]:
    """The head that changes most in any mode, if its interval does not include 0."""
    table = tables["ablation"]
    rows = table[table["change"].notna()]
    if rows.empty:
        return []
    row = top_row(rows.assign(size=rows["change"].abs()), "size")
    name, mode = name_head(row), MODES.get(row["mode"], row["mode"])
    change = SMALL.number(abs(row["change"]))
    tested = f"{_count(rows[['layer', 'head']], 'head')} tested in {_count(rows[['mode']], 'mode')}"
    detail = f"Head {name}, {mode}: {SMALL.row(row, 'change')}."
    if not (row["low"] > 0 or row["high"] < 0):
        why = "has no interval" if pd.isna(row["low"]) else "has an interval that includes 0"
        text = (
            f"Which of the {tested} matters most is undecided: the largest change of the "
            f"{WHAT[row['effect']]}, {change} by {name} ({mode}), {why}."
        )
        return [Answer(text, OPEN, detail, (name,), "ablation")]
    verb = CHANGED[row["effect"]][int(row["change"] < 0)]
    text = (
        f"Of the {tested}, {name} has the largest effect: the {WHAT[row['effect']]} {verb} by "
        f"{change} ({mode})."
    )
    return [Answer(text, 0.85, detail, (name,), "ablation")]


def _count(rows: pd.DataFrame, noun: str) -> str:
    n = len(rows.drop_duplicates())
    return f"{n:,} {noun}{'s' * (n != 1)}"


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


FIGURES = (
    Figure(
        name="ablation",
        title="Heads that matter",
        caption=(
            "What changes when one head is altered: its output is removed, its output is replaced "
            "by its mean, or its attention to the sink (the closing tokens) is moved to the other "
            f"tokens. {how_to_read('the change')} Above 0 the loss is worse. The change of hidden "
            "states is 1 minus the cosine. Each panel has its own scale."
        ),
        needs=("ablation",),
        made_by=MADE_BY,
        draw_tables=draw_ablation,
    ),
    Figure(
        name="heads-ablation",
        title="How much each head matters",
        caption=(
            f"{HOW_TO_READ} Change of the loss: red, the loss is higher (the model is worse); "
            f"blue, it is lower. Change of the hidden states: the darker, the larger. Each panel "
            f"is one way to alter the head and has its own scale."
        ),
        needs=("ablation",),
        made_by=MADE_BY,
        draw_tables=draw_ablation_grid,
    ),
)
PRESENTATION = Presentation(
    section=IMPORTANCE,
    figures=FIGURES,
    answers=(AnswerMaker(("ablation",), answer_ablation),),
    facts=(FactMaker(("ablation",), ablation_facts),),
    printed=(PrintedTable("ablation", read_changes),),
)
