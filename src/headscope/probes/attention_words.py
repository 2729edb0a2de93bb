"""The attention-and-words probe: the weight of a head depends on the two words (section 5).

Each weight of the attention-only probe becomes a linear function of the vectors of the dependent
and the candidate, with a constant. With the functions zero, it is the attention-only probe.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from headscope.kernels.word_pairs import ROOT_TYPE, weigh_arcs, weigh_slopes
from headscope.probes.attention_only import AttentionOnly
from headscope.probes.batches import NeuralScorer, SentenceBatch, mask_scores
from headscope.probes.vectors import WordEmbedding, WordVectors

__all__ = ["AttentionAndWords"]


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
