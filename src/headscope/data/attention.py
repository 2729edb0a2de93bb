"""The attention of one layer over one batch: what every analysis measures."""

import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headscope.data.encoding import Batch, remember

__all__ = ["LayerAttention", "head_name", "parse_head_name"]

T = TypeVar("T")


def head_name(layer: int, head: int) -> str:
    """A head's name as people read it: 1-based, layer first.

    >>> head_name(7, 9)
    '8-10'
    """
    return f"{layer + 1}-{head + 1}"


def parse_head_name(name: str) -> tuple[int, int] | None:
    """The layer and head that a name means, counted from 0; None for what is no such name.

    >>> parse_head_name("8-10"), parse_head_name("0-1"), parse_head_name("8x10")
    ((7, 9), None, None)
    """
    found = re.fullmatch(r"\s*([1-9][0-9]*)-([1-9][0-9]*)\s*", name)
    return (int(found[1]) - 1, int(found[2]) - 1) if found else None


@dataclass(frozen=True, eq=False)
class LayerAttention:
    """The maps of one layer for a batch; `weights[example, head, query, key]` sums to 1 over keys.

    `visible[query]` is how many keys a query may look at: all of them in an encoder, those up to
    itself in a decoder, a window where attention is local. Gradients of a loss come in the same
    form: `weights` are then their sizes, and `is_visible` says which pairs have one (None: all).
    """

    layer: int
    weights: Float[Tensor, "example head query key"]
    batch: Batch
    visible: Int[Tensor, " query"]
    is_visible: Bool[Tensor, "query key"] | None = None
    _memory: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def full(cls, layer: int, weights: Tensor, batch: Batch) -> "LayerAttention":
        """Attention in which every query may look at every key."""
        n_tokens = weights.shape[-1]
        return cls(layer, weights, batch, torch.full((n_tokens,), n_tokens, device=weights.device))

    def remember(self, key: Hashable, build: Callable[[], T]) -> T:
        """What `build` gives, built once for the layer, where several analyses need the same."""
        return remember(self._memory, key, build)

    @property
    def n_tokens(self) -> int:
        """How many tokens each example has."""
        return self.weights.shape[-1]
