"""How sharply do attention heads look? An analysis for headscope, whole in this file."""

from dataclasses import dataclass

from headscope import Analysis, Estimates, Number, RowReading, option
from headscope.data.depth import halves
from headscope.options import require
from headscope.stats.estimates import add_difference, mean_over_layers
from headscope.view import specs
from headscope.view.answer import Answer, AnswerMaker
from headscope.view.facts import head_facts
from headscope.view.judge import above, name_head, top_row
from headscope.view.numbers import POINTS, SHARE
from headscope.view.presentation import SURFACE, Presentation
from headscope.view.table import Column, build_table


@dataclass(frozen=True)
class SharpWeights(RowReading):
    """The sum of the weights of each row that are larger than `least`."""

    least: float

    def of_rows(self, weights, rows):  # [example, head, row, key] -> [example, head, row]
        return (weights * (weights > self.least)).sum(-1)


@dataclass(frozen=True)
class Sharpness(Analysis):
    """The share of attention that is in large weights."""

    sharp: float = option(0.5, "Weight from which on attention counts as sharp.")

    name = "sharpness"
    sums = {"share": "layer head", "segments": ""}
    tables = {
        "sharpness": ("layer", "head", "share", "low", "high"),
        "sharpness-halves": ("layers", "share", "low", "high"),
    }

    def __post_init__(self):
        require(0 < self.sharp < 1, "sharp", self.sharp, "between 0 and 1")

    @property
    def reads(self):
        return (SharpWeights(self.sharp),)

    def measure(self, seen):
        return {"share": seen[self.reads[0]].mean(-1), "segments": seen.ones()}

    def rank(self, values):
        return {"sharp": values["share"]}  # by which its best and worst examples are found

    def summarize(self, sums):
        share = sums.mean("share", "segments")
        lower, upper = halves(share.sizes["layer"])
        by_half = mean_over_layers(share.mean("head"), {"lower": lower, "upper": upper})
        by_half = Number(add_difference(by_half, "layers", "upper", "lower"))
        heads = Estimates({"share": Number(share, (0, 1))})
        return {
            "sharpness": heads,
            "sharpness-halves": Estimates({"share": by_half}, known="share"),
        }


COLUMNS = (
    Column("sharpest", name_head),
    Column("sharp attention", lambda row: SHARE.row(row, "share")),
)


def answer(tables):
    """The sharpest head, in a sentence."""
    row = top_row(tables["sharpness"], "share")
    text = (
        f"Head {name_head(row)} looks most sharply, with {SHARE.number(row['share'])} of attention."
    )
    return [Answer(text, 0.7, SHARE.row(row, "share"), (name_head(row),), "sharpness")]


def sharpest(table, min_count):
    """The three sharpest heads, for the terminal."""
    return [build_table(table.nlargest(3, "share").to_dict("records"), COLUMNS)]


PRESENTATION = Presentation(SURFACE, show=[
    specs.Grid(
        name="sharpness", column="share", axis="share of attention", title="How sharply heads look",
        caption=f"{specs.HOW_TO_READ} The darker, the more of its attention is sharp.",
    ),
    above(
        "upper-layers-are-sharper", "sharpness-halves", "share", where={"layers": "upper - lower"},
        line=0, form=POINTS, shows="The upper half has {number} more sharp attention.",
        says="Heads of the upper half of the layers look more sharply than those of the lower.",
        paper="no paper: an example", section="Example", figure="sharpness",
    ),
    AnswerMaker(("sharpness",), answer),
    head_facts("sharpness", "sharpness", "share", value="{} of attention"),
    specs.PrintedTable("sharpness", sharpest),
    specs.Behaviour(
        "one token", "looks sharply ({})", specs.Kind("sharp", specs.GREY, "triangle-up"),
        specs.Threshold("one_token", 0.5, "Threshold for calling a head sharp."),
        needs="sharpness", column="share", ranking="sharp",
    ),
])  # fmt: skip
