"""The sentences that a probe learns from or is scored on, in the order of their stored maps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray

from headscope.data.example import ROOT, Example, stable_hash
from headscope.probes.store import WordMaps
from headscope.stats.bucket import bucket_of

__all__ = ["NO_HEAD", "ProbeTreebank", "Sentence", "is_punctuation", "keep_words"]

NO_HEAD = -2  # of a word whose head has no token: it is neither learned from nor scored


@dataclass(frozen=True, eq=False)
class Sentence:
    """The words that have tokens, with their heads: an index among them, ROOT or NO_HEAD."""

    key: int
    document: str
    bucket: int  # that of its document
    words: tuple[str, ...]
    heads: Int[NDArray[np.int64], " word"]
    relations: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def is_word(self) -> Bool[NDArray[np.bool_], " word"]:
        """Which words are no punctuation."""
        return np.array([not is_punctuation(relation) for relation in self.relations], dtype=bool)

    @cached_property
    def is_scored(self) -> Bool[NDArray[np.bool_], " word"]:
        """Which words count: those with a head, punctuation left out."""
        return self.is_word & (self.heads > NO_HEAD)

    @cached_property
    def _ancestors(self) -> Bool[NDArray[np.bool_], "word other"]:
        """Which others stand on the way from a word to ROOT, itself included."""
        ancestors = np.zeros((len(self), len(self)), dtype=bool)
        for word in range(len(self)):
            ancestor = word
            while ancestor >= 0:
                ancestors[word, ancestor] = True
                ancestor = int(self.heads[ancestor])
        return ancestors

    @cached_property
    def depths(self) -> Float[NDArray[np.float32], " word"]:
        """How many arcs are between each word and the root of the sentence, which has 0."""
        depths: NDArray[np.float32] = self._ancestors.sum(axis=1, dtype=np.float32) - 1
        return depths

    @cached_property
    def distances(self) -> Float[NDArray[np.float32], "word other"]:
        """How many arcs are between two words; two trees are joined in ROOT."""
        ancestors = self._ancestors.astype(np.float32)
        size = ancestors.sum(axis=1)
        distances: NDArray[np.float32] = size[:, None] + size - 2 * (ancestors @ ancestors.T)
        return distances

    @property
    def is_whole(self) -> bool:
        """Whether every word has a head, so that depths and distances are known."""
        return bool((self.heads > NO_HEAD).all())


def keep_words(example: Example, kept: Sequence[int]) -> Sentence:
    """A sentence of these words alone; an arc to a word that is left out has no head."""
    tree = example.tree
    assert tree is not None  # checked when the corpus was opened
    assert example.words is not None
    index_of = {ROOT: ROOT} | {word: index for index, word in enumerate(kept)}
    return Sentence(
        key=example.key,
        document=example.own_document,
        bucket=bucket_of(example),
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

    @property
    def n_documents(self) -> int:
        """How many documents the sentences are of."""
        return len({sentence.document for sentence in self.sentences})

    def hold_out(self, n_sentences: int, seed: int) -> Bool[NDArray[np.bool_], " sentence"]:
        """Which sentences are held out: whole documents, drawn by seed and name until there are so
        many sentences, but not all documents."""
        names = sorted(
            {sentence.document for sentence in self.sentences},
            key=lambda name: np.random.Philox(key=[seed, stable_hash(name)]).random_raw(),
        )
        documents = np.array([sentence.document for sentence in self.sentences])
        is_held_out = np.zeros(len(self), dtype=bool)
        for name in names[:-1]:
            if is_held_out.sum() >= n_sentences:
                break
            is_held_out |= documents == name
        return is_held_out

    def only(self, maps: Sequence[int]) -> "ProbeTreebank":
        """The same with these maps alone."""
        return replace(self, maps=replace(self.maps, chosen=tuple(maps)))

    def take(self, chosen: Int[NDArray[np.int64], " sentence"]) -> "ProbeTreebank":
        """The sentences with these indices."""
        sentences = [self.sentences[i] for i in chosen]
        return replace(self, sentences=sentences, stored_at=self.stored_at[chosen])
