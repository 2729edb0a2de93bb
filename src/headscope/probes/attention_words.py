"""The attention-and-words probe: the weight of a head depends on the two words (section 5).

Each weight of the attention-only probe becomes a linear function of the vectors of the dependent
and the candidate, with a constant. With the functions zero, it is the attention-only probe.
"""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headscope.kernels.arc_loss import N_KINDS
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
        n, seeds = batch.n_words, self.chosen
        vectors, places, root_at = self._vectors(
            batch
        )  # of each word once: [seed, type, dimension]
        by_type = vectors @ self.by_dependent[seeds] + self.constant[seeds][:, None]
        by_other_type = vectors @ self.by_candidate[seeds]  # [seed, type, kind map]
        # [seed, sentence, word, map] for each kind of weight
        of_dependent = by_type[:, places].chunk(N_KINDS, dim=-1)
        of_candidate = by_other_type[:, places].chunk(N_KINDS, dim=-1)
        of_root = by_other_type[:, root_at][:, :, None].chunk(N_KINDS, dim=-1)
        between = batch.maps[:, :, :n]  # [sentence, word, other, map]
        # A cell serves two arcs: its word as dependent (kind 0) and its word as head (kind 1).
        by_word = torch.stack([of_dependent[0], of_candidate[1]], dim=-1)
        by_other = torch.stack([of_candidate[0], of_dependent[1]], dim=-1)
        by_kind = _weigh(between, by_word)  # [seed, sentence, word, other, kind]
        by_kind = by_kind + _weigh(between.transpose(1, 2), by_other).transpose(2, 3)
        scores = by_kind[..., 0] + by_kind[..., 1].transpose(2, 3)
        opening = (batch.maps[:, :, n] * (of_dependent[2] + of_root[2])).sum(-1)
        closing = (batch.maps[:, :, n + 1] * (of_dependent[3] + of_root[3])).sum(-1)
        to_root = (opening + closing + self.root[seeds][:, None, None])[..., None]
        return mask_scores(torch.cat([scores, to_root], dim=-1), batch)

    def _vectors(
        self, batch: SentenceBatch
    ) -> tuple[Tensor, Int[Tensor, "sentence word"], Int[Tensor, " sentence"]]:
        """The vectors of the types in a batch and of ROOT, where each word has its own among them,
        and where ROOT has."""
        types, places = torch.unique(batch.rows, return_inverse=True)
        of_types = self.embedding(types[None], self.chosen)[:, 0]  # [seed, type, dimension]
        vectors = torch.cat([of_types, self.embedding.root[self.chosen][:, None]], dim=1)
        root = torch.full_like(batch.sizes, len(types))
        if not self.compat:
            return vectors, places, root
        is_last = torch.arange(batch.n_words) == batch.sizes[:, None] - 1
        following = torch.where(is_last, len(types), places.roll(-1, dims=1))
        return vectors, following, places[:, 0]


def _weigh(
    maps: Float[Tensor, "sentence word other map"],
    weights: Float[Tensor, "seed sentence word map kind"],
) -> Float[Tensor, "seed sentence word other kind"]:
    """The cells of each word by its weights, of all seeds in one product."""
    side_by_side = weights.permute(1, 2, 3, 0, 4).flatten(3)  # [sentence, word, map, seed kind]
    product = (maps @ side_by_side).reshape(*maps.shape[:3], len(weights), -1)
    return product.permute(3, 0, 1, 2, 4)
