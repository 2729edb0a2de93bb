"""The same query rows of all layers of a batch, copied while the model runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from headscope.contracts import AttentionKind
from headscope.data.attention import (
    AttentionRows,
    LayerAttention,
    choose_rows,
    heads_per_layer,
    spread_heads,
)
from headscope.data.encoding import Batch
from headscope.data.reading import MapSlice, Reading
from headscope.lazy import Tensor, torch

__all__ = ["SampledRows"]


Kind = AttentionKind | None  # the layers of an encoder-decoder's kinds come in turn


@dataclass(eq=False)
class LayerRows:
    """Where the rows of one layer are copied to."""

    rows: Float[Tensor, "example row head key"]  # those of all layers
    first: int  # the place of this layer's first head among them
    heads: Int[NDArray[np.int64], " head"]  # of the layer, those that are kept
    of_heads: int
    queries: Int[NDArray[np.int64], "example row"]
    batch: Batch
    has_sink: bool

    @property
    def end(self) -> int:
        """The place after this layer's last head."""
        return self.first + len(self.heads)


@dataclass(frozen=True)
class SampledRows(Reading):
    """At most `n_rows` query rows of each example, the same in every layer and head.

    Of a model of more than `max_heads` heads so many are kept, evenly spread over each layer. One
    buffer serves all batches: its size depends on the longest batch, not on the corpus.
    """

    n_rows: int
    max_heads: int
    seed: int = 0
    _buffers: dict[Kind, Tensor] = field(default_factory=dict, compare=False, repr=False)
    _layers: dict[Kind, list[LayerRows]] = field(default_factory=dict, compare=False, repr=False)

    def numbers_per_token(self, n_layers: int, n_heads: int, max_tokens: int) -> int:
        """How many numbers are kept, at most, for each token of a batch."""
        kept = heads_per_layer(n_heads, n_layers, self.max_heads)
        return min(self.n_rows, max_tokens) * n_layers * kept

    def begin(self, layer: LayerAttention) -> LayerRows:
        """Make room for the next layer."""
        of_heads = layer.weights.shape[1]
        n_heads = heads_per_layer(of_heads, layer.n_layers, self.max_heads)
        heads = spread_heads(of_heads, n_heads)
        if layer.layer == 0:
            self._layers[layer.kind] = []
        before = self._layers[layer.kind]
        queries = before[0].queries if before else choose_rows(layer.batch, self.n_rows, self.seed)
        first = before[-1].end if before else 0
        rows = self._make_room(layer, queries.shape, first, len(heads))
        made = LayerRows(rows, first, heads, of_heads, queries, layer.batch, layer.has_sink)
        before.append(made)
        return made

    def add(self, total: LayerRows, part: MapSlice) -> None:
        """Copy those of the chosen rows that are in a slice."""
        weights = part.weights
        if len(total.heads) < weights.shape[1]:
            weights = weights.index_select(1, self._on_device(total, "heads", total.heads))
        n_keys = weights.shape[-1]
        target = total.rows[:, :, total.first : total.end]
        for i, example in enumerate(range(part.examples.start, part.examples.stop)):
            queries = total.queries[example]
            low, high = np.searchsorted(queries, [part.rows.start, part.rows.stop])
            if low == high:
                continue
            within = queries[low:high] - part.first_row
            chosen = self._on_device(total, (example, part.first_row), within)
            copied = weights[i].index_select(1, chosen)  # [head, row, key]
            target[example, low:high, :, :n_keys] = copied.transpose(0, 1)
            target[example, low:high, :, n_keys:] = 0
            if total.has_sink:
                missing = (1 - copied.sum(-1)).clamp_min(0)  # [head, row]
                target[example, low:high, :, -1] = missing.T

    def join(self, layers: Sequence[LayerRows]) -> AttentionRows:
        """The rows of all layers; valid until the next batch begins."""
        n_heads = tuple(len(layer.heads) for layer in layers)
        of_heads = tuple(layer.of_heads for layer in layers)
        used = layers[-1].rows[:, :, : layers[-1].end]  # [example, row, head, key]
        return AttentionRows(used, n_heads, layers[0].batch, of_heads)

    def _on_device(self, total: LayerRows, which: object, numbers: NDArray[np.int64]) -> Tensor:
        """Indices where the batch is: they are the same in every layer, and moved there once."""
        batch = total.batch
        key = (self, which, len(numbers))
        return batch.remember(key, lambda: torch.tensor(numbers, device=batch.device))

    def _make_room(
        self, layer: LayerAttention, shape: tuple[int, ...], first: int, n_heads: int
    ) -> Tensor:
        """A buffer `[example, row, head, key]`: float32, or float64 where the weights are."""
        before = self._layers[layer.kind]
        if before and first + n_heads <= before[-1].rows.shape[2]:
            return before[-1].rows
        device, n_keys = layer.batch.device, layer.weights.shape[-1] + layer.has_sink
        dtype = torch.float64 if layer.weights.dtype == torch.float64 else torch.float32
        n_all = first + n_heads * max(1, layer.n_layers - layer.layer)
        size = torch.Size((*shape, n_all, n_keys)).numel()
        memory = torch.empty(0) if before else self._buffers.pop(layer.kind, torch.empty(0))
        if memory.dtype != dtype or memory.device != device or len(memory) < size:
            memory = torch.empty(0)  # let the old go before the new is made
            memory = torch.empty(size, dtype=dtype, device=device)
        self._buffers[layer.kind] = memory
        room = memory[:size].view(*shape, n_all, n_keys)
        if before:  # a second model has more heads a layer than the first
            room[:, :, :first] = before[-1].rows[:, :, :first]
        return room
