"""What words of each part of speech attend to: [SEP], where a head's task is not theirs? (3.2)"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool
from torch import Tensor

from headscope.analyses.special_tokens.classes import class_names, classify
from headscope.contracts import Analysis, Annotation
from headscope.data.attention import LayerAttention
from headscope.data.encoding import Batch
from headscope.data.reading import MapShape, PooledReading, Pooling, Reading
from headscope.data.table import empty_tables, head_axes, tidy_table
from headscope.data.words import (
    check_query_pieces,
    count_words,
    make_pooling,
    query_pieces_option,
    query_units,
    words_with_tokens,
)
from headscope.stats.tally import Tally

__all__ = ["NOT_NOUNS", "NOUNS", "PartsOfSpeech"]

NOUNS, NOT_NOUNS = "nouns", "not nouns"
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

    def pool(self, layer: MapShape) -> Pooling:
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
    tables: ClassVar[dict[str, tuple[str, ...]]] = {
        "parts-of-speech": ("layer", "head", "source", "target", *WEIGHT)
    }

    def __post_init__(self) -> None:
        check_query_pieces(self.query_pieces)

    @property
    def reads(self) -> tuple[Reading, ...]:
        return (WordsToClasses(self.query_pieces),)

    def measure(self, attention: LayerAttention) -> Mapping[str, Tensor]:
        """Sums over the words of each source, by example, head and target; how many they are."""
        batch = attention.batch
        sources = batch.remember("sources", lambda: _find_sources(batch))
        from_words = attention.read(*self.reads).weights  # [example, head, word, target]
        chosen = sources.is_source.to(from_words.dtype)  # [example, source, word]
        by_source = (chosen[:, None] @ from_words).unbind(2)  # each [example, head, target]
        counts = chosen.sum(-1).unbind(1)
        values: dict[str, Tensor] = {}
        for name, sums, n_words in zip(sources.names, by_source, counts, strict=True):
            values[f"weight/{name}"] = sums
            if attention.layer == 0:
                values[f"words/{name}"] = n_words
        return values

    def summarize(self, tally: Tally) -> dict[str, pd.DataFrame]:
        """Mean over words, by head, source and target; the most general sources first."""
        names = sorted(name.partition("/")[2] for name in tally if name.startswith("words/"))
        parts = []
        for name in sorted(names, key=lambda name: name not in (NOUNS, NOT_NOUNS)):
            mean = tally.ratio(f"weight/{name}", f"words/{name}")  # [layer, head, target]
            axes = {**head_axes(*mean.value.shape[:2]), "source": [name], "target": class_names({})}
            values = zip(WEIGHT, (part[:, :, None] for part in mean), strict=True)
            table = tidy_table(axes, dict(values))
            parts.append(table[table["weight"].notna()])
        joined = pd.concat(parts, ignore_index=True) if parts else None
        return empty_tables(self.tables) if joined is None else {self.name: joined}


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
