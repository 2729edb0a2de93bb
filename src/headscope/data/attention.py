"""The attention of one layer over one batch: what every analysis measures."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headscope.data.encoding import Batch

__all__ = ["LayerAttention", "head_name"]


def head_name(layer: int, head: int) -> str:
    """A head's name as people read it: 1-based, layer first.

    >>> head_name(7, 9)
    '8-10'
    """
    return f"{layer + 1}-{head + 1}"


@dataclass(frozen=True, eq=False)
class LayerAttention:
    """The maps of one layer for a batch; `weights[example, head, query, key]` sums to 1 over keys.

    `visible[query]` is how many keys a query may look at: all of them in an encoder, those up to
    itself in a decoder, a window where attention is local.
    """

    layer: int
    weights: Float[Tensor, "example head query key"]
    batch: Batch
    visible: Int[Tensor, " query"]

    @classmethod
    def full(cls, layer: int, weights: Tensor, batch: Batch) -> "LayerAttention":
        """Attention in which every query may look at every key."""
        n_tokens = weights.shape[-1]
        return cls(layer, weights, batch, torch.full((n_tokens,), n_tokens, device=weights.device))

    @property
    def n_tokens(self) -> int:
        """How many tokens each example has."""
        return self.weights.shape[-1]
