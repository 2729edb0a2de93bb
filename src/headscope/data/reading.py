"""What is read off attention maps, slice by slice, so that no whole map need ever be held.

A reading holds options, never data. For each layer it begins with zeros and adds one slice after
the other: some examples, some of their query rows, and the keys from the first on, as far as these
rows can see. How the maps are cut never changes what is read, but for rounding.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from headscope.data.encoding import Batch, TokenKind
from headscope.lazy import Tensor, torch

if TYPE_CHECKING:
    from headscope.data.attention import LayerAttention

__all__ = [
    "MAPS", "OFFSETS", "SUMS", "AnyReading", "ChosenKeys", "DerivedReading", "MapSlice", "MapSums",
    "Pooled", "PooledReading", "Pooling", "Reading", "RowReading", "cut_maps", "is_compiled",
    "stack_layers",
]  # fmt: skip

OFFSETS = (-1, 0, 1)  # the previous, the same and the next token


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


class Reading(ABC):
    """Something to read off the maps of each layer. A frozen dataclass: equal readings are shared.

    It begins with what was read of no slice yet, and adds one slice after the other.
    """

    @abstractmethod
    def begin(self, layer: LayerAttention) -> Any:
        """What was read of no slice yet. The layer's `weights` have a shape, but no numbers."""

    @abstractmethod
    def add(self, total: Any, part: MapSlice) -> None:
        """Add one slice, in place. Its weights are overwritten by the next: keep none of them."""

    def join(self, layers: Sequence[Any]) -> Any:
        """What was read of all layers of a batch: `[example, layer, ...]`."""
        return stack_layers(layers)


@dataclass(frozen=True)
class DerivedReading(ABC):
    """What follows from another reading of a layer, made once the layer is read whole."""

    @property
    @abstractmethod
    def of(self) -> tuple[Reading, ...]:
        """The readings it is made from."""

    @abstractmethod
    def derive(self, layer: LayerAttention) -> Any:
        """A tensor, or a named tuple of tensors, by example first; `layer.read` has the rest."""

    def join(self, layers: Sequence[Any]) -> Any:
        """What was derived of all layers of a batch: `[example, layer, ...]`."""
        return stack_layers(layers)


AnyReading = Reading | DerivedReading


def stack_layers(layers: Sequence[Any]) -> Any:
    """Tensors `[example, ...]` of each layer, or tuples of such, as `[example, layer, ...]`."""
    first = layers[0]
    if isinstance(first, torch.Tensor):
        return torch.stack(list(layers), dim=1)
    return type(first)(*(torch.stack(parts, dim=1) for parts in zip(*layers, strict=True)))


class RowReading(Reading):
    """A number for each row of the maps, which does not depend on other rows."""

    @abstractmethod
    def of_rows(
        self, weights: Float[Tensor, "example head row key"], rows: slice
    ) -> Float[Tensor, "example head row"]:
        """The numbers of these query rows; keys that none of them can see may be cut off."""

    def begin(self, layer: LayerAttention) -> Float[Tensor, "example head query"]:
        weights = layer.weights
        return torch.zeros(weights.shape[:3], dtype=weights.dtype, device=layer.batch.device)

    def add(self, total: Tensor, part: MapSlice) -> None:
        total[part.examples, :, part.rows] = self.of_rows(part.weights, part.rows)


@dataclass(frozen=True)
class ChosenKeys(Reading):
    """The weights that queries give to some chosen keys each."""

    @abstractmethod
    def choose(self, batch: Batch) -> Int[Tensor, "example query choice"]:
        """The keys of each query; -1 where there is none, of which the weight is 0."""

    def keys(self, batch: Batch) -> Int[Tensor, "example query choice"]:
        """What `choose` gives, chosen once for all layers."""
        return batch.remember(self, lambda: self.choose(batch))

    def begin(self, layer: LayerAttention) -> tuple[Tensor, Tensor]:
        keys, weights = self.keys(layer.batch), layer.weights
        shape = (*weights.shape[:3], keys.shape[-1])
        return torch.zeros(shape, dtype=weights.dtype, device=keys.device), keys

    def add(self, total: tuple[Tensor, Tensor], part: MapSlice) -> None:
        picked, keys = total
        keys = keys[part.examples, part.rows]  # [example, row, choice]
        is_seen = (keys >= 0) & (keys < part.weights.shape[-1])
        at = torch.where(is_seen, keys, 0)[:, None].expand(-1, part.weights.shape[1], -1, -1)
        picked[part.examples, :, part.rows] = part.weights.gather(-1, at) * is_seen[:, None]

    def join(
        self, layers: Sequence[tuple[Tensor, Tensor]]
    ) -> Float[Tensor, "example layer head query choice"]:
        return torch.stack([picked for picked, _ in layers], dim=1)


