"""Sentences of like length as padded arrays: what probes score, and what they learn from."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from headscope.probes.treebank import NO_HEAD, ProbeTreebank, Sentence

__all__ = ["Batch", "Scorer", "Scores", "make_batches", "mask_scores", "score_sentences"]

BATCH_CELLS = 8192  # about thirty sentences of sixteen words

Scores = Float[Tensor, "sentence word candidate"]  # the last candidate is ROOT
WordRows = Mapping[str, int]


class Scorer(Protocol):
    """A probe that has learned: scores for every candidate of every word."""

    @property
    def uses_maps(self) -> bool:
        """Whether it looks at attention at all."""

    @property
    def n_parameters(self) -> int: ...

    def __call__(self, batch: "Batch") -> Scores: ...


@dataclass(frozen=True, eq=False)
class Batch:
    """Some sentences, padded to the longest. `maps` is absent for probes that do not look at it."""

    maps: Float[Tensor, "sentence word other map"] | None
    rows: Int[Tensor, "sentence word"]  # of each word in the table of vectors, 0 for unknown ones
    heads: Int[Tensor, "sentence word"]  # NO_HEAD for padding
    sizes: Int[Tensor, " sentence"]

    @classmethod
    def of(
        cls,
        maps: Sequence[Float[Tensor, "word other map"]] | None,
        sentences: Sequence[Sentence],
        row_of: Callable[[str], int] = lambda word: 0,
    ) -> "Batch":
        """These sentences with the maps of each."""
        n_words = max(map(len, sentences))
        rows = torch.zeros(len(sentences), n_words, dtype=torch.int64)
        heads = torch.full((len(sentences), n_words), NO_HEAD)
        for i, sentence in enumerate(sentences):
            rows[i, : len(sentence)] = torch.tensor([row_of(word) for word in sentence.words])
            heads[i, : len(sentence)] = torch.from_numpy(sentence.heads)
        padded = None if maps is None else _pad_maps(maps, n_words)
        return cls(padded, rows, heads, torch.tensor([len(sentence) for sentence in sentences]))

    @property
    def n_words(self) -> int:
        """Of the longest sentence."""
        return self.heads.shape[1]

    @property
    def targets(self) -> Int[Tensor, "sentence word"]:
        """Each word's candidate, ROOT being the last; below 0 for words that do not count."""
        is_root = self.heads == -1
        return torch.where(is_root, torch.full_like(self.heads, self.n_words), self.heads)

    @property
    def is_word(self) -> Bool[Tensor, "sentence word"]:
        """Where there is no padding."""
        return torch.arange(self.n_words) < self.sizes[:, None]


def mask_scores(scores: Scores, batch: Batch) -> Scores:
    """The same, with no chance for a word itself and for padding."""
    n = batch.n_words
    is_other = batch.is_word[:, None, :] & ~torch.eye(n, dtype=torch.bool)
    always = torch.ones(len(batch.sizes), n, 1, dtype=torch.bool)
    return scores.masked_fill(~torch.cat([is_other, always], dim=-1), -torch.inf)


def make_batches(
    treebank: ProbeTreebank,
    row_of: Callable[[str], int],
    has_maps: bool,
    rng: np.random.Generator | None = None,
) -> Iterator[tuple[NDArray[np.int64], Batch]]:
    """Batches of like length with the places of their sentences; with `rng` in random order."""
    n = len(treebank)
    shuffled = np.arange(n) if rng is None else rng.permutation(n)
    by_size = shuffled[np.argsort(treebank.sizes[shuffled], kind="stable")]
    groups = list(_group(by_size, treebank.sizes))
    for i in range(len(groups)) if rng is None else rng.permutation(len(groups)):
        group = groups[i]
        places = treebank.places[group]
        maps = [treebank.maps.sentence(int(p)) for p in places] if has_maps else None
        yield group, Batch.of(maps, [treebank.sentences[s] for s in group], row_of)


def score_sentences(
    scorer: Scorer, treebank: ProbeTreebank, row_of: Callable[[str], int] = lambda word: 0
) -> Iterator[tuple[int, Float[NDArray[np.float64], "word candidate"]]]:
    """Each sentence's place and its scores, ROOT last, without padding."""
    with torch.inference_mode():
        for group, batch in make_batches(treebank, row_of, scorer.uses_maps):
            scores = scorer(batch).double().numpy()
            for place, size, one in zip(group, batch.sizes.tolist(), scores, strict=True):
                candidates = [*range(size), batch.n_words]
                yield int(place), one[:size, candidates]


def _group(by_size: NDArray[np.int64], sizes: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Neighbours whose padded cells stay within a batch (or one sentence)."""
    first = 0
    for end in range(1, len(by_size) + 1):
        if end < len(by_size):
            n = int(sizes[by_size[end]])  # the longest so far
            if (end + 1 - first) * n * (n + 2) <= BATCH_CELLS:
                continue
        yield by_size[first:end]
        first = end


def _pad_maps(maps: Sequence[Tensor], n_words: int) -> Float[Tensor, "sentence word other map"]:
    """In single precision; the two special cells stand after the longest sentence's words."""
    padded = torch.zeros(len(maps), n_words, n_words + 2, maps[0].shape[-1])
    for i, one in enumerate(maps):
        n = len(one)
        padded[i, :n, :n] = one[:, :n]
        padded[i, :n, n_words:] = one[:, n:]
    return padded
