"""The sentences that a probe learns from or is scored on, in the order of their stored maps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Int
from numpy.typing import NDArray

from headscope.data.example import Example
from headscope.data.tree import ROOT
from headscope.probes.store import WordMaps
from headscope.stats.bucket import bucket_of

__all__ = ["NO_HEAD", "ProbeTreebank", "Sentence", "is_punctuation", "keep_words"]

NO_HEAD = -2  # of a word whose head has no token: it is neither learned from nor scored


@dataclass(frozen=True, eq=False)
class Sentence:
    """The words that have tokens, with their heads: an index among them, ROOT or NO_HEAD."""

    key: int
    document: str
    words: tuple[str, ...]
    heads: Int[NDArray[np.int64], " word"]
    relations: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.words)

    @property
    def bucket(self) -> int:
        """That of its document."""
        return bucket_of(self.document)

    @cached_property
    def is_scored(self) -> Bool[NDArray[np.bool_], " word"]:
        """Which words count: those with a head, punctuation left out."""
        is_word = [not is_punctuation(relation) for relation in self.relations]
        return np.array(is_word) & (self.heads > NO_HEAD)


def keep_words(example: Example, kept: Sequence[int]) -> Sentence:
    """A sentence of these words alone; an arc to a word that is left out has no head."""
    tree = example.tree
    assert tree is not None  # checked when the corpus was opened
    assert example.words is not None
    index_of = {ROOT: ROOT} | {word: index for index, word in enumerate(kept)}
    return Sentence(
        key=example.key,
        document=example.own_document,
        words=tuple(example.words[word] for word in kept),
        heads=np.array([index_of.get(tree.heads[word], NO_HEAD) for word in kept], dtype=np.int64),
        relations=tuple(tree.relations[word] for word in kept),
    )


def is_punctuation(relation: str) -> bool:
    """Whether the paper leaves out words of this relation.

    >>> is_punctuation("punct"), is_punctuation("nsubj")
    (True, False)
    """
    return relation.partition(":")[0] == "punct"


@dataclass(frozen=True, eq=False)
class ProbeTreebank:
    """Sentences and the attention between their words."""

    sentences: Sequence[Sentence]
    maps: WordMaps
    stored_at: Int[NDArray[np.int64], " sentence"]  # the index of each sentence in the store

    @classmethod
    def whole(cls, sentences: Mapping[str, Sentence], maps: WordMaps) -> "ProbeTreebank":
        """All sentences of a store, given by id."""
        in_order = [sentences[sentence_id] for sentence_id in maps.ids]
        return cls(in_order, maps, np.arange(len(in_order)))

    def __len__(self) -> int:
        return len(self.sentences)

    @cached_property
    def sizes(self) -> Int[NDArray[np.int64], " sentence"]:
        """How many words each sentence has."""
        return np.array([len(sentence) for sentence in self.sentences], dtype=np.int64)

    @cached_property
    def heads(self) -> Int[NDArray[np.int64], " word"]:
        """The heads of all words, one sentence after the other."""
        return np.concatenate([sentence.heads for sentence in self.sentences])

    @property
    def n_arcs(self) -> int:
        """How many words have a head to learn."""
        return int((self.heads > NO_HEAD).sum())

    def choose(self, n_sentences: int, seed: int) -> "ProbeTreebank":
        """A random sample by seed and id alone; a larger one includes a smaller one."""
        ranks = [np.random.Philox(key=[seed, s.key]).random_raw() for s in self.sentences]
        return self.take(np.sort(np.argsort(ranks, kind="stable")[:n_sentences]))

    def split(self, n_second: int, seed: int) -> tuple["ProbeTreebank", "ProbeTreebank"]:
        """A random split: all but `n_second` sentences, and those."""
        second = self.choose(n_second, seed)
        first = np.flatnonzero(~np.isin(self.stored_at, second.stored_at))
        return self.take(first), second

    def take(self, chosen: Int[NDArray[np.int64], " sentence"]) -> "ProbeTreebank":
        """The sentences with these indices."""
        sentences = [self.sentences[i] for i in chosen]
        return replace(self, sentences=sentences, stored_at=self.stored_at[chosen])
