"""Sentences of similar length as padded arrays: what probes score, and what they learn from."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from headscope.data.example import ROOT
from headscope.probes.treebank import NO_HEAD, ProbeTreebank, Sentence

__all__ = [
    "NeuralScorer", "RowOf", "Scorer", "Scores", "SeedSums", "SentenceBatch", "make_batches",
    "mask_scores", "score_sentences",
]  # fmt: skip

BATCH_CELLS = 8192  # about thirty sentences of sixteen words

Scores = Float[Tensor, "sentence word candidate"]  # the last candidate is ROOT
RowOf = Callable[[str], int]  # the row of a word's vector, 0 for unknown words
SeedSums = tuple[Float[Tensor, "seed sentence"], Int[Tensor, " sentence"]]


class Scorer:
    """A probe that has learned: scores for every candidate of every word."""

    uses_maps: bool  # whether it reads attention at all
    n_parameters: int  # how many numbers it has learned; 0 for a fixed rule
    hidden_layer: int | None = None  # whose hidden states it reads, if any
    needs_sharpness: bool = False  # its scores are no logarithms of chances, up to a constant

    def __call__(self, batch: "SentenceBatch") -> Scores:
        raise NotImplementedError


class NeuralScorer(nn.Module, Scorer):
    """Scorers of one kind that are trained by gradient descent side by side, one for each seed.

    The first axis of each weight is the seed. As no weight meets that of another seed, they learn
    what each would learn alone, but sentences are read once for all.
    """

    rate = 0.002  # of learning

    def __init__(self, seeds: Sequence[int]) -> None:
        super().__init__()
        self.seeds = tuple(seeds)
        self.chosen = slice(None)  # the seeds that score

    @property
    def n_parameters(self) -> int:  # type: ignore[override]
        return sum(weight[0].numel() for weight in self.parameters())

    @contextmanager
    def only(self, place: int) -> Iterator[None]:
        """The seed at this place alone takes part."""
        self.chosen = slice(place, place + 1)
        try:
            yield
        finally:
            self.chosen = slice(None)

    def of_seeds(self, weight: Tensor) -> Float[Tensor, "seed ..."]:
        """The weights of the seeds that score; of all, without a copy of their gradient."""
        return weight if self.chosen == slice(None) else weight[self.chosen]

    def forward(self, batch: "SentenceBatch") -> Float[Tensor, "seed sentence word candidate"]:
        raise NotImplementedError

    def losses(self, batch: "SentenceBatch") -> SeedSums:
        """What is to become small, by seed and sentence, and how many words it is the sum of."""
        is_arc = batch.heads > NO_HEAD
        chances = self(batch).log_softmax(-1)  # [seed, sentence, word, candidate]
        targets = batch.targets.clamp(min=0).expand(chances.shape[:3])[..., None]
        gold = chances.gather(-1, targets)[..., 0].masked_fill(~is_arc, 0.0)
        return -gold.sum(-1), is_arc.sum(-1)

    def grades(self, batch: "SentenceBatch") -> SeedSums:
        """What is to become large on held-out sentences: right heads, of words that are scored."""
        is_right = self(batch).argmax(-1) == batch.targets  # [seed, sentence, word]
        return (is_right & batch.is_scored).sum(-1).double(), batch.is_scored.sum(-1)


@dataclass(frozen=True, eq=False)
class SentenceBatch:
    """Some sentences, padded to the longest; without `maps` for probes that do not read them."""

    maps: Float[Tensor, "sentence word other map"] | None
    rows: Int[Tensor, "sentence word"]  # of each word in the table of vectors, 0 for unknown ones
    heads: Int[Tensor, "sentence word"]  # NO_HEAD for padding
    sizes: Int[Tensor, " sentence"]
    sentences: Sequence[Sentence]
    hidden: Float[Tensor, "sentence word dimension"] | None = None

    @classmethod
    def pad(
        cls,
        maps: Sequence[Float[Tensor, "word other map"]] | None,
        sentences: Sequence[Sentence],
        row_of: RowOf = lambda word: 0,
        hidden: Sequence[Float[Tensor, "word dimension"]] | None = None,
    ) -> "SentenceBatch":
        """These sentences with the maps of each."""
        sizes = [len(sentence) for sentence in sentences]
        shape = (len(sizes), max(sizes))
        rows, heads = torch.zeros(shape, dtype=torch.int64), torch.full(shape, NO_HEAD)
        for i, (sentence, n) in enumerate(zip(sentences, sizes, strict=True)):
            rows[i, :n] = torch.tensor([row_of(word) for word in sentence.words])
            heads[i, :n] = torch.from_numpy(sentence.heads)
        padded = _pad_maps(maps, shape[1]) if maps else None
        vectors = None
        if hidden:
            vectors = torch.zeros(*shape, hidden[0].shape[-1])
            for i, states in enumerate(hidden):
                vectors[i, : len(states)] = states
        return cls(padded, rows, heads, torch.tensor(sizes), sentences, vectors)

    @property
    def n_words(self) -> int:
        """Of the longest sentence."""
        return self.heads.shape[1]

    @property
    def is_inside(self) -> Bool[Tensor, "sentence word"]:
        """Which words are no padding."""
        return torch.arange(self.n_words) < self.sizes[:, None]

    @property
    def is_scored(self) -> Bool[Tensor, "sentence word"]:
        """Which words have a head and are no punctuation."""
        is_scored = torch.zeros(self.heads.shape, dtype=torch.bool)
        for i, sentence in enumerate(self.sentences):
            is_scored[i, : len(sentence)] = torch.from_numpy(sentence.is_scored)
        return is_scored

    @property
    def targets(self) -> Int[Tensor, "sentence word"]:
        """Each word's candidate, ROOT being the last; below 0 for words that do not count."""
        return self.heads.masked_fill(self.heads == ROOT, self.n_words)


