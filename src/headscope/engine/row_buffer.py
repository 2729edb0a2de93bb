"""The same query rows of all layers of a batch, copied while the model runs."""

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headscope.data.attention import AttentionRows, choose_rows, spread_heads
from headscope.data.encoding import Batch
from headscope.data.reading import MapShape, MapSlice

__all__ = ["RowBuffer"]


@dataclass(eq=False)
class RowBuffer:
    """A reading that copies the same query rows of every layer; its memory serves all batches.

    It holds `n_rows` rows (or all) of `n_heads` heads a layer (or all), of one batch, however long
    the corpus.
    """

    n_rows: int
    seed: int
    n_layers: int
    n_heads: int
    _memory: Tensor = field(default_factory=lambda: torch.empty(0), repr=False)
    _shown: list[tuple[int, int]] = field(default_factory=list)  # heads kept of how many, a layer

    @property
    def numbers_a_token(self) -> int:
        """How many numbers it holds, at most, for each token of a batch."""
        return self.n_rows * self.n_layers * self.n_heads

    def begin_batch(self) -> None:
        """Make ready for the layers of a batch."""
        self._shown = []

    def begin(self, layer: MapShape) -> "RowBuffer":
        """Make room for the next layer."""
        of_heads = layer.weights.shape[1]
        if not self._shown:
            self._batch, self._has_sink = layer.batch, layer.has_sink
            self._queries = choose_rows(layer.batch, self.n_rows, self.seed)
            self._rows = self._make_room(layer)
        self._heads = spread_heads(of_heads, self.n_heads)
        self._first = sum(kept for kept, _ in self._shown)
        self._shown.append((len(self._heads), of_heads))
        return self

    def add(self, found: "RowBuffer", part: MapSlice) -> None:
        """Copy those of the chosen rows that are in a slice."""
        weights = part.weights
        if len(self._heads) < weights.shape[1]:
            weights = weights.index_select(1, self._find("heads", self._heads))
        n_keys = weights.shape[-1]
        into = self._rows[:, :, self._first : self._first + len(self._heads)]
        for place, example in enumerate(range(part.examples.start, part.examples.stop)):
            rows = self._queries[example]
            low, high = np.searchsorted(rows, [part.rows.start, part.rows.stop])
            if low == high:
                continue
            chosen = self._find((example, part.first_row), rows[low:high] - part.first_row)
            own = weights[place].index_select(1, chosen)  # [head, row, key]
            into[example, low:high, :, :n_keys] = own.transpose(0, 1)
            into[example, low:high, :, n_keys:] = 0
            if self._has_sink:
                missing = (1 - own.sum(-1)).clamp_min(0)  # [head, row]
                into[example, low:high, :, -1] = missing.T

    def _find(self, which: object, places: NDArray[np.int64]) -> Tensor:
        """Places where the batch is: they are the same in every layer, and moved there once."""
        batch: Batch = self._batch
        key = (self, which, len(places))
        return batch.remember(key, lambda: torch.tensor(places, device=batch.device))

    def rows(self) -> AttentionRows:
        """The rows of all layers since the batch began; valid until the next begins."""
        n_heads, of_heads = zip(*self._shown, strict=True)
        used = self._rows[:, :, : sum(n_heads)]  # [example, row, head, key]
        return AttentionRows(used, n_heads, self._batch, of_heads)

    def _make_room(self, layer: MapShape) -> Tensor:
        """A buffer `[example, row, head, key]`: float32, or float64 where the weights are."""
        device, n_keys = layer.batch.device, layer.weights.shape[-1] + layer.has_sink
        shape = (*self._queries.shape, self.n_layers * self.n_heads, n_keys)
        dtype = torch.float64 if layer.weights.dtype == torch.float64 else torch.float32
        size = torch.Size(shape).numel()
        is_fit = self._memory.dtype == dtype and self._memory.device == device
        if not is_fit or len(self._memory) < size:
            self._memory = torch.empty(0)  # let the old go before the new is made
            self._memory = torch.empty(size, dtype=dtype, device=device)
        return self._memory[:size].view(shape)
