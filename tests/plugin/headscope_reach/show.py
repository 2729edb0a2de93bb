"""What is shown of how far heads look."""

from typing import Any

import pandas as pd

from headscope.data.table import Tables
from headscope.view.answer import Answer, AnswerMaker
from headscope.view.behaviour import Behaviour, Kind, Threshold
from headscope.view.card import FactMaker, Facts, add_rank, by_head
from headscope.view.claim import Claim, Outcome, judge, name_head, top_row
from headscope.view.figure import COLOURS, Chart, Figure
from headscope.view.heads_grid import HOW_TO_READ, HeadsGrid
from headscope.view.numbers import Form, row_estimate
from headscope.view.presentation import SURFACE, Presentation, PrintedTable
from headscope.view.table import Column, TextTable, build_table

TOKENS = Form(".1f", unit=" tokens")


def draw_reach(tables: Tables) -> Chart:
    """A cell for each head."""
    return HeadsGrid("tokens", "mean distance in tokens").draw(tables["reach"])


def check_depth(tables: Tables) -> Outcome:
    """Upper layers look further than lower ones."""
    halves = tables["reach-halves"].set_index("layers")
    near, far, more = (halves.loc[name] for name in ("lower", "upper", "upper - lower"))
    shows = (
        f"{TOKENS.row(near, 'tokens')} in the lower half, {TOKENS.row(far, 'tokens')} in the upper "
        f"half: {TOKENS.row(more, 'tokens')} more."
    )
    return judge(row_estimate(more, "tokens"), 0.0, shows, TOKENS)


def reach_facts(tables: Tables) -> Facts:
    """The mean distance of each head, with its rank."""
    table = tables["reach"]

    def phrase(row: Any) -> str:
        return f"{TOKENS.row(row, 'tokens')} on average (rank {row.rank:.0f} of {len(table)})"

    return by_head(add_rank(table, "tokens"), "reach", phrase)


def answer_reach(tables: Tables) -> list[Answer]:
    """The head that looks farthest, in a sentence."""
    row = top_row(tables["reach"], "tokens")
    text = f"Head {name_head(row)} looks farthest: {TOKENS.number(row['tokens'])} on average."
    return [Answer(text, 0.7, f"{TOKENS.row(row, 'tokens')}.", (name_head(row),), "reach")]


def read_reach(table: pd.DataFrame, min_count: int) -> list[TextTable]:
    """The three heads that look farthest."""
    columns = (
        Column("looks farthest", lambda row: f"{row['layer']}-{row['head']}"),
        Column("mean distance", lambda row: TOKENS.row(row, "tokens")),
    )
    return [build_table(table.nlargest(3, "tokens").to_dict("records"), columns)]


def far_share(table: pd.DataFrame) -> pd.DataFrame:
    """The share of attention that goes far, with its interval."""
    return table.assign(low=table["share_low"], high=table["share_high"])


PRESENTATION = Presentation(
    section=SURFACE,
    figures=(
        Figure(
            name="reach",
            title="How far heads look",
            caption=f"{HOW_TO_READ} The darker, the further away is what the head attends to.",
            needs=("reach",),
            made_by="--text FILE",
            draw_tables=draw_reach,
            in_line=3,
        ),
    ),
    claims=(
        Claim(
            name="upper-layers-look-further",
            section="Vig 2019",
            says="Heads of the upper half of the layers look further than those of the lower half.",
            paper="the deepest layers of GPT-2 capture the most distant relationships",
            needs=("reach-halves",),
            made_by="--text FILE",
            check=check_depth,
            figure="reach",
            unless="A model with one layer does not have it.",
        ),
    ),
    answers=(AnswerMaker(("reach",), answer_reach),),
    facts=(FactMaker(("reach",), reach_facts),),
    printed=(PrintedTable("reach", read_reach),),
    behaviours=(
        Behaviour(
            name="far away",
            phrase="looks far away ({})",
            kind=Kind("far away", COLOURS[5], "triangle-up"),
            threshold=Threshold("far_away", 0.5, "Threshold for calling a head far-sighted."),
            needs="reach",
            measure=far_share,
            ranking="far",
        ),
    ),
)
