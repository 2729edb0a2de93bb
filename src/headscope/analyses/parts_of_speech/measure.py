"""What words of each part of speech attend to: [SEP], where a head's task is not theirs? (3.2)"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from headscope.analyses.special_tokens.classes import class_names, classify
from headscope.contracts import Analysis, Annotation
from headscope.data.attention import LayerAttention, Readings
from headscope.data.encoding import Batch
from headscope.data.reading import PooledReading, Pooling
from headscope.data.words import (
    check_query_pieces,
    count_words,
    make_pooling,
    query_pieces_option,
    query_units,
    words_with_tokens,
)
from headscope.stats.estimates import Estimates, Joined, Number
from headscope.stats.sums import Sums

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

    name: ClassVar[str] = "parts-of-speech"
    needs: ClassVar[frozenset[str]] = frozenset({Annotation.WORDS, Annotation.TAGS})
    sums: ClassVar[dict[str, str]] = {"weight": "*source layer head target", "words": "*source"}
    labels: ClassVar[dict[str, list[str]]] = {"target": class_names({})}
    tables: ClassVar[dict[str, tuple[str, ...]]] = {
        "parts-of-speech": ("layer", "head", "source", "target", *WEIGHT)
    }

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
        tables = [Estimates({"weight": Number(part)}, known="weight") for part in parts]
        return {self.name: Joined(tables)}


def _find_sources(batch: Batch) -> Sources:
    has_tokens = words_with_tokens(batch)
    found = {name: np.zeros(has_tokens.shape, bool) for name in (NOUNS, NOT_NOUNS)}
    for i, encoding in enumerate(batch.encodings):
        for word, tag in enumerate(encoding.example.tags or ()):
            if not has_tokens[i, word]:
                continue
            names = [tag]
            if tag not in PRONOUN_TAGS:
                names.append(NOUNS if tag in NOUN_TAGS else NOT_NOUNS)
            for name in names:
                found.setdefault(name, np.zeros(has_tokens.shape, bool))[i, word] = True
    is_source = np.stack(list(found.values()), axis=1)
    return Sources(list(found), torch.from_numpy(is_source).to(batch.device))
