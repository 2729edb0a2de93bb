"""Probes that read words: attention-and-words (section 5), and nets over words alone.

In attention-and-words each weight of the attention-only probe becomes a linear function of the
vectors of the dependent and the candidate, with a constant. With the functions zero, it is the
attention-only probe.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from headscope.kernels.word_pairs import (
    ROOT_TYPE,
    pair_scores,
    pair_slopes,
    weigh_arcs,
    weigh_slopes,
)
from headscope.probes.attention_only import AttentionOnly
from headscope.probes.batches import NeuralScorer, SentenceBatch, mask_scores
from headscope.probes.vectors import WordEmbedding, WordVectors

__all__ = ["AttentionAndWords", "WordNet", "offset_features"]


class AttentionAndWords(NeuralScorer):
    """Head weights from word vectors; ROOT has a learned vector of its own.

    With `compat`, vectors are shifted by one, as in the paper's released code: ROOT gets the first
    word's, every word the next one's, and the last word ROOT's.
    """

    uses_maps = True

    def __init__(
        self,
        vectors: WordVectors,
        start: AttentionOnly,
        seeds: Sequence[int] = (0,),
        compat: bool = False,
    ) -> None:
        super().__init__(seeds)
        n_seeds, n_weights = len(self.seeds), start.weights.size
        constant = torch.from_numpy(start.weights.astype(np.float32)).flatten()
        self.compat = compat
        self.embedding = WordEmbedding(vectors, seeds)
        self.by_dependent = nn.Parameter(torch.zeros(n_seeds, vectors.dimension, n_weights))
        self.by_candidate = nn.Parameter(torch.zeros(n_seeds, vectors.dimension, n_weights))
        self.constant = nn.Parameter(constant.repeat(n_seeds, 1))
        self.root = nn.Parameter(torch.full((n_seeds,), start.root, dtype=torch.float32))

    def forward(self, batch: SentenceBatch) -> Float[Tensor, "seed sentence word candidate"]:
        """The scores of every candidate, ROOT last."""
        assert batch.maps is not None
        types, places = self.embedding.find_types(batch.rows)
        by_dependent, by_candidate = map(self.of_seeds, (self.by_dependent, self.by_candidate))
        of_dependent = self.embedding.project(types, by_dependent, self.chosen)
        of_dependent = of_dependent + self.constant[self.chosen][:, None]  # [seed, type, kind map]
        of_head = self.embedding.project(types, by_candidate, self.chosen)
        roots = torch.full_like(batch.sizes, ROOT_TYPE)
        if self.compat:
            is_last = torch.arange(batch.n_words) == batch.sizes[:, None] - 1
            roots = places[:, 0].contiguous()
            places = torch.where(is_last, ROOT_TYPE, places.roll(-1, dims=1))
        given = (batch.maps, of_dependent, of_head, places, roots, batch.sizes)
        scores = _WeighArcs.apply(*given)  # type: ignore[no-untyped-call]
        constant = torch.zeros(batch.n_words + 1)
        constant[-1] = 1.0
        return mask_scores(scores + self.root[self.chosen][:, None, None, None] * constant, batch)


class _WeighArcs(torch.autograd.Function):
    """The compiled scores as a function that torch can differentiate by the weights."""

    @staticmethod
    def forward(context: Any, maps: Tensor, *given: Tensor) -> Tensor:
        of_dependent, of_head = (part.detach().contiguous() for part in given[:2])
        context.save_for_backward(maps, of_dependent, of_head, *given[2:])
        n = maps.shape[1]
        scores = of_head.new_zeros(len(of_head), len(maps), n, n + 1)
        parts = (maps, of_dependent, of_head, *given[2:], scores)
        weigh_arcs(*(part.numpy() for part in parts))
        return scores

    @staticmethod
    def backward(context: Any, by_scores: Tensor) -> Any:
        maps, of_dependent, of_head, *places = context.saved_tensors
        slopes = torch.zeros_like(of_dependent), torch.zeros_like(of_head)
        parts = (maps, *places, by_scores.contiguous(), *slopes)
        weigh_slopes(*(part.numpy() for part in parts))
        return None, *slopes, None, None, None


N_UNITS = 256
NEAR = 3  # distances that have a feature of their own
N_FEATURES = 2 * (NEAR + 1) + 1


class WordNet(NeuralScorer):
    """One hidden layer over the vectors of dependent and candidate, and optionally the distance.

    The distance has indicators for the nearest words and its logarithm, ahead and behind apart;
    ROOT has an indicator of its own and no distance.
    """

    uses_maps = False
    rate = 0.005  # with that of the other probes it learns too slowly for so few epochs

    def __init__(
        self, vectors: WordVectors, has_distances: bool, seeds: Sequence[int] = (0,)
    ) -> None:
        super().__init__(seeds)
        self.has_distances = has_distances
        self.embedding = WordEmbedding(vectors, seeds)
        shapes = {"dependent": vectors.dimension, "candidate": vectors.dimension, "out": N_UNITS}
        shapes |= {"distance": N_FEATURES} if has_distances else {}
        drawn = [_draw(shapes, seed) for seed in seeds]
        self.weights = nn.ParameterDict(
            {name: torch.stack([of_seed[name] for of_seed in drawn]) for name in drawn[0]}
        )

    def forward(self, batch: SentenceBatch) -> Float[Tensor, "seed sentence word candidate"]:
        """The scores of every candidate, ROOT last."""
        weights = {name: self.of_seeds(weight) for name, weight in self.weights.items()}
        types, places = self.embedding.find_types(batch.rows)
        of_word = self.embedding.project(types, weights["dependent"], self.chosen)
        of_word = of_word + weights["bias"][:, None]  # [seed, type, unit]
        of_candidate = self.embedding.project(types, weights["candidate"], self.chosen)
        features = offset_features(batch.n_words)
        if self.has_distances:
            of_offset = features @ weights["distance"]  # [seed, offset, unit]
        else:
            of_offset = features.new_zeros(len(of_word), len(features), N_UNITS)
        parts = (of_word, of_candidate, of_offset, weights["out"], places, batch.sizes)
        scores = _PairScores.apply(*parts)  # type: ignore[no-untyped-call]
        return mask_scores(scores, batch)


def _draw(shapes: dict[str, int], seed: int) -> dict[str, Tensor]:
    """First weights, uniform within one over the root of the inputs, as torch's linear layers."""
    generator = torch.Generator().manual_seed(seed)
    sizes = {name: (n, N_UNITS) for name, n in shapes.items()} | {"out": (N_UNITS,)}
    sizes |= {"bias": (N_UNITS,)}
    inputs = shapes | {"bias": shapes["dependent"]}
    return {
        name: (2 * torch.rand(size, generator=generator) - 1) / inputs[name] ** 0.5
        for name, size in sizes.items()
    }


