"""Retrieval heads: do they attend to a fact hidden in a long text when it is asked for?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from headscope.contracts import Analysis, Annotation, Corpus
from headscope.corpora.collection import adopt
from headscope.corpora.needles import (
    AFTER,
    ANSWER,
    BEFORE,
    N_TOKENS,
    N_TRIALS,
    NEEDLE,
    QUESTION,
    Needles,
)
from headscope.data.attention import LayerAttention, Readings
from headscope.data.encoding import Batch
from headscope.data.reading import MapSlice, Reading
from headscope.data.table import Tables
from headscope.lazy import Tensor, torch
from headscope.options import option
from headscope.stats.estimates import FROM_0_TO_1, EstimateColumn, Estimates, Number, Summary
from headscope.stats.sums import Sums
from headscope.view.answer import Answer, AnswerMaker, Topic, count_heads
from headscope.view.facts import head_facts
from headscope.view.judge import Claim, Outcome, fill_exact, list_heads, note_open, passing
from headscope.view.numbers import SHARE, percent
from headscope.view.presentation import LANGUAGE_MODELS, Presentation
from headscope.view.specs import COLOURS, HOW_TO_READ, Behaviour, Grid, HeadMeasure, Kind, Threshold

__all__ = ["Retrieval"]


class Looks(NamedTuple):
    """Where the rows of question and answer look; other rows are 0."""

    best: Tensor  # the most attended key, [example, head, query]
    needle: Tensor  # the share of the needle
    stretch: Tensor  # that of as much text elsewhere


class ToNeedle(Reading):
    """The most attended key of each row from the question on, and the shares of two stretches."""

    def begin(self, layer: LayerAttention) -> tuple[Looks, Tensor, Tensor, int]:
        shape, device = layer.weights.shape[:3], layer.batch.device
        looks = Looks(
            *(torch.zeros(shape, dtype=layer.weights.dtype, device=device) for _ in "123")
        )
        batch = layer.batch
        needle, stretch = batch.remember(self, lambda: find_stretches(batch))
        firsts = [np.flatnonzero(e.word_ids >= QUESTION)[:1] for e in batch.encodings]
        first = min((int(row) for rows in firsts for row in rows), default=layer.n_queries)
        return looks, needle, stretch, first

    def add(self, total: tuple[Looks, Tensor, Tensor, int], part: MapSlice) -> None:
        looks, needle, stretch, first = total
        if part.rows.stop <= first:
            return
        some, n_keys = part.examples, part.weights.shape[-1]
        looks.best[some, :, part.rows] = part.weights.argmax(-1).to(looks.best.dtype)
        for shares, chosen in ((looks.needle, needle), (looks.stretch, stretch)):
            keys = chosen[some, None, :n_keys, None].to(part.weights.dtype)
            shares[some, :, part.rows] = (part.weights @ keys)[..., 0]

    def join(self, layers: list[tuple[Looks, Tensor, Tensor, int]]) -> Looks:  # type: ignore[override]
        return Looks(
            *(torch.stack(p, dim=1) for p in zip(*(look[0] for look in layers), strict=True))
        )


def find_stretches(batch: Batch) -> tuple[Tensor, Tensor]:
    """Which tokens are the needle, and which as many tokens in the middle of the longer side."""
    words = np.stack([encoding.word_ids for encoding in batch.encodings])  # [example, token]
    needle = words == NEEDLE
    stretch = np.zeros_like(needle)
    for i, row in enumerate(words):
        longer = max((np.flatnonzero(row == side) for side in (BEFORE, AFTER)), key=len)
        n = int(needle[i].sum())
        start = max(0, (len(longer) - n) // 2)
        stretch[i, longer[start : start + n]] = True
    return torch.from_numpy(needle).to(batch.device), torch.from_numpy(stretch).to(batch.device)


TO_NEEDLE = ToNeedle()
COLUMNS = ("copied", "attended", "stretch")


@dataclass(frozen=True)
class Retrieval(Analysis):
    """How often a head looks at a hidden fact when the model must repeat it.

    A made-up fact stands in the user's text, and its beginning is asked for at the end. The answer
    is given to the model (teacher forcing), so this is not generation. `copied` is the share of the
    answer's tokens for which the most attended key lies in the fact and is that token (Wu et al.
    2024); `attended` the share of attention from the question to the fact, `stretch` that to as
    many tokens elsewhere, which is chance. Only trials count in which every token of the answer is
    the model's most probable one: `retrieval-trials` says how many.
    """

    haystack: int = option(N_TOKENS, "Tokens of text, about, in which a fact is hidden.")
    trials: int = option(N_TRIALS, "Facts that are hidden, each in another stretch of the text.")
    seed: int = 0

    name = "retrieval"
    needs = frozenset({Annotation.NEEDLES})
    on_request = True
    predicts = True
    reads = (TO_NEEDLE,)
    sums = {
        "copied": "layer head", "attended": "layer head", "stretch": "layer head",
        "answered": "", "trials": "",
    }  # fmt: skip
    tables = {
        "retrieval": (
            *("layer", "head", "copied", "low", "high"),
            *("attended", "attended_low", "attended_high"),
            *("stretch", "stretch_low", "stretch_high"),
        ),
        "retrieval-trials": ("trials", "answered"),
    }

    def make_corpus(self, text: Corpus | None) -> Needles | None:
        """Facts in the user's own text."""
        if text is None:
            return None
        return Needles(adopt(text), self.haystack, self.trials, self.seed)

    def measure(self, seen: Readings) -> Mapping[str, Tensor]:
        """The shares of each trial that the model answers; 0 of others."""
        looks, words = seen[TO_NEEDLE], seen.batch.word_ids
        ids = seen.batch.inputs["input_ids"]
        needle, _ = find_stretches(seen.batch)
        dtype = looks.needle.dtype
        is_answer = (words == ANSWER)[:, 1:]  # the row before predicts it
        best = looks.best[..., :-1].long()  # [example, layer, head, row]
        flat = best.flatten(1)
        is_token = ids.gather(1, flat).view(best.shape) == ids[:, None, None, 1:]
        is_copied = (is_token & needle.gather(1, flat).view(best.shape)).to(dtype)
        n_answer = is_answer.sum(-1).clamp(min=1)
        asks = (words == QUESTION).to(dtype)
        n_asked = asks.sum(-1).clamp(min=1)
        is_right = torch.ones_like(is_answer)
        if seen.predictions is not None:
            is_right = seen.predictions.is_best[:, 1:]
        answered = ((is_right | ~is_answer).all(-1) & is_answer.any(-1)).to(dtype)

        def mean(values: Tensor, rows: Tensor, n_rows: Tensor) -> Tensor:
            summed = torch.einsum("elhq,eq->elh", values, rows.to(dtype))
            return summed * (answered / n_rows)[:, None, None]

        return {
            "copied": mean(is_copied, is_answer, n_answer),
            "attended": mean(looks.needle, asks, n_asked),
            "stretch": mean(looks.stretch, asks, n_asked),
            "answered": answered,
            "trials": torch.ones_like(answered),
        }

    def summarize(self, sums: Sums) -> Mapping[str, Summary]:
        """Means over the trials that the model answers, by head; and how many these are."""
        columns: dict[str, EstimateColumn] = {
            name: Number(sums.mean(name, "answered"), FROM_0_TO_1) for name in COLUMNS
        }
        counts = {name: [round(float(sums(name).sum()))] for name in ("trials", "answered")}
        return {
            self.name: Estimates(columns),
            "retrieval-trials": pd.DataFrame(counts),
        }


