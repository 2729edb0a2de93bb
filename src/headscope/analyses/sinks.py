"""Attention sinks: heads that give much of their attention to the first token, whatever it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from headscope.analyses.special_tokens.measure import STEP_COLUMNS, step_rows
from headscope.contracts import Analysis
from headscope.data.attention import LayerAttention, Readings
from headscope.data.reading import MapSlice, Reading
from headscope.data.table import Tables, empty_tables
from headscope.lazy import Tensor, torch
from headscope.stats.estimates import FROM_0_TO_1, Estimates, Number, Summary
from headscope.stats.ranking import Values
from headscope.stats.sums import Sums
from headscope.view.answer import Answer, AnswerMaker, count_heads
from headscope.view.facts import head_facts
from headscope.view.judge import (
    Claim,
    Outcome,
    above,
    fill_exact,
    judge_count,
    note_undecided,
    passing,
)
from headscope.view.numbers import SHARE
from headscope.view.presentation import LANGUAGE_MODELS, Presentation
from headscope.view.specs import HOW_TO_READ, Grid, Hover

__all__ = ["Sinks"]

SINK_TOKENS = 64  # that an example is cut to, as Gu et al. do
SINK_SHARE = 0.3  # of attention on the first token, from which on a head has a sink there
HALF = 0.5


class FirstColumn(NamedTuple):
    """What rows give to the first token, and to all tokens: less than 1 with a learned sink."""

    first: Tensor  # [example, head, query]
    tokens: Tensor


class ToFirst(Reading):
    """The weight of the first token in each row, and the sum of the row."""

    def begin(self, layer: LayerAttention) -> FirstColumn:
        shape, device = layer.weights.shape[:3], layer.batch.device
        zeros = (torch.zeros(shape, dtype=layer.weights.dtype, device=device) for _ in range(2))
        return FirstColumn(*zeros)

    def add(self, total: FirstColumn, part: MapSlice) -> None:
        total.first[part.examples, :, part.rows] = part.weights[..., 0]
        total.tokens[part.examples, :, part.rows] = part.weights.sum(-1)


TO_FIRST = ToFirst()


@dataclass(frozen=True)
class Sinks(Analysis):
    """Attention to the first token; and how often a head has a sink there.

    `first` is the mean over all tokens of the attention to the first one. `is_sink` is the measure
    of Gu et al. 2025: the share of examples, cut to 64 tokens, in which a head gives the first
    token more than 0.3 of its attention on average; shorter examples do not count. `learned` is the
    share that goes to a learned sink (gpt-oss), which is no token. `even` is what even attention
    would give the first token.
    """

    name = "sinks"
    weighs_documents = True
    reads = (TO_FIRST,)
    sums = {
        "first": "layer head", "learned": "layer head", "even": "layer", "examples": "",
        "is_sink": "layer head", "long": "", "causal": "",
    }  # fmt: skip
    tables = {
        "sinks": (
            *("layer", "head", "first", "low", "high", "is_sink", "is_sink_low", "is_sink_high"),
            *("learned", "even"),
        ),
        "sinks-layers": (
            *("layer", "first", "low", "high", "is_sink", "is_sink_low", "is_sink_high"),
        ),
        "sinks-model": ("is_sink", "low", "high"),
        "sinks-steps": STEP_COLUMNS,
    }

    def measure(self, seen: Readings) -> Mapping[str, Tensor]:
        """Means over the tokens of each example, and whether its first 64 have a sink."""
        first, tokens = seen[TO_FIRST]  # [example, layer, head, query]
        ones = seen.ones().to(first.dtype)
        even = (1 / seen.visible.to(first.dtype)).mean(-1)
        is_long = ones * (seen.n_queries >= SINK_TOKENS)
        is_sink = first[..., :SINK_TOKENS].mean(-1) > SINK_SHARE
        return {
            "first": first.mean(-1),
            "learned": (1 - tokens.mean(-1)).clamp(min=0) * seen.has_sink,
            "even": even.expand(len(ones), -1),
            "examples": ones,
            "is_sink": is_sink.to(first.dtype) * is_long[:, None, None],
            "long": is_long,
            "causal": ones * bool((seen.visible[:, 0] < seen.visible[:, -1]).any()),
        }

    def rank(self, values: Mapping[str, Values]) -> dict[str, Values]:
        """The more attention the first token gets, the better an example shows it."""
        return {"first": values["first"]}

    def summarize(self, sums: Sums) -> Mapping[str, Summary]:
        """Means over examples, by head, by layer and of the model; where the sink begins."""
        first, is_sink = sums.mean("first", "examples"), sums.mean("is_sink", "long")
        heads = {"first": Number(first, FROM_0_TO_1), "is_sink": Number(is_sink, FROM_0_TO_1)}
        plain = {name: sums.ratio(name, "examples") for name in ("learned", "even")}
        layers = {
            name: Number(number.replicates.mean("head", skipna=False), FROM_0_TO_1)
            for name, number in heads.items()
        }
        tables: dict[str, Summary] = {
            **empty_tables(self.tables),
            self.name: Estimates({**heads, **plain}, untrained="first"),
            "sinks-layers": Estimates(layers),
        }
        if not float(sums.ratio("causal", "examples")):
            return tables
        of_model = is_sink.mean(("layer", "head"), skipna=False)
        by_layer = layers["first"].replicates.values[..., None]
        return tables | {
            "sinks-model": Estimates({"is_sink": Number(of_model, FROM_0_TO_1)}),
            "sinks-steps": step_rows(by_layer, ["first"], is_rise=True),
        }


MANY = 0.1  # of heads and examples
TIMES = 3.0  # as much as even attention
BOTTOM = 2  # layers


def check_above_even(tables: Tables) -> Outcome:
    """Above the lowest two layers the mean share of the first token is far above even attention."""
    layers, even = tables["sinks-layers"], tables["sinks"].groupby("layer")["even"].mean()
    upper = layers.sort_values("layer").iloc[BOTTOM:]
    if upper.empty:
        return Outcome("not measured", f"The model has no more than {BOTTOM} layers.")
    line = TIMES * float(even.mean())
    shares = fill_exact(upper, "first")
    heads = passing(shares, line, "first")
    shows = (
        f"In {len(heads.sure)} of the {len(upper)} layers above the lowest {BOTTOM}, the first "
        f"token gets over {TIMES:.0f} times what even attention gives it "
        f"({SHARE.number(float(even.mean()))}); the mean over these layers is "
        f"{SHARE.number(float(upper['first'].mean()))}.{note_undecided(len(heads.open))}"
    )
    return judge_count(len(heads.sure), len(heads.open), len(upper) // 2 + 1, shows)


def answer_sinks(tables: Tables) -> list[Answer]:
    """How many heads have a sink on the first token in most examples."""
    table = fill_exact(tables["sinks"], "is_sink")
    table = table[table["is_sink"].notna()]
    heads = passing(table, HALF, "is_sink")
    if not len(heads.sure):
        return []
    does = "has an attention sink on the first token in most texts"
    share = len(heads.sure) / len(table)
    return [count_heads(heads, len(table), does, share, "heads-sinks", "is_sink", threshold=HALF)]


PRESENTATION = Presentation(LANGUAGE_MODELS, paper="Gu et al. 2025", figure="heads-sinks", show=[
    Grid(
        name="heads-sinks", needs=("sinks",), column="first", axis="share of attention",
        hover=[Hover("is_sink", "has a sink in", ".0%"), Hover("even", "even attention", ".1%")],
        title="Attention to the first token",
        caption=f"{HOW_TO_READ} The darker, the more of its attention goes to the first token.",
    ),
    above(
        "many-heads-have-a-sink", "sinks-model", "is_sink", line=MANY, made_by="--text FILE",
        shows="Of all pairs of a head and an example {number} have a sink on the first token.",
        unless="It needs a model that reads from left to right, and examples of 64 tokens or more.",
        says="Attention sinks on the first token are common in language models (here: at 64 tokens "
        "a head gives it over 0.3 of its attention in over a tenth of all heads and examples).",
        paper="sinks exist in language models of all sizes; of most models they report 40 to 90 %",
    ),
    Claim(
        "first-token-is-a-sink", check_above_even, needs=("sinks", "sinks-layers", "sinks-model"),
        unless="It needs a model that reads from left to right.",
        section="Xiao et al. 2023",
        says="Beyond the lowest two layers, heads give the first token far more attention than "
        "even attention would (here: over three times as much, in most of these layers).",
        paper="beyond the bottom two layers, the model attends heavily to the initial token across "
        "all layers and heads",
    ),
    AnswerMaker(("sinks", "sinks-model"), answer_sinks),
    head_facts(
        "sink", "sinks", "first", value="{} to the first token", label="",
        note=lambda row: f"{SHARE.number(row.even)} by even attention; a sink in "
        f"{SHARE.number(row.is_sink)} of texts",
    ),
])  # fmt: skip
