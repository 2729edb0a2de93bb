"""The maps of all heads for one text: small pictures of all, and each in full when asked for.

A map leaves here as roots in 16 bits: weight = (number / 65535)^2, exact to 0.00002 everywhere.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, UInt8
from numpy.typing import NDArray
from torch import Tensor

from headscope.contracts import AttentionSource
from headscope.data.attention import LayerAttention
from headscope.data.encoding import Encoding
from headscope.engine.head_views import refuse_absent_heads
from headscope.engine.measure import refuse_not_finite

__all__ = [
    "KEPT_BYTES",
    "PRECISION",
    "TextMaps",
    "Thumbs",
    "pack_roots",
    "read_maps",
    "shrink",
    "thumb_size",
]  # fmt: skip

PRECISION = 0.00002  # of a weight that was a root in 16 bits
KEPT_BYTES = 600_000_000  # maps that stay in memory; of a longer text one layer does
SIZES = ((300, 64), (1500, 32))  # for at most so many heads, a small map has so many rows
SMALLEST = 16

Check = Callable[[], None]  # raises if nobody waits for the answer any more


@dataclass(frozen=True)
class Thumbs:
    """Small maps of all heads, as roots in 8 bits."""

    size: int  # rows, and columns
    roots: UInt8[NDArray[np.uint8], "layer head query key"]


@dataclass
class TextMaps:
    """One text through one model."""

    source: AttentionSource
    encoding: Encoding
    thumbs: Thumbs
    keeps_all: bool
    _layers: dict[int, Tensor] = field(default_factory=dict, repr=False)  # counted without gaps

    @property
    def n_bytes(self) -> int:
        """What its maps take in memory."""
        return sum(layer.nbytes for layer in self._layers.values())

    def weights(self, layer: int, head: int, check: Check = lambda: None) -> Float[Tensor, "q k"]:
        """The map of one head, by the model's own number of its layer.

        The model runs again where the layer was not kept.
        """
        refuse_absent_heads(self.source, [(layer, head)])
        layer = self.source.layer_numbers.index(layer)
        if layer not in self._layers:

            def keep(attention: LayerAttention) -> None:
                check()
                if attention.layer == layer:
                    self._layers = {layer: attention.weights[0].cpu()}

            self.source.attend(self.source.batch([self.encoding]), keep)
        return self._layers[layer][head]


def read_maps(
    source: AttentionSource, encoding: Encoding, check: Check = lambda: None, first_layer: int = 0
) -> TextMaps:
    """Run the model once over a text. Of a long one, the layer that is shown first is kept, or the
    model's first."""
    n_tokens, n_heads = len(encoding), source.n_layers * source.n_heads
    keeps_all = 4 * n_heads * n_tokens**2 <= KEPT_BYTES
    numbers = source.layer_numbers
    first = numbers.index(first_layer) if first_layer in numbers else 0
    layers: dict[int, Tensor] = {}
    small: list[NDArray[np.uint8]] = []
    size = thumb_size(n_heads, n_tokens)

    def observe(attention: LayerAttention) -> None:
        check()
        refuse_not_finite([(numbers[attention.layer], attention.is_finite())], attention.batch)
        weights = attention.weights[0]  # [head, query, key]
        small.append(shrink(weights, size))
        if keeps_all or attention.layer == first:
            layers[attention.layer] = weights.detach().cpu()

    source.attend(source.batch([encoding]), observe)
    thumbs = Thumbs(small[0].shape[-1], np.stack(small))
    return TextMaps(source, encoding, thumbs, keeps_all, layers)


def thumb_size(n_heads: int, n_tokens: int) -> int:
    """The rows of a small map: the more heads, the fewer.

    >>> thumb_size(72, 12), thumb_size(144, 512), thumb_size(5120, 512)
    (12, 64, 16)
    """
    most = next((rows for heads, rows in SIZES if n_heads <= heads), SMALLEST)
    return min(most, n_tokens)


def shrink(
    weights: Float[Tensor, "head query key"], size: int
) -> UInt8[NDArray[np.uint8], "head row column"]:
    """Attention between blocks of tokens, at most `size` of them, as roots in 8 bits.

    As between words, it is the sum over the block attended to, and the mean over the block that
    attends: rows still sum to 1.
    """
    n_heads, n_tokens, _ = weights.shape
    block = ceil(n_tokens / size)
    n_blocks = ceil(n_tokens / block)
    spare = n_blocks * block - n_tokens
    padded = torch.nn.functional.pad(weights.float(), (0, spare, 0, spare)) if spare else weights
    rows = padded.float().reshape(n_heads, n_blocks, block, -1).sum(dim=2)  # [head, block, key]
    sums = rows.reshape(n_heads, n_blocks, n_blocks, block).sum(dim=-1)  # [head, block, block]
    counts = torch.full((n_blocks, 1), float(block))
    counts[-1] -= spare
    roots = (sums.cpu() / counts).clamp(0, 1).sqrt()
    return _as_numbers(roots, 255, np.uint8)


def pack_roots(weights: Float[Tensor, "..."]) -> bytes:
    """The roots of weights in 16 bits, the low byte first."""
    numbers = _as_numbers(weights.float().clamp(0, 1).sqrt(), 65535, np.uint16)
    return numbers.astype("<u2").tobytes()


def _as_numbers(roots: Tensor, most: int, kind: Any) -> NDArray[Any]:
    rounded: NDArray[Any] = np.rint(roots.cpu().numpy() * most).astype(kind)
    return rounded
