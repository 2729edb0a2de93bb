"""The attention-and-words probe: the weight of a head depends on the two words (section 5).

Each weight of the attention-only probe becomes a linear function of the vectors of the dependent
and the candidate, with a constant. With the functions zero, it is the attention-only probe.
"""

import numpy as np
import torch
from torch import Tensor, nn

from headscope.kernels.arc_loss import N_KINDS
from headscope.probes.attention_only import AttentionOnly
from headscope.probes.batches import NeuralScorer, Scores, SentenceBatch, mask_scores
from headscope.probes.vectors import WordEmbedding, WordVectors

__all__ = ["AttentionAndWords"]


class AttentionAndWords(NeuralScorer):
    """Head weights from word vectors; ROOT has a learned vector of its own.

    With `compat`, vectors are shifted by one, as in the paper's released code: ROOT gets the first
    word's, every word the next one's, and the last word ROOT's.
    """

    uses_maps = True

    def __init__(
        self, vectors: WordVectors, start: AttentionOnly, seed: int = 0, compat: bool = False
    ) -> None:
        super().__init__()
        n_weights = start.weights.size
        self.compat = compat
        self.embedding = WordEmbedding(vectors, seed)
        self.by_dependent = nn.Parameter(torch.zeros(vectors.dimension, n_weights))
        self.by_candidate = nn.Parameter(torch.zeros(vectors.dimension, n_weights))
        self.constant = nn.Parameter(torch.from_numpy(start.weights.astype(np.float32)).flatten())
        self.root = nn.Parameter(torch.tensor(start.root, dtype=torch.float32))

    def forward(self, batch: SentenceBatch) -> Scores:
        """The scores of every candidate, ROOT last."""
        assert batch.maps is not None
        n = batch.n_words
        words, root = self._vectors(batch)  # [sentence, word, dimension], [sentence, dimension]
        of_dependent = self._split(words @ self.by_dependent + self.constant)
        of_candidate = self._split(words @ self.by_candidate)
        of_root = self._split((root @ self.by_candidate)[:, None])
        between = batch.maps[:, :, :n]  # [sentence, word, other, map]
        # A cell serves two arcs: its word as dependent (kind 0) and its word as head (kind 1).
        by_word = torch.stack([of_dependent[0], of_candidate[1]], dim=-1)
        by_other = torch.stack([of_candidate[0], of_dependent[1]], dim=-1)
        by_kind = between @ by_word  # [sentence, word, other, kind]
        by_kind = by_kind + (between.transpose(1, 2) @ by_other).transpose(1, 2)
        scores = by_kind[..., 0] + by_kind[..., 1].transpose(1, 2)
        opening = (batch.maps[:, :, n] * (of_dependent[2] + of_root[2])).sum(-1)
        closing = (batch.maps[:, :, n + 1] * (of_dependent[3] + of_root[3])).sum(-1)
        to_root = (opening + closing + self.root)[..., None]
        return mask_scores(torch.cat([scores, to_root], dim=-1), batch)

    def _vectors(self, batch: SentenceBatch) -> tuple[Tensor, Tensor]:
        words = self.embedding(batch.rows)
        root = self.embedding.root.expand(len(words), -1)
        if not self.compat:
            return words, root
        following = torch.cat([words[:, 1:], words[:, :1]], dim=1)
        is_last = torch.arange(batch.n_words) == batch.sizes[:, None] - 1
        return torch.where(is_last[..., None], root[:, None], following), words[:, 0]

    def _split(self, weights: Tensor) -> tuple[Tensor, ...]:
        """The weights of each kind: [sentence, word, map]."""
        return weights.chunk(N_KINDS, dim=-1)
