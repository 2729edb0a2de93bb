"""Induction heads: do they attend to what followed the last time that a token occurred?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

import numpy as np
from jaxtyping import Float, Int

from headscope.contracts import Analysis, Annotation, Corpus
from headscope.corpora.repeats import N_SEQUENCES, N_TOKENS, Repeats
from headscope.data.attention import Readings
from headscope.data.encoding import Batch
from headscope.data.reading import ChosenKeys
from headscope.data.table import Tables, empty_tables, rows_where
from headscope.lazy import Tensor, torch
from headscope.options import option
from headscope.stats.estimates import (
    AT_LEAST_0,
    FROM_0_TO_1,
    Estimates,
    Number,
    Summary,
    add_difference,
)
from headscope.stats.ranking import Values
from headscope.stats.sums import REPLICATE, Sums
from headscope.view.answer import Answer, AnswerMaker, Topic, count_heads, nearest_head
from headscope.view.facts import head_facts
from headscope.view.judge import above, fill_exact, passing, some
from headscope.view.numbers import SHARE, Form, row_estimate
from headscope.view.presentation import LANGUAGE_MODELS, Presentation
from headscope.view.specs import (
    COLOURS,
    Behaviour,
    Dots,
    HeadMeasure,
    Kind,
    Threshold,
    attention_grid,
    how_to_read,
)

__all__ = ["COPIES", "NATS", "SOURCE", "Induction", "mean_of_copies"]

PATTERNS = ("induction", "duplicate", "previous")
COPIES = ("first", "second")


class Patterns(ChosenKeys):
    """For each token of the second copy: what followed it in the first copy, the same token there,
    and the token before it."""

    def choose(self, batch: Batch) -> Int[Tensor, "example query choice"]:
        keys = np.full((len(batch), batch.n_tokens, len(PATTERNS)), -1)
        for i, encoding in enumerate(batch.encodings):
            words, firsts = np.unique(encoding.word_ids, return_index=True)
            at = firsts[words >= 0]  # the first token of each word
            n = len(at) // 2
            second = at[n : 2 * n]
            keys[i, second, 0] = at[1 : n + 1]
            keys[i, second, 1] = at[:n]
            keys[i, second, 2] = second - 1
        return torch.from_numpy(keys).to(batch.device)


PATTERN_KEYS = Patterns()


@dataclass(frozen=True)
class Induction(Analysis):
    """Mean attention along three patterns, over the second copy of random tokens.

    In a sequence `X X` of 2 T tokens, `induction` is prefix matching: the attention from token i to
    token i - T + 1, which followed the same token in the first copy; `duplicate` is that to token
    i - T, the same token, and `previous` that to token i - 1. `of_all` is the attention on the
    pattern as a share of all attention of all tokens: a perfect head has about half. `chance` is
    what even attention over the visible tokens would give. Each sequence is a document.
    """

    repeat_tokens: int = option(N_TOKENS, "Random tokens in a copy of the corpus 'repeats'.")
    repeat_sequences: int = option(N_SEQUENCES, "Sequences in the corpus 'repeats'.")
    seed: int = 0

    name = "induction"
    needs = frozenset({Annotation.REPEATS})
    predicts = True
    reads = (PATTERN_KEYS,)
    sums = {
        "weight": "layer head pattern", "of_all": "layer head pattern", "chance": "layer",
        "loss": "copy", "sequences": "",
    }  # fmt: skip
    labels = {"pattern": PATTERNS, "copy": COPIES}
    tables = {
        "induction": (
            *("layer", "head", "pattern", "weight", "low", "high"),
            *("of_all", "of_all_low", "of_all_high", "chance"),
        ),
        "induction-loss": ("copy", "loss", "low", "high"),
    }

    def __post_init__(self) -> None:
        self.make_corpus(None)  # says what is wrong with the options

    def make_corpus(self, text: Corpus | None) -> Repeats:
        """Random tokens that are repeated, by the options."""
        return Repeats(self.repeat_tokens, self.repeat_sequences, self.seed)

    def measure(self, seen: Readings) -> Mapping[str, Tensor]:
        """The mean weights of each sequence, even attention, and the loss of both copies."""
        weights = seen[PATTERN_KEYS]  # [example, layer, head, query, pattern]
        is_second = (PATTERN_KEYS.keys(seen.batch) >= 0).any(-1).to(weights.dtype)
        n_second = is_second.sum(-1).clamp(min=1)  # [example]
        total = weights.sum(3)
        even = is_second @ (1 / seen.visible.to(weights.dtype)).T  # [example, layer]
        measured = {
            "weight": total / n_second[:, None, None, None],
            "of_all": total / seen.n_queries,
            "chance": even / n_second[:, None],
            "sequences": is_second.any(-1).to(weights.dtype),
        }
        if seen.predictions is not None:
            measured["loss"], _ = mean_of_copies(seen.predictions.losses, seen.batch)
        return measured

    def rank(self, values: Mapping[str, Values]) -> dict[str, Values]:
        """The weight itself: the more attention goes there, the better a sequence shows it."""
        return {pattern: values["weight"][..., i] for i, pattern in enumerate(PATTERNS)}

    def summarize(self, sums: Sums) -> Mapping[str, Summary]:
        """Means over sequences, by head and pattern; the loss of both copies and its fall."""
        weight, of_all = (sums.mean(name, "sequences") for name in ("weight", "of_all"))
        heads = Estimates(
            {
                "weight": Number(weight, FROM_0_TO_1),
                "of_all": Number(of_all, FROM_0_TO_1),
                "chance": sums.mean("chance", "sequences").isel({REPLICATE: 0}, drop=True),
            },
            untrained="weight",
        )
        if "loss" not in sums:
            return {**empty_tables(self.tables), self.name: heads}
        loss = add_difference(sums.mean("loss", "sequences"), "copy", *COPIES)
        return {self.name: heads, "induction-loss": Estimates({"loss": Number(loss, AT_LEAST_0)})}


def mean_of_copies(
    losses: Float[Tensor, "example *set token"], batch: Batch
) -> tuple[Float[Tensor, "example *set copy"], Float[Tensor, " example"]]:
    """The mean loss of the words of each copy; and whether an example has two copies, 1 or 0.

    Nothing predicts the first token, so it does not count.
    """
    is_second = (PATTERN_KEYS.keys(batch) >= 0).any(-1)  # [example, token]
    is_first = (batch.word_ids >= 0) & ~is_second
    is_first[:, 0] = False
    copies = torch.stack([is_first, is_second], dim=-1).to(losses.dtype)
    means = torch.einsum("e...t,etc->e...c", losses, copies / copies.sum(1, True).clamp(min=1))
    return means, is_second.any(-1).to(losses.dtype)


HALF = 0.5
KIND = Kind("an earlier occurrence of the token", COLOURS[5], "triangle-down")
THRESHOLD = Threshold("induction", HALF, "Threshold for calling a head an induction head.")
SOURCE = "Olsson et al. 2022"
NATS = Form(".1f", unit=" nats")
WORDS = {
    "induction": "to what followed the token the first time (induction)",
    "duplicate": "to the same token, the first time",
    "previous": "to the token before",
}
DOES = "attends to what followed the token the first time (induction)"


def answer_induction(tables: Tables) -> list[Answer]:
    """How many heads do induction, and what repeating the tokens does to the loss."""
    rows = rows_where(fill_exact(tables["induction"]), pattern="induction")
    heads, does = passing(rows, HALF), f"{DOES} in repeated random tokens"
    if not len(heads.sure):
        return [nearest_head(rows, heads, does, "induction", threshold=HALF)]
    return [
        count_heads(heads, len(rows), does, 0.95, "induction", topic=Topic.FINDS, threshold=HALF)
    ]


def answer_loss(tables: Tables) -> list[Answer]:
    """By how much the loss falls from the first copy to the second."""
    first, second, fall = (row for _, row in tables["induction-loss"].iterrows())
    if not fall["low"] > 0:
        return []
    before, after = (NATS.number(row["loss"]) for row in (first, second))
    text = (
        f"When random tokens are repeated, their loss falls by {NATS.row(fall, 'loss')}, from "
        f"{before} to {after}: the model copies from its context."
    )
    return [
        Answer(text, 0.8, "", (), "induction", Topic.SUMMARY, row_estimate(fall, "loss"), 0.0, inf)
    ]


PRESENTATION = Presentation(
    LANGUAGE_MODELS, made_by="--text repeats", paper=SOURCE, figure="induction", show=[
    Dots(
        name="induction", column="weight", axis="share of attention", split="pattern",
        words=WORDS, dashed="chance", dashed_title="even attention",
        title="Attention in repeated random tokens",
        caption="The input is a sequence of random tokens, twice. One panel for each pattern of "
        "the second copy. " + how_to_read("share of attention that goes there")
        + " Dashed line: attention spread evenly over all visible tokens.",
    ),
    attention_grid(
        "heads-induction", "induction", "what followed the token the first time",
        {"pattern": "induction"}, "attention to what followed an earlier occurrence",
    ),
    some(
        "induction-heads", "induction", where={"pattern": "induction"}, line=HALF,
        does="puts over half on what followed the token the first time",
        says="Some heads are induction heads (here: in repeated random tokens over half of their "
        "attention goes to what followed the token the first time).",
        paper="induction heads, defined by prefix matching and copying on repeated random tokens, "
        "exist in all the language models with two layers or more",
    ),
    above(
        "repeated-tokens-are-predicted", "induction-loss", "loss", line=0, form=NATS,
        where={"copy": "first - second"},
        shows="The loss of the second copy is {number} below that of the first.",
        unless="It needs a language model that reads from left to right.",
        says="Random tokens are predicted better when they come again (here: the loss of the "
        "second copy is below that of the first).",
        paper="models with induction heads predict the second copy of random tokens",
    ),
    AnswerMaker(("induction",), answer_induction),
    AnswerMaker(("induction-loss",), answer_loss),
    HeadMeasure(
        "induction_in_repeats", "Mean attention to what followed the token the first time, in "
        "repeated random tokens.", "induction", "weight", {"pattern": "induction"},
        for_cache="induction",
    ),
    head_facts(
        "repeated random tokens", "induction", split="pattern", words=WORDS,
        note=lambda row: f"{SHARE.number(row.chance)} by chance",
    ),
    *(
        Behaviour(
            name, f"in repeated tokens attends {WORDS[pattern]} ({{}})", KIND, THRESHOLD,
            "induction", "weight", {"pattern": pattern}, ranking=pattern, short=short, also=also,
        )
        for name, pattern, short, also in (
            ("induction", "induction", "induct", "prefix matching copy in-context repeat"),
            ("duplicate token", "duplicate", "same", "repeat earlier occurrence"),
        )
    ),
])  # fmt: skip
