"""Attention to the previous, the same and the next token (paper, section 3.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headscope.contracts import Analysis
from headscope.data.attention import Readings
from headscope.data.reading import SUMS
from headscope.data.table import Tables, rows_where
from headscope.lazy import Tensor
from headscope.stats.estimates import FROM_0_TO_1, Estimates, Number
from headscope.stats.ranking import Values
from headscope.stats.sums import Sums
from headscope.view.answer import Answer, AnswerMaker, Topic, count_heads, nearest_head
from headscope.view.facts import head_facts
from headscope.view.judge import CAUSAL, fill_exact, most, mostly_low, passing, some, top_row
from headscope.view.presentation import SURFACE, Presentation
from headscope.view.specs import (
    Behaviour,
    Dots,
    HeadMeasure,
    Kind,
    Look,
    Threshold,
    attention_grid,
    how_to_read,
)

__all__ = ["Position"]

TARGETS = {  # as the diagonals of SUMS, and how sentences name them
    "previous": "the previous token", "self": "the token itself", "next": "the next token"
}  # fmt: skip


@dataclass(frozen=True)
class Position(Analysis):
    """Mean attention to a token at a fixed offset.

    Per segment: the sum of a diagonal over the number of tokens, the edge token that has no such
    neighbour included; then the mean over segments. In cross attention the diagonals lead to the
    source tokens before, at and after the place of the token that is written next.
    """

    name = "position"
    weighs_documents = True
    measures_cross = True
    reads = (SUMS,)
    sums = {"weight": "layer head target", "segments": ""}
    labels = {"target": tuple(TARGETS)}
    tables = {"position": ("layer", "head", "target", "weight", "low", "high")}

    def measure(self, seen: Readings) -> Mapping[str, Tensor]:
        """The means of the three diagonals of each example."""
        weight = seen[SUMS].diagonals / seen.n_queries  # [example, layer, head, target]
        return {"weight": weight, "segments": seen.ones()}

    def rank(self, values: Mapping[str, Values]) -> dict[str, Values]:
        """The weight itself: the more attention goes there, the better an example shows it."""
        return {target: values["weight"][..., i] for i, target in enumerate(TARGETS)}

    def summarize(self, sums: Sums) -> Mapping[str, Estimates]:
        """Mean over segments, by head and target."""
        weight = sums.mean("weight", "segments")
        return {self.name: Estimates({"weight": Number(weight, FROM_0_TO_1)})}


KINDS = {
    "previous": Kind("the previous token", "#0072B2", "triangle-left"),
    "self": Kind("itself", "#88CCEE", "circle"),
    "next": Kind("the next token", "#4AA0D0", "triangle-right"),
}
NEIGHBOURS = Kind("a neighbour", "#0072B2", "circle")
THRESHOLD = Threshold("position", 0.5, "Threshold for calling a head positional.")
LITTLE, HALF = 0.1, 0.5


def answer_position(tables: Tables) -> list[Answer]:
    """The heads that look at a neighbour or at the token itself; or what comes nearest."""
    table = fill_exact(tables["position"])
    answers = []
    for target, name in TARGETS.items():
        rows = rows_where(table, target=target)
        heads = passing(rows, HALF)
        if len(heads.sure):
            topic = Topic.EXTREME if target == "self" else Topic.HEAD
            does = f"puts over half of its attention on {name}"
            options: dict[str, Any] = {"topic": topic, "threshold": HALF}
            weight = float(heads.sure["weight"].max())
            answers.append(count_heads(heads, len(rows), does, weight, "position", **options))
    if answers or table.empty:
        return answers
    does = "puts over half of its attention on a neighbour or the token itself"
    where = f" on {TARGETS[top_row(table, 'weight')['target']]}"
    heads = passing(table, HALF)
    return [nearest_head(table, heads, does, "position", where=where, threshold=HALF)]


PRESENTATION = Presentation(SURFACE, paper="3.1", figure="position", show=[
    Dots(
        name="position", column="weight", axis="share of attention", split="target", seen="target",
        words={
            "previous": "to the previous token", "self": "to itself", "next": "to the next token",
        },
        title="Attention to neighbours", paper="Figure 2",
        caption="One panel each for the previous token, the token itself and the next one (which a "
        "decoder cannot see). " + how_to_read("share of attention that goes there"),
    ),
    attention_grid(
        "heads-previous", "position", "the previous token", {"target": "previous"},
        "attention to previous tokens",
    ),
    attention_grid(
        "heads-next", "position", "the next token", {"target": "next"},
        "attention to next tokens (a decoder has none)",
    ),
    most(
        "little-attention-to-itself", "position", where={"target": "self"},
        line=LITTLE, is_above=False, does="puts under 10 % on the token itself",
        says="Most heads put little attention (here: under 10 %) on the token itself.",
        paper='"most heads put little attention on the current token"',
    ),
    some(
        "previous-token-heads", "position", where={"target": "previous"},
        line=HALF, does="puts over half on the previous token",
        says="Some heads put over half of their attention on the previous token.",
        paper='"four attention heads (in layers 2, 4, 7, and 8) on average put >50% of their '
        'attention on the previous token"',
    ),
    some(
        "next-token-heads", "position", where={"target": "next"},
        line=HALF, does="puts over half on the next token",
        missing=f"{CAUSAL} no token can attend to the next one.",
        says="Some heads put over half of their attention on the next token.",
        paper='"five attention heads (in layers 1, 2, 2, 3, and 6) put >50% of their attention on '
        'the next token"',
    ),
    mostly_low(
        "neighbour-heads-are-early", "position", where={"target": ("previous", "next")},
        line=HALF, does="puts over half on a neighbour",
        says="Heads that put over half on the previous or next token are mostly in the lower half "
        "of the layers.",
        paper='"especially in earlier layers of the network"; 7 of the 9 heads are in layers 1-6 '
        "of 12",
    ),
    AnswerMaker(("position",), answer_position),
    head_facts(
        "position", "position", split="target", seen=True,
        words={"previous": "previous token", "self": "itself", "next": "next token"},
    ),
    HeadMeasure(
        "self_attention_score", "Mean attention to the token itself.", "position", "weight",
        {"target": "self"},
    ),
    HeadMeasure(
        "prev_token_score", "Mean attention to the previous token.", "position", "weight",
        {"target": "previous"},
    ),
    Look(NEIGHBOURS, "near", ("position",), {"target": ("previous", "next")}),
    Look(KINDS["self"], "self", ("position",), {"target": "self"}),
    *(
        Behaviour(
            name, f"looks at {TARGETS[target]} ({{}})", KINDS[target], THRESHOLD, "position",
            "weight", {"target": target}, ranking=target, short=short, also=also, is_look=True,
            panel=panel,
        )
        for name, target, short, also, panel in (
            ("previous token", "previous", "prev", "before left", "previous"),
            ("next token", "next", "next", "after right following", "next"),
            ("same token", "self", "self", "itself own current", ""),
        )
    ),
])  # fmt: skip
