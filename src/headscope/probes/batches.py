"""Sentences of similar length as padded arrays: what probes score, and what they learn from."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from headscope.data.tree import ROOT
from headscope.probes.treebank import NO_HEAD, ProbeTreebank, Sentence

__all__ = [
    "NeuralScorer", "RowOf", "Scorer", "Scores", "SentenceBatch", "make_batches", "mask_scores",
    "score_sentences",
]  # fmt: skip

BATCH_CELLS = 8192  # about thirty sentences of sixteen words

Scores = Float[Tensor, "sentence word candidate"]  # the last candidate is ROOT
RowOf = Callable[[str], int]  # the row of a word's vector, 0 for unknown words


class Scorer(Protocol):
    """A probe that has learned: scores for every candidate of every word."""

    @property
    def uses_maps(self) -> bool:
        """Whether it reads attention at all."""

    @property
    def n_parameters(self) -> int:
        """How many numbers it has learned; 0 for a fixed rule."""

    def __call__(self, batch: "SentenceBatch") -> Scores: ...


class NeuralScorer(nn.Module):
    """A scorer that is trained by gradient descent (`headscope.probes.train`)."""

    uses_maps: bool

    @property
    def n_parameters(self) -> int:
        return sum(weight.numel() for weight in self.parameters())


@dataclass(frozen=True, eq=False)
class SentenceBatch:
    """Some sentences, padded to the longest; without `maps` for probes that do not read them."""

    maps: Float[Tensor, "sentence word other map"] | None
    rows: Int[Tensor, "sentence word"]  # of each word in the table of vectors, 0 for unknown ones
    heads: Int[Tensor, "sentence word"]  # NO_HEAD for padding
    sizes: Int[Tensor, " sentence"]

    @classmethod
    def pad(
        cls,
        maps: Sequence[Float[Tensor, "word other map"]] | None,
        sentences: Sequence[Sentence],
        row_of: RowOf = lambda word: 0,
    ) -> "SentenceBatch":
        """These sentences with the maps of each."""
        sizes = [len(sentence) for sentence in sentences]
        shape = (len(sizes), max(sizes))
        rows, heads = torch.zeros(shape, dtype=torch.int64), torch.full(shape, NO_HEAD)
        for i, (sentence, n) in enumerate(zip(sentences, sizes, strict=True)):
            rows[i, :n] = torch.tensor([row_of(word) for word in sentence.words])
            heads[i, :n] = torch.from_numpy(sentence.heads)
        padded = _pad_maps(maps, shape[1]) if maps else None
        return cls(padded, rows, heads, torch.tensor(sizes))

    @property
    def n_words(self) -> int:
        """Of the longest sentence."""
        return self.heads.shape[1]

    @property
    def targets(self) -> Int[Tensor, "sentence word"]:
        """Each word's candidate, ROOT being the last; below 0 for words that do not count."""
        return self.heads.masked_fill(self.heads == ROOT, self.n_words)


def mask_scores(scores: Scores, batch: SentenceBatch) -> Scores:
    """The scores, minus infinity for the word itself and for padding."""
    n = batch.n_words
    is_word = torch.arange(n) < batch.sizes[:, None]  # no padding
    is_other = is_word[:, None, :] & ~torch.eye(n, dtype=torch.bool)
    always = torch.ones(len(batch.sizes), n, 1, dtype=torch.bool)
    return scores.masked_fill(~torch.cat([is_other, always], dim=-1), -torch.inf)


def make_batches(
    treebank: ProbeTreebank,
    row_of: RowOf,
    has_maps: bool,
    rng: np.random.Generator | None = None,
) -> Iterator[tuple[NDArray[np.int64], SentenceBatch]]:
    """Batches of similar length with the indices of their sentences; with `rng` in random order."""
    permute = np.arange if rng is None else rng.permutation
    shuffled = permute(len(treebank))
    by_size = shuffled[np.argsort(treebank.sizes[shuffled], kind="stable")]
    groups = list(_group(by_size, treebank.sizes))
    for group in (groups[i] for i in permute(len(groups))):
        stored_at = treebank.stored_at[group]
        maps = [treebank.maps.sentence(int(index)) for index in stored_at] if has_maps else None
        yield group, SentenceBatch.pad(maps, [treebank.sentences[s] for s in group], row_of)


def score_sentences(
    scorer: Scorer, treebank: ProbeTreebank, row_of: RowOf = lambda word: 0
) -> Iterator[tuple[int, Float[NDArray[np.float64], "word candidate"]]]:
    """Each sentence's index and its scores, ROOT last, without padding."""
    with torch.inference_mode():
        for group, batch in make_batches(treebank, row_of, scorer.uses_maps):
            padded = scorer(batch).double().numpy()
            for index, size, scores in zip(group, batch.sizes.tolist(), padded, strict=True):
                yield int(index), scores[:size, [*range(size), batch.n_words]]


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
    for i, cells in enumerate(maps):
        n = len(cells)
        padded[i, :n, :n] = cells[:, :n]
        padded[i, :n, n_words:] = cells[:, n:]
    return padded
