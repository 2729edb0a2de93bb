"""Frozen word vectors inside a probe that learns."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headscope.probes.vectors import UNKNOWN, WordVectors

__all__ = ["Embedding"]

SPREAD = 0.1  # of learned vectors before they learn


class Embedding(nn.Module):
    """Rows of the frozen table; one learned vector for unknown words and one for ROOT."""

    table: Tensor

    def __init__(self, vectors: WordVectors, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        learned = SPREAD * torch.randn(2, vectors.dimension, generator=generator)
        self.register_buffer("table", torch.from_numpy(vectors.table), persistent=False)
        self.unknown = nn.Parameter(learned[0])
        self.root = nn.Parameter(learned[1])

    def forward(self, rows: Int[Tensor, "*place"]) -> Float[Tensor, "*place dimension"]:
        """The vectors of these rows."""
        return torch.where((rows == UNKNOWN)[..., None], self.unknown, self.table[rows])
