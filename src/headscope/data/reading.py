"""What is read off attention maps, slice by slice, so that no whole map need ever be held.

A reading holds options, never data. For each layer it begins with zeros and adds one slice after
the other: some examples, some of their query rows, and the keys from the first on, as far as these
rows can see. How the maps are cut never changes what is read, but for rounding.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from headscope.data.encoding import TokenKind

__all__ = [
    "OFFSETS", "SUMS", "MapShape", "MapSlice", "Pooled", "PooledReading", "Pooling", "Reading",
    "Sums", "SumsReading", "cut_maps", "is_compiled",
]  # fmt: skip

OFFSETS = (-1, 0, 1)  # the previous, the same and the next token


class MapShape(Protocol):
    """What a reading is told of a layer before its first slice: `LayerAttention` without maps."""

    @property
    def weights(self) -> Tensor:
        """Its shape and type alone count here: [example, head, query, key]."""

    @property
    def batch(self) -> Any: ...

    @property
    def keys(self) -> Any: ...

    @property
    def has_sink(self) -> bool: ...


class MapSlice(NamedTuple):
    """Some rows of the maps of some examples, one after the other; keys that are cut off are 0."""

    weights: Float[Tensor, "example head row key"]
    first_example: int
    first_row: int
    entropy: Float[Tensor, "example head row"] | None = None  # in nats, where it is known already

    @property
    def examples(self) -> slice:
        return slice(self.first_example, self.first_example + len(self.weights))

    @property
    def rows(self) -> slice:
        return slice(self.first_row, self.first_row + self.weights.shape[2])

    def arrays(self) -> tuple[NDArray[np.float32], int, int]:
        """The slice as compiled code takes it."""
        return self.weights.contiguous().numpy(), self.first_example, self.first_row


def is_compiled(weights: Tensor) -> bool:
    """Whether compiled code is at hand for these weights; torch does the rest."""
    return weights.device.type == "cpu" and weights.dtype == torch.float32


class Reading(Hashable, Protocol):
    """Something to read off the maps of a layer. Hashable: analyses share what is equal."""

    def begin(self, layer: MapShape) -> Any:
        """What was read of no slice yet."""

    def add(self, found: Any, part: MapSlice) -> None:
        """Add one slice, in place. Its weights are overwritten by the next: keep none of them."""


class Sums(NamedTuple):
    """The sums that most analyses are made of."""

    entropy: Float[Tensor, "example head query"]  # nats of each row; a learned sink is one more key
    columns: Float[Tensor, "example head kind key"]  # over the rows of each TokenKind
    diagonals: Float[Tensor, "example head offset"]  # over rows, by OFFSETS
    kinds: Tensor  # of the queries, [example, query]
    has_sink: bool


class SumsReading:
    """Entropies, column sums and diagonals in one pass over a slice: compiled on the CPU."""

    def begin(self, layer: MapShape) -> Sums:
        n_examples, n_heads, n_queries, n_keys = layer.weights.shape
        kinds = layer.batch.kinds

        def zeros(*shape: int) -> Tensor:
            return torch.zeros(
                n_examples, n_heads, *shape, dtype=layer.weights.dtype, device=kinds.device
            )

        columns, diagonals = zeros(len(TokenKind), n_keys), zeros(len(OFFSETS))
        return Sums(zeros(n_queries), columns, diagonals, kinds, layer.has_sink)

    def add(self, found: Sums, part: MapSlice) -> None:
        if is_compiled(part.weights):
            from headscope.kernels.map_sums import add_sums  # numba is slow to load

            sums = (found.entropy.numpy(), found.columns.numpy(), found.diagonals.numpy())
            known = None if part.entropy is None else part.entropy.numpy()
            add_sums(*part.arrays(), found.kinds.numpy(), found.has_sink, *sums, known)
        else:
            self._add_in_torch(found, part)

    def _add_in_torch(self, found: Sums, part: MapSlice) -> None:
        weights, kinds = part.weights, found.kinds[part.examples, part.rows]
        n_rows, n_keys = weights.shape[-2:]
        found.entropy[part.examples, :, part.rows] += _entropy(weights, found.has_sink)
        is_kind = torch.stack([kinds == kind for kind in TokenKind], dim=1)  # [example, kind, row]
        found.columns[part.examples, ..., :n_keys] += is_kind[:, None].to(weights.dtype) @ weights
        for place, offset in enumerate(OFFSETS):
            start = part.first_row + offset  # the key of the first row
            if -n_rows < start < n_keys:
                diagonal = weights.diagonal(start, dim1=-2, dim2=-1)
                found.diagonals[part.examples, :, place] += diagonal.sum(-1)


SUMS = SumsReading()


class Pooling(NamedTuple):
    """Which unit each query and each key of a batch belongs to, -1 for none, by example."""

    row_units: Int[Tensor, "example query"]
    row_shares: Float[Tensor, "example query"]  # of a query in the rows of its unit
    key_units: Int[Tensor, "example key"]
    n_units: int
    n_others: int


class Pooled(NamedTuple):
    """Maps between units: rows weighed by their shares, keys summed."""

    weights: Float[Tensor, "example head unit other"]
    pooling: Pooling


@dataclass(frozen=True)
class PooledReading(ABC):
    """Maps between units of tokens, such as words."""

    @abstractmethod
    def pool(self, layer: MapShape) -> Pooling:
        """The units of a batch."""

    def begin(self, layer: MapShape) -> Pooled:
        pooling = layer.batch.remember(self, lambda: self.pool(layer))
        n_examples, n_heads, *_ = layer.weights.shape
        shape = (n_examples, n_heads, pooling.n_units, pooling.n_others)
        device = pooling.key_units.device
        return Pooled(torch.zeros(shape, dtype=layer.weights.dtype, device=device), pooling)

    def add(self, found: Pooled, part: MapSlice) -> None:
        weights, pooling = found.weights, found.pooling
        if is_compiled(part.weights):
            from headscope.kernels.map_sums import add_pooled

            units = (pooling.row_units, pooling.row_shares, pooling.key_units, weights)
            add_pooled(*part.arrays(), *(array.numpy() for array in units))
            return
        n_keys = part.weights.shape[-1]
        rows, keys = pooling.row_units[part.examples, part.rows], pooling.key_units[part.examples]
        shares = pooling.row_shares[part.examples, part.rows].to(part.weights.dtype)
        from_units = _one_hot(rows, pooling.n_units, shares) * shares[..., None]
        to_units = _one_hot(keys[:, :n_keys], pooling.n_others, shares)[:, None]
        weights[part.examples] += from_units.mT[:, None] @ (part.weights @ to_units)


def _one_hot(
    units: Int[Tensor, "example token"], n_units: int, like: Tensor
) -> Float[Tensor, "example token unit"]:
    return (units[..., None] == torch.arange(n_units, device=units.device)).to(like.dtype)


def _entropy(weights: Float[Tensor, "*rows key"], has_sink: bool) -> Float[Tensor, "*rows"]:
    """-sum a ln a over keys; 0 ln 0 is 0. Half the time of `torch.special.entr`, on one copy."""
    logarithms = weights.clamp_min(torch.finfo(weights.dtype).tiny).log_()
    nats = -logarithms.mul_(weights).sum(-1)
    if has_sink:
        nats += torch.special.entr((1 - weights.sum(-1)).clamp_min(0))
    return nats


def cut_maps(weights: Tensor, n_rows: int) -> Iterator[MapSlice]:
    """Whole maps in slices of one example and so many rows."""
    for example in range(len(weights)):
        for first in range(0, weights.shape[2], n_rows):
            rows = weights[example : example + 1, :, first : first + n_rows]
            yield MapSlice(rows, example, first)
