"""What is shown of how far heads look."""

from headscope.data.table import Tables
from headscope.view.facts import head_facts
from headscope.view.judge import above, name_head, top_row
from headscope.view.numbers import Form
from headscope.view.presentation import SURFACE, Presentation
from headscope.view.specs import (
    COLOURS,
    HOW_TO_READ,
    Answer,
    AnswerMaker,
    Behaviour,
    Grid,
    Kind,
    PrintedTable,
    Threshold,
)
from headscope.view.table import Column, build_table

TOKENS = Form(".1f", unit=" tokens")
COLUMNS = (
    Column("looks farthest", lambda row: f"{row['layer']}-{row['head']}"),
    Column("mean distance", lambda row: TOKENS.row(row, "tokens")),
)


def answer_reach(tables: Tables) -> list[Answer]:
    """The head that looks farthest, in a sentence."""
    row = top_row(tables["reach"], "tokens")
    text = f"Head {name_head(row)} looks farthest: {TOKENS.number(row['tokens'])} on average."
    return [Answer(text, 0.7, f"{TOKENS.row(row, 'tokens')}.", (name_head(row),), "reach")]


PRESENTATION = Presentation(
    section=SURFACE,
    show=[
        Grid(
            name="reach",
            title="How far heads look",
            caption=f"{HOW_TO_READ} The darker, the further away is what the head attends to.",
            column="tokens",
            axis="mean distance in tokens",
        ),
        above(
            "upper-layers-look-further",
            "reach-halves",
            "tokens",
            where={"layers": "upper - lower"},
            line=0,
            form=TOKENS,
            shows="The upper half looks {number} further than the lower half.",
            section="Vig 2019",
            says="Heads of the upper half of the layers look further than those of the lower half.",
            paper="the deepest layers of GPT-2 capture the most distant relationships",
            figure="reach",
            unless="A model with one layer does not have it.",
        ),
        AnswerMaker(("reach",), answer_reach),
        head_facts("reach", "reach", "tokens", form=TOKENS, value="{} on average", bar="none"),
        PrintedTable(
            "reach",
            lambda table, min_count: [
                build_table(table.nlargest(3, "tokens").to_dict("records"), COLUMNS)
            ],
        ),
        Behaviour(
            name="far away",
            phrase="looks far away ({})",
            kind=Kind("far away", COLOURS[5], "triangle-up"),
            threshold=Threshold("far_away", 0.5, "Threshold for calling a head far-sighted."),
            needs="reach",
            column="share",
            ranking="far",
        ),
    ],
)
