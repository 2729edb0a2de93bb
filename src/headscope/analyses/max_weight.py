"""How much a head puts on one token at most: the largest weight of a row (paper, section 3.3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from headscope.analyses.entropy import BROAD
from headscope.contracts import Analysis
from headscope.data.attention import Readings
from headscope.data.reading import RowReading
from headscope.data.table import Tables, rows_where
from headscope.lazy import Tensor
from headscope.stats.estimates import FROM_0_TO_1, Estimates, Number
from headscope.stats.sums import Sums
from headscope.view.answer import Answer, AnswerMaker, Topic, write_percent
from headscope.view.facts import head_facts
from headscope.view.judge import Claim, Outcome, judge_count, name_head, note_open, passing, top_row
from headscope.view.numbers import SHARE, WHOLE_PERCENT, percent, row_estimate
from headscope.view.presentation import SURFACE, Presentation
from headscope.view.specs import HOW_TO_READ, Grid, Kind, Look

__all__ = ["MaxWeight"]

TENTH = 0.1


class LargestWeight(RowReading):
    """The largest weight of each row."""

    def of_rows(self, weights: Tensor, rows: slice) -> Tensor:
        return weights.amax(-1)


LARGEST = LargestWeight()


@dataclass(frozen=True)
class MaxWeight(Analysis):
    """Mean largest weight of a row: per segment over all its rows, then over segments.

    `flat_rows` is the share of rows with at most a tenth on any token, of those that may look at
    ten tokens or more.
    """

    name = "max-weight"
    weighs_documents = True
    measures_cross = True
    reads = (LARGEST,)
    sums = {
        "weight": "layer head", "segments": "", "flat": "layer head", "rows": "layer",
    }  # fmt: skip
    tables = {
        "max-weight": (
            *("layer", "head", "weight", "low", "high"),
            *("flat_rows", "flat_low", "flat_high"),
        )
    }

    def measure(self, seen: Readings) -> Mapping[str, Tensor]:
        """The mean over rows, and how many rows are flat, of those that can be."""
        largest = seen[LARGEST]  # [example, layer, head, query]
        can_be_flat = (seen.visible * TENTH >= 1).to(largest.dtype)  # [layer, query]
        is_flat = (largest <= TENTH).to(largest.dtype)
        return {
            "weight": largest.mean(-1),
            "segments": seen.ones(),
            "flat": (is_flat * can_be_flat[:, None]).sum(-1),
            "rows": can_be_flat.sum(-1).expand(len(seen), -1),
        }

    def summarize(self, sums: Sums) -> Mapping[str, Estimates]:
        """Mean over segments, by head."""
        weight, flat = sums.mean("weight", "segments"), sums.mean("flat", "rows")
        columns = {
            "weight": Number(weight, FROM_0_TO_1),
            "flat_rows": Number(flat, FROM_0_TO_1, ends="flat"),
        }
        return {self.name: Estimates(columns)}


TYPICALLY = 0.5
COLUMN = "weight"


def answer_largest(tables: Tables) -> list[Answer]:
    """The head that puts most on a single token, beside the median head."""
    table = tables["max-weight"]
    table = table[table["weight"].notna()]
    if table.empty:
        return []
    top = top_row(table, "weight")
    middle = float(table["weight"].median())
    head = name_head(top)
    text = (
        f"Head {head} is the narrowest of {len(table)}: on average a token puts "
        f"{WHOLE_PERCENT.row(top, COLUMN)} of its attention on a single token; in the median head "
        f"{write_percent(middle)}."
    )
    detail = f"Mean largest weight of a row: {head} {SHARE.row(top, COLUMN)}."
    return [
        Answer(
            *(text, float(top[COLUMN]) - middle, detail, (head,), "max-weight", Topic.EXTREME),
            *(row_estimate(top, COLUMN), middle),
        )
    ]


def check_little(tables: Tables) -> Outcome:
    """Most broad heads put at most 10 % on any token in most of their rows."""
    shares = rows_where(tables["entropy"], rows="all")
    broad = passing(shares, BROAD, "share").sure[["layer", "head"]]
    if broad.empty:
        none = f"No head clearly has over {percent(BROAD)} % of the entropy of even attention."
        return Outcome("not measured", none)
    rows = broad.merge(tables["max-weight"], on=["layer", "head"])
    rows = rows[rows["flat_rows"].notna()]
    if rows.empty:
        none = "No token attends to ten tokens or more, so none can get as little as 10 %."
        return Outcome("not measured", none)
    heads = passing(rows, TYPICALLY, "flat_rows")
    middle = rows.sort_values("flat_rows", kind="stable").iloc[len(rows) // 2]
    shows = (
        f"{len(heads.sure)} of the {len(rows)} broad heads have at most 10 % on any token in over "
        f"half of their rows; the median head, {name_head(middle)}, in "
        f"{SHARE.row(middle, 'flat_rows')}.{note_open(heads, '50 %')}"
    )
    return judge_count(len(heads.sure), len(heads.open), len(rows) // 2 + 1, shows)


FEW = Kind("a few other words", "#117744", "diamond")
MANY = Kind("many other words", "#A8A06A", "triangle-up")


def share_of_others(tables: Tables) -> pd.Series[float]:
    """What goes neither to special tokens and punctuation, nor to a neighbour or the token itself.

    A neighbour may be a special token, so it is at least this much.
    """
    places = ["layer", "head"]
    others = rows_where(tables["special-tokens"], source="all", target="other")
    near = tables["position"].groupby(places)["weight"].sum()
    return (others.set_index(places)["weight"] - near).clip(lower=0.0)


def share_of_few(tables: Tables) -> pd.Series[float]:
    """The same, of heads whose largest weight is over half as much; 0 of the others.

    The largest weight of some rows is on a special token, so these may be a few words or one.
    """
    others = share_of_others(tables)
    largest = tables["max-weight"].set_index(["layer", "head"])["weight"]
    return others.where(largest > others / 2, 0.0)


def share_of_many(tables: Tables) -> pd.Series[float]:
    """The same, of heads that spread it over more tokens; 0 of the others."""
    return share_of_others(tables) - share_of_few(tables)


OTHERS = ("max-weight", "special-tokens", "position")
PRESENTATION = Presentation(SURFACE, paper="3.3", figure="max-weight", show=[
    Grid(
        name="max-weight", column="weight", axis="mean largest weight", most=1.0,
        title="How much goes to one token",
        caption=f"{HOW_TO_READ} The darker, the more goes to the token that gets most.",
    ),
    Claim(
        "at-most-a-tenth-on-a-word", check_little, needs=("max-weight", "entropy"),
        says="Heads that attend broadly (over 78 % of the entropy of even attention) typically put "
        "at most 10 % on any single token (here: over half of these heads do, in over half of "
        "their rows).",
        paper='"These high-entropy attention heads typically spend at most 10% of their attention '
        'mass on any single word."',
    ),
    AnswerMaker(("max-weight",), answer_largest),
    Look(FEW, "few", OTHERS, measure=share_of_few),
    Look(MANY, "many", OTHERS, measure=share_of_many),
    head_facts("largest weight of a row", "max-weight", value="{} on average"),
])  # fmt: skip
