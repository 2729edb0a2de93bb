"""Copying heads: does attention to a token make that token more probable, or less?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headscope.contracts import Analysis, Annotation, Corpus, Watch
from headscope.corpora.repeats import N_SEQUENCES, N_TOKENS, Repeats
from headscope.data.attention import Copying
from headscope.data.table import Tables, rows_where
from headscope.lazy import Tensor, torch
from headscope.options import option
from headscope.stats.estimates import FROM_0_TO_1, EstimateColumn, Estimates, Number
from headscope.stats.sums import Sums
from headscope.view.answer import Answer, AnswerMaker, Topic, count_heads
from headscope.view.facts import head_facts
from headscope.view.judge import fill_exact, passing
from headscope.view.numbers import SHARE
from headscope.view.presentation import LANGUAGE_MODELS, Presentation
from headscope.view.specs import HOW_TO_READ, Grid

__all__ = ["CopyingHeads"]

EFFECTS = {"copies": "copies it", "suppresses": "suppresses it"}
FEW = 10  # words


@dataclass(frozen=True)
class CopyingHeads(Analysis):
    """How often a head's output for a token raises, or lowers, that token's own logit most.

    A head's output for a token is its value vector through the head's own projection; its logits
    come from the model's unembedding. The token is compared with a random sample of the vocabulary
    (1,000 words): `top_1` is the share of tokens whose own logit is raised (`copies`) or lowered
    (`suppresses`) more than that of any other, `top_10` that of those among the ten most. Every
    token of random sequences counts alike, whether it is attended to or not, so this is what the
    head would do; `induction` says where it attends.
    """

    repeat_tokens: int = option(N_TOKENS, "Random tokens in a copy of the corpus 'repeats'.")
    repeat_sequences: int = option(N_SEQUENCES, "Sequences in the corpus 'repeats'.")
    seed: int = 0

    name = "copying"
    needs = frozenset({Annotation.REPEATS})
    watches = Watch.COPYING
    sums = {
        "top_1": "layer head effect", "top_10": "layer head effect", "chance": "", "sequences": "",
    }  # fmt: skip
    labels = {"effect": tuple(EFFECTS)}
    tables = {
        "copying": (
            *("layer", "head", "effect", "top_1", "low", "high"),
            *("top_10", "top_10_low", "top_10_high", "chance_1", "chance_10"),
        )
    }

    def make_corpus(self, text: Corpus | None) -> Repeats:
        """As for `induction`."""
        return Repeats(self.repeat_tokens, self.repeat_sequences, self.seed)

    def measure(self, seen: Copying) -> Mapping[str, Tensor]:
        """The shares of the words of each sequence."""
        better = torch.stack([seen.above, seen.below], dim=-1)  # [example, layer, head, t, effect]
        is_word = (seen.batch.word_ids >= 0).to(better.dtype)
        n_words = is_word.sum(-1).clamp(min=1)[:, None, None, None]

        def share(is_top: Tensor) -> Tensor:
            return torch.einsum("elhtf,et->elhf", is_top.to(better.dtype), is_word) / n_words

        ones = torch.ones_like(better[:, 0, 0, 0, 0])
        chance = ones / (1 + seen.n_sample)
        tops = {"top_1": share(better < 1), "top_10": share(better < FEW)}
        return {**tops, "chance": chance, "sequences": ones}

    def summarize(self, sums: Sums) -> Mapping[str, Estimates]:
        """Means over sequences, by head."""
        columns: dict[str, EstimateColumn] = {
            name: Number(sums.mean(name, "sequences"), FROM_0_TO_1) for name in ("top_1", "top_10")
        }
        chance = sums.ratio("chance", "sequences")
        return {self.name: Estimates({**columns, "chance_1": chance, "chance_10": FEW * chance})}


HALF = 0.5


def answer_copying(tables: Tables) -> list[Answer]:
    """How many heads copy, by the ten most raised words."""
    rows = rows_where(fill_exact(tables["copying"], "top_10"), effect="copies")
    heads = passing(rows, HALF, "top_10")
    if not len(heads.sure):
        return []
    does = "would copy: in over half of cases the attended token is among the ten most raised"
    return [
        count_heads(
            *(heads, len(rows), does, 0.75, "heads-copying", "top_10"),
            topic=Topic.FINDS,
            threshold=HALF,
        )
    ]


PRESENTATION = Presentation(
    LANGUAGE_MODELS, made_by="--text repeats --also copying", figure="heads-copying", show=[
        Grid(
            name="heads-copying", needs=("copying",), column="top_10", axis="share of tokens",
            panel="effect", words={"copies": "copies", "suppresses": "suppresses"}, in_line=1,
            title="Heads that copy, and heads that suppress",
            caption=f"{HOW_TO_READ} The darker, the more often the head's output for a token would "
            "raise (or lower) the logit of that token among the ten most of a thousand words.",
        ),
        AnswerMaker(("copying",), answer_copying),
        head_facts(
            "copying", "copying", "top_10", split="effect", words=EFFECTS,
            note=lambda row: f"{SHARE.number(row.top_1)} most of all words; by chance "
            f"{SHARE.number(row.chance_10)}",
        ),
    ],
)  # fmt: skip
