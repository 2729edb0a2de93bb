"""How far away do attention heads look? An analysis for headscope, whole in this file."""

from dataclasses import dataclass

import torch

from headscope import Analysis, Estimates, Number, RowReading, option
from headscope.data.depth import halves
from headscope.options import require
from headscope.stats.estimates import add_difference, mean_over_layers
from headscope.view import specs
from headscope.view.facts import head_facts
from headscope.view.judge import above, name_head, top_row
from headscope.view.numbers import Form
from headscope.view.presentation import SURFACE, Presentation
from headscope.view.table import Column, build_table


@dataclass(frozen=True)
class Distance(RowReading):
    """The mean distance in tokens to what a row attends to; or the share that goes `far`."""

    far: int = 0

    def of_rows(self, weights, rows):  # [example, head, row, key] -> [example, head, row]
        queries, keys = torch.arange(rows.start, rows.stop), torch.arange(weights.shape[-1])
        distance = (queries[:, None] - keys).abs().to(weights.device)
        return (weights * (distance >= self.far if self.far else distance)).sum(-1)


@dataclass(frozen=True)
class Reach(Analysis):
    """Mean distance of attention in tokens, and the share of it that goes far away."""

    far: int = option(10, "Distance in tokens from which on attention counts as far away.")

    name = "reach"
    sums = {"tokens": "layer head", "share": "layer head", "segments": ""}
    tables = {
        "reach": ("layer", "head", "tokens", "low", "high", "share", "share_low", "share_high"),
        "reach-halves": ("layers", "tokens", "low", "high"),
    }

    def __post_init__(self):
        require(self.far > 0, "far", self.far, "at least 1")

    @property
    def reads(self):
        return Distance(), Distance(self.far)

    def measure(self, seen):
        """Both, as means over the queries of an example, by layer and head."""
        tokens, share = (seen[reading].mean(-1) for reading in self.reads)
        return {"tokens": tokens, "share": share, "segments": seen.ones()}

    def rank(self, values):
        """The more of its attention goes far, the better an example shows a head."""
        return {"far": values["share"]}

    def summarize(self, sums):
        """Means over examples, by head; then over the lower and the upper layers."""
        tokens, share = sums.mean("tokens", "segments"), sums.mean("share", "segments")
        lower, upper = halves(tokens.sizes["layer"])
        by_half = mean_over_layers(tokens.mean("head"), {"lower": lower, "upper": upper})
        by_half = add_difference(by_half, "layers", "upper", "lower")
        heads = {"tokens": Number(tokens, (0, float("inf"))), "share": Number(share, (0, 1))}
        half = Estimates({"tokens": Number(by_half)}, known="tokens")
        return {"reach": Estimates(heads), "reach-halves": half}


# What is shown of it.

TOKENS = Form(".1f", unit=" tokens")
COLUMNS = (
    Column("looks farthest", lambda row: f"{row['layer']}-{row['head']}"),
    Column("mean distance", lambda row: TOKENS.row(row, "tokens")),
)


def answer(tables):
    """The head that looks farthest, in a sentence."""
    row = top_row(tables["reach"], "tokens")
    text = f"Head {name_head(row)} looks farthest: {TOKENS.number(row['tokens'])} on average."
    return [specs.Answer(text, 0.7, f"{TOKENS.row(row, 'tokens')}.", (name_head(row),), "reach")]


def farthest(table, min_count):
    """The three heads that look farthest, for the terminal."""
    return [build_table(table.nlargest(3, "tokens").to_dict("records"), COLUMNS)]


PRESENTATION = Presentation(SURFACE, show=[
    specs.Grid(
        name="reach", column="tokens", axis="mean distance in tokens", title="How far heads look",
        caption=f"{specs.HOW_TO_READ} The darker, the further away is what it attends to.",
    ),
    above(
        "upper-layers-look-further", "reach-halves", "tokens", where={"layers": "upper - lower"},
        line=0, form=TOKENS, shows="The upper half looks {number} further than the lower half.",
        says="Heads of the upper half of the layers look further than those of the lower half.",
        paper="the deepest layers of GPT-2 capture the most distant relationships",
        section="Vig 2019", figure="reach", unless="A model with one layer does not have it.",
    ),
    specs.AnswerMaker(("reach",), answer),
    head_facts("reach", "reach", "tokens", form=TOKENS, value="{} on average", bar="none"),
    specs.PrintedTable("reach", farthest),
    specs.Behaviour(
        "far away", "looks far away ({})", specs.Kind("far away", specs.COLOURS[5], "triangle-up"),
        specs.Threshold("far_away", 0.5, "Threshold for calling a head far-sighted."),
        needs="reach", column="share", ranking="far",
    ),
])  # fmt: skip