MANY, FEW = 0.1, 0.05  # of tokens copied; of all heads
SOURCE = "Wu et al. 2024"
KIND = Kind("a fact that is asked for", COLOURS[2], "square")


def check_few(tables: Tables) -> Outcome:
    """Some heads copy over a tenth of the tokens, but fewer than 5 % of all heads do."""
    table = fill_exact(tables["retrieval"], "copied")
    table = table[table["copied"].notna()]
    trials = tables["retrieval-trials"].iloc[0]
    told = f"The model answers {trials['answered']} of {trials['trials']} questions."
    if table.empty:
        return Outcome("not measured", told)
    heads = passing(table, MANY, "copied")
    n_sure, n_most = len(heads.sure), len(heads.sure) + len(heads.open)
    look = "looks" if n_sure == 1 else "look"
    shows = (
        f"{told} {n_sure} of {len(table)} heads ({percent(n_sure / len(table))} %) {look} at the "
        f"token to copy for over 10 % of the answer: {list_heads(heads.sure, 'copied')}."
        f"{note_open(heads, '10 %')}"
    )
    if n_sure and n_most < FEW * len(table):
        return Outcome("holds", shows)
    is_over = n_sure >= FEW * len(table) or not n_most
    return Outcome("does not hold" if is_over else "undecided", shows)


def answer_retrieval(tables: Tables) -> list[Answer]:
    """How many heads look at the fact, and how often the model answers."""
    table = fill_exact(tables["retrieval"], "copied")
    table = table[table["copied"].notna()]
    heads = passing(table, MANY, "copied")
    if not len(heads.sure):
        return []
    does = "looks at the token to copy when a hidden fact is asked for (over 10 % of the answer)"
    return [
        count_heads(
            *(heads, len(table), does, 0.93, "heads-retrieval", "copied"),
            topic=Topic.FINDS,
            threshold=MANY,
        )
    ]


PRESENTATION = Presentation(
    LANGUAGE_MODELS, made_by="--text FILE --also retrieval", paper=SOURCE, figure="heads-retrieval",
    show=[
        Grid(
            name="heads-retrieval", needs=("retrieval",), column="copied", axis="share of tokens",
            title="Heads that retrieve a hidden fact",
            caption=f"{HOW_TO_READ} The darker, the more of the answer's tokens for which the most "
            "attended token is that token of the fact.",
        ),
        Claim(
            "retrieval-heads-are-few", check_few, needs=("retrieval", "retrieval-trials"),
            unless="It needs a language model that reads from left to right.",
            says="Retrieval heads exist and are few (here: with a copy-paste score over 0.1, more "
            "than none and under 5 % of all heads).",
            paper="fewer than 5 % of the heads of the models are retrieval heads (score over 0.1)",
        ),
        AnswerMaker(("retrieval",), answer_retrieval),
        HeadMeasure(
            "retrieval_score", "Share of a hidden fact's tokens that are attended to most when it "
            "is asked for.", "retrieval", "copied", for_cache="retrieval",
        ),
        head_facts(
            "retrieval", "retrieval", "copied", value="{} of a hidden fact's tokens",
            note=lambda row: f"{SHARE.number(row.attended)} of the question's attention on the "
            f"fact, {SHARE.number(row.stretch)} on as much text elsewhere",
        ),
        Behaviour(
            "retrieval", "looks at a hidden fact that is asked for ({} of its tokens)", KIND,
            Threshold("retrieval", MANY, "Threshold for calling a head a retrieval head."),
            "retrieval", "copied", short="retriev", also="needle haystack copy paste fact",
        ),
    ],
)  # fmt: skip