class WholeMaps(Reading):
    """The maps themselves, of one layer after the other: for short inputs alone."""

    def begin(self, layer: LayerAttention) -> Tensor:
        weights = layer.weights
        return torch.zeros(weights.shape, dtype=weights.dtype, device=layer.batch.device)

    def add(self, total: Tensor, part: MapSlice) -> None:
        total[part.examples, :, part.rows, : part.weights.shape[-1]] = part.weights


MAPS = WholeMaps()


class MapSums(NamedTuple):
    """The sums that most analyses are made of; of all layers with the axis layer after example."""

    entropy: Float[Tensor, "example head query"]  # nats of each row; a learned sink is one more key
    columns: Float[Tensor, "example head kind key"]  # over the rows of each TokenKind
    diagonals: Float[Tensor, "example head offset"]  # over rows, by OFFSETS


class _Total(NamedTuple):
    sums: MapSums
    kinds: Tensor  # of the queries, [example, query]
    has_sink: bool


class SumsReading(Reading):
    """Entropies, column sums and diagonals in one pass over a slice: compiled on the CPU."""

    def begin(self, layer: LayerAttention) -> _Total:
        n_examples, n_heads, n_queries, n_keys = layer.weights.shape
        kinds = layer.batch.kinds

        def zeros(*shape: int) -> Tensor:
            return torch.zeros(
                n_examples, n_heads, *shape, dtype=layer.weights.dtype, device=kinds.device
            )

        columns, diagonals = zeros(len(TokenKind), n_keys), zeros(len(OFFSETS))
        return _Total(MapSums(zeros(n_queries), columns, diagonals), kinds, layer.has_sink)

    def add(self, total: _Total, part: MapSlice) -> None:
        if is_compiled(part.weights):
            from headscope.kernels.map_sums import add_sums  # numba is slow to load

            entropy, columns, diagonals = (array.numpy() for array in total.sums)
            known = None if part.entropy is None else part.entropy.numpy()
            kinds, has_sink = total.kinds.numpy(), total.has_sink
            add_sums(*part.arrays(), kinds, has_sink, entropy, columns, diagonals, known)
        else:
            self._add_in_torch(total, part)

    def join(self, layers: Sequence[_Total]) -> MapSums:
        sums: MapSums = stack_layers([layer.sums for layer in layers])
        return sums

    def _add_in_torch(self, total: _Total, part: MapSlice) -> None:
        weights, kinds = part.weights, total.kinds[part.examples, part.rows]
        entropy, columns, diagonals = total.sums
        n_rows, n_keys = weights.shape[-2:]
        entropy[part.examples, :, part.rows] += _entropy(weights, total.has_sink)
        is_kind = torch.stack([kinds == kind for kind in TokenKind], dim=1)  # [example, kind, row]
        columns[part.examples, ..., :n_keys] += is_kind[:, None].to(weights.dtype) @ weights
        for i, offset in enumerate(OFFSETS):
            start = part.first_row + offset  # the key of the first row
            if -n_rows < start < n_keys:
                diagonal = weights.diagonal(start, dim1=-2, dim2=-1)
                diagonals[part.examples, :, i] += diagonal.sum(-1)


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
class PooledReading(Reading):
    """Maps between units of tokens, such as words."""

    @abstractmethod
    def pool(self, layer: LayerAttention) -> Pooling:
        """The units of a batch."""

    def begin(self, layer: LayerAttention) -> Pooled:
        pooling = layer.batch.remember(self, lambda: self.pool(layer))
        n_examples, n_heads, *_ = layer.weights.shape
        shape = (n_examples, n_heads, pooling.n_units, pooling.n_others)
        device = pooling.key_units.device
        return Pooled(torch.zeros(shape, dtype=layer.weights.dtype, device=device), pooling)

    def join(self, layers: Sequence[Pooled]) -> Float[Tensor, "example layer head unit other"]:
        return torch.stack([layer.weights for layer in layers], dim=1)

    def add(self, total: Pooled, part: MapSlice) -> None:
        weights, pooling = total.weights, total.pooling
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
