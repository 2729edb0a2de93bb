"""All layers of a batch side by side, for analyses that compare them: rows in one buffer."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from headscope.data.attention import LayerAttention
from headscope.data.encoding import Batch
from headscope.data.rows import AttentionRows, choose_rows

__all__ = ["RowBuffer"]


@dataclass
class RowBuffer:
    """Copies the same query rows of every layer as it runs; its memory serves batch after batch.

    It holds `n_rows` rows (or all) of every head of one batch, however long the corpus.
    """

    n_rows: int
    seed: int
    most_heads: int  # of all layers together
    _memory: Tensor = field(default_factory=lambda: torch.empty(0), repr=False)
    _n_heads: list[int] = field(default_factory=list)

    def begin(self, batch: Batch) -> None:
        """Make ready for the layers of a batch."""
        self._batch, self._queries = batch, choose_rows(batch, self.n_rows, self.seed)
        self._n_heads = []

    def put(self, attention: LayerAttention) -> None:
        """Copy the chosen rows of the next layer."""
        if not self._n_heads:
            self._rows = self._make_room(attention.weights)
        weights = attention.weights.transpose(1, 2)  # [example, query, head, key]
        if self._queries.shape[1] < attention.n_tokens:
            examples = torch.arange(len(weights), device=weights.device)[:, None]
            weights = weights[examples, self._queries]  # [example, row, head, key]
        first = sum(self._n_heads)
        self._n_heads.append(weights.shape[2])
        self._rows[:, :, first : first + weights.shape[2]] = weights

    def rows(self) -> AttentionRows:
        """The rows of all layers since the batch began; valid until the next begins."""
        used = self._rows[:, :, : sum(self._n_heads)]  # [example, row, head, key]
        return AttentionRows(used, tuple(self._n_heads), self._batch)

    def _make_room(self, weights: Tensor) -> Tensor:
        """A buffer `[example, row, head, key]`: float32, or float64 where the weights are."""
        shape = (*self._queries.shape, self.most_heads, weights.shape[-1])
        dtype = torch.float64 if weights.dtype == torch.float64 else torch.float32
        size = torch.Size(shape).numel()
        is_fit = self._memory.dtype == dtype and self._memory.device == weights.device
        if not is_fit or len(self._memory) < size:
            self._memory = torch.empty(0)  # let the old go before the new is made
            self._memory = torch.empty(size, dtype=dtype, device=weights.device)
        return self._memory[:size].view(shape)