def mask_scores(scores: Scores, batch: SentenceBatch) -> Scores:
    """The scores, minus infinity for the word itself and for padding."""
    n = batch.n_words
    is_other = batch.is_inside[:, None, :] & ~torch.eye(n, dtype=torch.bool)
    always = torch.ones(len(batch.sizes), n, 1, dtype=torch.bool)
    return scores.masked_fill(~torch.cat([is_other, always], dim=-1), -torch.inf)


def make_batches(
    treebank: ProbeTreebank,
    row_of: RowOf,
    has_maps: bool,
    rng: np.random.Generator | None = None,
    hidden_layer: int | None = None,
) -> Iterator[tuple[NDArray[np.int64], SentenceBatch]]:
    """Batches of similar length with the indices of their sentences; with `rng` in random order."""
    permute = np.arange if rng is None else rng.permutation
    shuffled = permute(len(treebank))
    by_size = shuffled[np.argsort(treebank.sizes[shuffled], kind="stable")]
    groups = list(_group(by_size, treebank.sizes))
    for group in (groups[i] for i in permute(len(groups))):
        stored_at = treebank.stored_at[group]
        maps = [treebank.maps.sentence(int(index)) for index in stored_at] if has_maps else None
        hidden = None
        if hidden_layer is not None:
            hidden = [treebank.maps.hidden(int(index), hidden_layer) for index in stored_at]
        yield group, SentenceBatch.pad(maps, [treebank.sentences[s] for s in group], row_of, hidden)


def score_sentences(
    scorer: Scorer, treebank: ProbeTreebank, row_of: RowOf = lambda word: 0
) -> Iterator[tuple[int, Float[NDArray[np.float64], "word candidate"]]]:
    """Each sentence's index and its scores, by the first seed, ROOT last, without padding."""
    with torch.inference_mode():
        layer = scorer.hidden_layer
        for group, batch in make_batches(treebank, row_of, scorer.uses_maps, hidden_layer=layer):
            padded = scorer(batch).double().numpy()
            padded = padded.reshape(-1, *padded.shape[-3:])[0]
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
    padded = torch.empty(len(maps), n_words, n_words + 2, maps[0].shape[-1])
    for i, cells in enumerate(maps):
        n = len(cells)
        padded[i, n:] = padded[i, :n, n:n_words] = 0.0
        padded[i, :n, :n] = cells[:, :n]
        padded[i, :n, n_words:] = cells[:, n:]
    return padded