def offset_features(n_words: int) -> Float[Tensor, "offset feature"]:
    """Indicators of near words and log distance, behind and ahead, of a candidate `offset` words
    on (row `n_words + offset`); the last row is ROOT's, which has an indicator of its own."""
    offset = torch.arange(-n_words, n_words)
    features = torch.zeros(2 * n_words + 1, N_FEATURES)
    for side, distance in enumerate((-offset, offset)):
        first = side * (NEAR + 1)
        for near in range(NEAR):
            features[:-1, first + near] = (distance == near + 1).float()
        features[:-1, first + NEAR] = distance.clamp(min=1).float().log()
    features[-1, -1] = 1.0
    return features


class _PairScores(torch.autograd.Function):
    """The compiled scores of pairs as a function that torch can differentiate by what stands before
    the places."""

    @staticmethod
    def forward(context: Any, *given: Tensor) -> Tensor:
        parts = [part.detach().contiguous() for part in given]
        context.save_for_backward(*parts)
        n_sentences, n_words = parts[-2].shape
        scores = torch.zeros(len(parts[0]), n_sentences, n_words, n_words + 1)
        pair_scores(*(part.numpy() for part in (*parts, scores)))
        return scores

    @staticmethod
    def backward(context: Any, by_scores: Tensor) -> Any:
        *parts, out, places, sizes = context.saved_tensors
        slopes = [torch.zeros_like(part) for part in parts]
        given = (*parts, places, sizes, by_scores.contiguous(), *slopes)
        pair_slopes(*(array.numpy() for array in given))
        # a unit that is on adds its parts to the score, times `out`
        by_out = sum((p * s).sum(1) for p, s in zip(parts, slopes, strict=True))  # [seed, unit]
        return (*(slope * out[:, None] for slope in slopes), by_out, None, None)
