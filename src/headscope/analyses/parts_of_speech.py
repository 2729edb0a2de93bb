"""What words of each part of speech attend to: [SEP], where a head's task is not theirs? (3.2)"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool

from headscope.analyses.dependency.claims import MIN_COUNT
from headscope.analyses.dependency.tables import name_in_paper
from headscope.analyses.special_tokens.claims import find_sink
from headscope.analyses.special_tokens.classes import class_names, classify
from headscope.analyses.special_tokens.show import TARGETS
from headscope.contracts import Analysis, Annotation
from headscope.data.attention import LayerAttention, Readings
from headscope.data.encoding import Batch
from headscope.data.reading import PooledReading, Pooling
from headscope.data.table import Tables, rows_where
from headscope.data.words import (
    check_query_pieces,
    count_words,
    make_pooling,
    query_pieces_option,
    query_units,
    words_with_tokens,
)
from headscope.lazy import Tensor, torch
from headscope.stats.estimates import FROM_0_TO_1, Estimates, Joined, Number
from headscope.stats.sums import Sums
from headscope.view.facts import FactMaker, Facts, Part, by_head
from headscope.view.judge import Claim, Outcome, judge, name_head
from headscope.view.numbers import SHARE, row_estimate
from headscope.view.presentation import SURFACE, Presentation
from headscope.view.table import name_corpus

__all__ = ["NOT_NOUNS", "NOUNS", "PartsOfSpeech"]

NOUNS, NOT_NOUNS = GENERAL = "nouns", "not nouns"
WEIGHT = ("weight", "low", "high")
NOUN_TAGS = frozenset({"NOUN", "PROPN", "NN", "NNS", "NNP", "NNPS"})  # universal, then Penn's
PRONOUN_TAGS = frozenset({"PRON", "PRP", "PRP$", "WP", "WP$"})


class Sources(NamedTuple):
    """Which words with tokens are of each source."""

    names: list[str]
    is_source: Bool[Tensor, "example source word"]


@dataclass(frozen=True)
class WordsToClasses(PooledReading):
    """Attention from words to classes of tokens."""

    query_pieces: str

    def pool(self, layer: LayerAttention) -> Pooling:
        words = np.stack([encoding.word_ids for encoding in layer.batch.encodings])
        classes = classify(layer.batch, {}).argmax(-1)  # [example, token]
        rows, shares = query_units(words, self.query_pieces)
        n_words, n_classes = count_words(layer.batch), len(class_names({}))
        return make_pooling(layer.batch, rows, shares, classes, n_words, n_classes)


@dataclass(frozen=True)
class PartsOfSpeech(Analysis):
    """Mean attention from the words of a part of speech, by class of the attended token.

    The classes are those of the analysis of special tokens. A word attends as its pieces do, and
    every word counts the same. Sources are the treebank's tags, `nouns` (with names), and `not
    nouns`; pronouns can stand where nouns do, and are in neither of the two.
    """

    query_pieces: str = query_pieces_option()

    name = "parts-of-speech"
    needs = frozenset({Annotation.WORDS, Annotation.TAGS})
    sums = {"weight": "*source layer head target", "words": "*source"}
    labels = {"target": class_names({})}
    tables = {"parts-of-speech": ("layer", "head", "source", "target", *WEIGHT)}

    def __post_init__(self) -> None:
        check_query_pieces(self.query_pieces)

    @property
    def reads(self) -> tuple[WordsToClasses, ...]:
        return (WordsToClasses(self.query_pieces),)

    def measure(self, seen: Readings) -> Mapping[str, Mapping[str, Tensor]]:
        """Sums over the words of each source, by head and target; and how many words they are."""
        sources = _find_sources(seen.batch)
        from_words = seen[self.reads[0]]  # [example, layer, head, word, target]
        chosen = sources.is_source.to(from_words.dtype)  # [example, source, word]
        by_source = (chosen[:, None, None] @ from_words).unbind(-2)
        counts = chosen.sum(-1).unbind(1)
        return {
            "weight": dict(zip(sources.names, by_source, strict=True)),
            "words": dict(zip(sources.names, counts, strict=True)),
        }

    def summarize(self, sums: Sums) -> Mapping[str, Joined]:
        """Mean over words, by head, source and target; the most general sources first."""
        names = sorted(sums.labels("words"), key=lambda name: (name not in GENERAL, name))
        means = {name: sums.mean("weight", "words", name) for name in names}
        parts = [mean.expand_dims(source=[name], axis=3) for name, mean in means.items()]
        tables = [
            Estimates({"weight": Number(part, FROM_0_TO_1)}, known="weight") for part in parts
        ]
        return {self.name: Joined(tables)}


def _find_sources(batch: Batch) -> Sources:
    has_tokens = words_with_tokens(batch)
    is_class = {name: np.zeros(has_tokens.shape, bool) for name in (NOUNS, NOT_NOUNS)}
    for i, encoding in enumerate(batch.encodings):
        for word, tag in enumerate(encoding.example.tags or ()):
            if not has_tokens[i, word]:
                continue
            names = [tag]
            if tag not in PRONOUN_TAGS:
                names.append(NOUNS if tag in NOUN_TAGS else NOT_NOUNS)
            for name in names:
                is_class.setdefault(name, np.zeros(has_tokens.shape, bool))[i, word] = True
    is_source = np.stack(list(is_class.values()), axis=1)
    return Sources(list(is_class), torch.from_numpy(is_source).to(batch.device))


MOSTLY = 0.5


def source_facts(tables: Tables) -> Facts:
    """How much goes to what serves as a sink, from nouns and from other words."""
    table = tables["parts-of-speech"]
    target, _, _ = find_sink(table)
    rows = table[(table["target"] == target) & table["source"].isin([NOUNS, NOT_NOUNS])]
    return by_head(
        rows,
        f"to {TARGETS[target]}, by part of speech",
        lambda row: Part(
            f"from {row.source}", f"{SHARE.row(row, 'weight')}{name_corpus(row)}", row.weight
        ),
    )


def check_not_nouns(tables: Tables) -> Outcome:
    """In the head that finds direct objects, words that are no nouns mostly attend to [SEP]."""
    best = tables["dependency-best"]
    rows = best[(best["relation"].map(name_in_paper) == "dobj") & (best["count"] >= MIN_COUNT)]
    if rows.empty:
        few = f"The treebank has fewer than {MIN_COUNT} direct objects (dobj or obj)."
        return Outcome("not measured", few)
    row = rows.iloc[0]
    of_head = rows_where(tables["parts-of-speech"], layer=row["layer"], head=row["head"])
    target, called, note = find_sink(of_head)
    to_sink = rows_where(of_head, target=target).set_index("source")
    if NOT_NOUNS not in to_sink.index:
        return Outcome("not measured", "The treebank has no words that are not nouns.")
    others = to_sink.loc[NOT_NOUNS]
    nouns = SHARE.row(to_sink.loc[NOUNS], "weight") if NOUNS in to_sink.index else "-"
    shows = (
        f"{note}In head {name_head(row)}, the best for direct objects, words that are not nouns "
        f"put {SHARE.row(others, 'weight')} of their attention on {called}, nouns {nouns}."
    )
    return judge(row_estimate(others, "weight"), MOSTLY, shows)


PRESENTATION = Presentation(SURFACE, made_by="--treebank FILE", paper="3.2", show=[
    Claim(
        "not-nouns-look-at-sep", check_not_nouns, needs=("parts-of-speech", "dependency-best"),
        unless="It needs a treebank with parts of speech.",
        says="In the head that finds direct objects, words that are not nouns mostly attend to "
        "[SEP] (here: with over half of their attention).",
        paper="head 8-10: non-nouns mostly attend to [SEP]",
    ),
    FactMaker(("parts-of-speech",), source_facts),
])  # fmt: skip
