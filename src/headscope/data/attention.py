"""What sources show of a model, and analyses measure: attention, its gradients, changes.

All numbers are float32, or float64 where a source computes so; half precision ends at the source.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from headscope.contracts import AttentionKind
from headscope.data.encoding import Batch, Memory
from headscope.data.reading import AnyReading, MapSlice, Reading
from headscope.lazy import Tensor, torch

__all__ = [
    "AttentionRows", "Changes", "Copying", "Gradients", "HeadSetLosses", "LayerAttention",
    "LayerChange", "LayerCopying", "LayerGradient", "Predictions", "Readings", "choose_rows",
    "head_name", "heads_per_layer", "parse_head_name", "spread_heads",
]  # fmt: skip

OWN_STREAM = 2**63  # apart from other draws, whose seeds are below


def head_name(layer: int, head: int) -> str:
    """A head's name as people read it: 1-based, layer first.

    >>> head_name(7, 9)
    '8-10'
    """
    return f"{layer + 1}-{head + 1}"


def parse_head_name(name: str) -> tuple[int, int] | None:
    """The layer and head that a name means, counted from 0; None for what is no such name.

    >>> parse_head_name("8-10"), parse_head_name("0-1"), parse_head_name("1-" + "9" * 5000)
    ((7, 9), None, None)
    """
    match = re.fullmatch(r"\s*([1-9][0-9]{0,8})-([1-9][0-9]{0,8})\s*", name)
    return (int(match[1]) - 1, int(match[2]) - 1) if match else None


@dataclass(frozen=True, eq=False)
class LayerAttention(Memory):
    """The maps of one layer for a batch; `weights[example, head, query, key]` sums to 1 over keys.

    `visible[query]` is how many keys a query may look at: all of them in an encoder, those up to
    itself in a decoder, a window where attention is local. In a model that `has_sink` (gpt-oss),
    rows sum to less than 1: the rest goes to a learned sink, which is no token. Queries are the
    tokens of `batch`, and so are keys; but those of cross attention are the tokens of `key_batch`.

    Whole maps are shown only if an analysis needs them. Otherwise they were read slice by slice
    while the model ran: then `weights` has a shape but no numbers, and `read` returns what was
    read.
    """

    layer: int  # its place among the layers that are shown; `layer_numbers` has the model's own
    weights: Float[Tensor, "example head query key"]
    batch: Batch
    visible: Int[Tensor, " query"]
    has_sink: bool = False
    kind: AttentionKind | None = None  # of an encoder-decoder that is measured whole
    key_batch: Batch | None = None
    readings: Mapping[Reading, Any] = field(default_factory=dict)  # what was read in slices
    finite: Bool[Tensor, " example"] | None = None  # where there are no weights to look at
    n_layers: int = 1  # how many layers are shown in all
    n_groups: int = 0  # of heads that share their keys; 0: not known

    def read(self, reading: AnyReading) -> Any:
        """What a reading finds in the maps of this layer."""
        if reading in self.readings:
            return self.readings[reading]  # type: ignore[index]
        if isinstance(reading, Reading):
            return self.remember(reading, lambda: self._read_whole(reading))
        return self.remember(reading, lambda: reading.derive(self))

    @classmethod
    def full(cls, layer: int, weights: Tensor, batch: Batch) -> LayerAttention:
        """Attention in which every query may look at every key."""
        n_queries, n_keys = weights.shape[-2:]
        return cls(layer, weights, batch, torch.full((n_queries,), n_keys, device=weights.device))

    @property
    def n_tokens(self) -> int:
        """How many tokens of each example are attended to."""
        return self.weights.shape[-1]

    @property
    def reach(self) -> tuple[Tensor, Tensor]:
        """How many tokens back and ahead a query may look at most; a decoder looks 0 ahead.

        They stay where the model is, so that a device need not wait for the host.
        """
        return self.visible[-1] - 1, self.visible[0] - 1

    def with_sink(self) -> Float[Tensor, "example head query target"]:
        """The weights, and where the model has a learned sink, its share as one more key."""
        if not self.has_sink:
            return self.weights
        missing = (1 - self.weights.sum(-1, keepdim=True)).clamp_min(0)
        return torch.cat([self.weights, missing], dim=-1)

    @property
    def n_queries(self) -> int:
        """How many tokens of each example attend; `n_tokens`, but in cross attention."""
        return self.weights.shape[-2]

    @property
    def keys(self) -> Batch:
        """The tokens that are attended to."""
        return self.key_batch or self.batch

    def is_finite(self) -> Bool[Tensor, " example"]:
        return _is_finite(self.weights) if self.finite is None else self.finite

    def _read_whole(self, reading: Reading) -> Any:
        total = reading.begin(self)
        reading.add(total, MapSlice(self.weights, 0, 0))
        return total


class Predictions(NamedTuple):
    """How well a language model that reads from left to right predicts each token.

    The first token is not predicted: its loss is 0.
    """

    losses: Float[Tensor, "example token"]  # in nats
    is_best: Bool[Tensor, "example token"]  # no other token is more probable


@dataclass(frozen=True, eq=False)
class Readings:
    """What was read off the maps of all layers of a batch.

    `readings[SUMS].entropy` is `[example, layer, head, query]`: every array has the axis layer
    after the example. Queries are the tokens of `batch`, keys those of `keys`; `visible` says how
    many keys a query may look at. `predictions` are there for an analysis that `predicts`, if the
    model has a language-modelling head and reads from left to right.
    """

    batch: Batch
    keys: Batch
    visible: Int[Tensor, "layer query"]
    has_sink: bool
    values: Mapping[AnyReading, Any]
    predictions: Predictions | None = None
    n_groups: int = 0  # of heads that share their keys; 0: not known

    def __getitem__(self, reading: AnyReading) -> Any:
        return self.values[reading]

    def __len__(self) -> int:
        """How many examples there are."""
        return len(self.batch)

    @property
    def n_queries(self) -> int:
        """How many tokens of each example attend."""
        return self.batch.n_tokens

    def ones(self) -> Float[Tensor, " example"]:
        """1 for each example, as it is counted."""
        return torch.ones(len(self.batch), device=self.batch.device)


@dataclass(frozen=True, eq=False)
class LayerGradient:
    """The sizes of the gradients of a loss by the weights of one layer.

    `is_visible[query, key]` says which pairs have a weight at all (None: all of them). For a long
    input there are no whole maps: then `sizes` has only a shape, and `columns` has the sums.
    """

    layer: int
    sizes: Float[Tensor, "example head query key"]
    batch: Batch
    is_visible: Bool[Tensor, "query key"] | None = None
    columns: Float[Tensor, "example head key"] | None = None
    masks: Float[Tensor, "example head"] | None = None  # by a factor of the head's output, at 1

    def column_sums(self) -> Float[Tensor, "example head key"]:
        """The sizes summed over queries."""
        return self.sizes.sum(2) if self.columns is None else self.columns

    def without_maps(self) -> LayerGradient:
        """The sums alone."""
        return replace(self, sizes=self.sizes.to("meta"), columns=self.column_sums())

    def is_finite(self) -> Bool[Tensor, " example"]:
        return _is_finite(self.sizes if self.columns is None else self.columns)


@dataclass(frozen=True, eq=False)
class Gradients:
    """The sizes of the gradients of a loss by the weights of all layers, summed over queries.

    `masks` are the gradients by a factor of each head's whole output, at 1 (head masks).
    """

    sizes: Float[Tensor, "example layer head key"]
    seen_by: Float[Tensor, "layer key"]  # how many queries may look at a key
    batch: Batch
    masks: Float[Tensor, "example layer head"]

    @classmethod
    def join(cls, layers: Sequence[LayerGradient]) -> Gradients:
        """All layers of a batch."""
        sizes = torch.stack([layer.column_sums() for layer in layers], dim=1)
        seen_by = [
            torch.full_like(sizes[0, 0, 0], layer.sizes.shape[-2])
            if layer.is_visible is None
            else layer.is_visible.sum(dim=0).to(sizes)
            for layer in layers
        ]
        masks = [torch.zeros_like(sizes[:, 0, :, 0]) if m is None else m for m in
                 (layer.masks for layer in layers)]  # fmt: skip
        return cls(sizes, torch.stack(seen_by), layers[0].batch, torch.stack(masks, dim=1))


@dataclass(frozen=True, eq=False)
class LayerChange:
    """How much each example's output changes when each head of a layer is altered in each way.

    `effect` says what is compared: the "loss" of a language model, or the "cosine" between the
    final hidden states and those of the unchanged model (the change is then 1 - cosine).
    """

    layer: int
    changes: Float[Tensor, "example head mode"]  # 0 where a head was not altered
    is_measured: Bool[Tensor, " head"]
    base: Float[Tensor, " example"]  # the answer of the model as it is
    effect: str
    batch: Batch

    def without_maps(self) -> LayerChange:
        """All of it: a change is no map."""
        return self

    def is_finite(self) -> Bool[Tensor, " example"]:
        return _is_finite(self.changes)


@dataclass(frozen=True, eq=False)
class Changes:
    """How much each example's output changes when each head is altered in each way."""

    changes: Float[Tensor, "example layer head mode"]  # 0 where a head was not altered
    is_measured: Bool[Tensor, "layer head"]
    base: Float[Tensor, " example"]
    effect: str
    batch: Batch

    @classmethod
    def join(cls, layers: Sequence[LayerChange]) -> Changes:
        """All layers of a batch."""
        first = layers[0]
        changes = torch.stack([layer.changes for layer in layers], dim=1)
        is_measured = torch.stack([layer.is_measured for layer in layers])
        return cls(changes, is_measured, first.base, first.effect, first.batch)


@dataclass(frozen=True, eq=False)
class LayerCopying:
    """What heads would add to the logit of a token if they attended to it alone.

    `above` is how many of `n_sample` other words of the vocabulary get a higher logit from it than
    the token itself, `below` how many a lower one.
    """

    layer: int
    above: Float[Tensor, "example head token"]
    below: Float[Tensor, "example head token"]
    n_sample: int
    batch: Batch

    def without_maps(self) -> LayerCopying:
        """All of it: there are no maps."""
        return self

    def is_finite(self) -> Bool[Tensor, " example"]:
        return _is_finite(self.above)


@dataclass(frozen=True, eq=False)
class Copying:
    """The same of all layers."""

    above: Float[Tensor, "example layer head token"]
    below: Float[Tensor, "example layer head token"]
    n_sample: int
    batch: Batch

    @classmethod
    def join(cls, layers: Sequence[LayerCopying]) -> Copying:
        """All layers of a batch."""
        above, below = (
            torch.stack(parts, dim=1)
            for parts in zip(*((layer.above, layer.below) for layer in layers), strict=True)
        )
        return cls(above, below, layers[0].n_sample, layers[0].batch)


@dataclass(frozen=True, eq=False)
class HeadSetLosses:
    """The losses of tokens without sets of heads, each of which was switched off at once."""

    losses: Float[Tensor, "example set token"]  # in nats; that of the first token is 0
    is_best: Bool[Tensor, "example set token"]  # no other token is more probable
    sets: Bool[Tensor, "set layer head"]  # none in the first
    batch: Batch
    layer: int = 0

    def without_maps(self) -> HeadSetLosses:
        """All of it: there are no maps."""
        return self

    def is_finite(self) -> Bool[Tensor, " example"]:
        return _is_finite(self.losses)


@dataclass(frozen=True, eq=False)
class AttentionRows:
    """The same query rows of all heads; `weights[example, row, head, key]` sums to 1 over keys.

    Heads are in the order of layers; `n_heads[layer]` says how many each layer has here. If these
    are not all heads of the model, `of_heads[layer]` says how many the layer really has, and
    `spread_heads` which of them are included. A learned sink is one more key, the last.
    """

    weights: Float[Tensor, "example row head key"]
    n_heads: tuple[int, ...]
    batch: Batch
    of_heads: tuple[int, ...] | None = None


def heads_per_layer(n_heads: int, n_layers: int, max_heads: int) -> int:
    """How many heads of each layer are compared where at most `max_heads` are in all."""
    return min(n_heads, max(1, max_heads // n_layers))


def spread_heads(n_heads: int, n_chosen: int) -> Int[np.ndarray, " chosen"]:
    """So many heads of a layer, spread evenly over it; all where there are not more.

    >>> spread_heads(8, 3).tolist(), spread_heads(2, 3).tolist()
    ([0, 2, 5], [0, 1])
    """
    n_chosen = min(n_chosen, n_heads)
    return np.arange(n_chosen) * n_heads // max(n_chosen, 1)


def choose_rows(batch: Batch, n_rows: int, seed: int) -> Int[np.ndarray, "example row"]:
    """At most `n_rows` queries of each example in order, drawn by the seed and the example's id."""
    n_tokens = batch.n_tokens
    if n_tokens <= n_rows:
        return np.broadcast_to(np.arange(n_tokens), (len(batch), n_tokens))
    chosen = np.empty((len(batch), n_rows), dtype=np.int64)
    for i, encoding in enumerate(batch.encodings):
        bits = np.random.Philox(key=[seed + OWN_STREAM, encoding.example.key])
        drawn = np.random.Generator(bits).choice(n_tokens, n_rows, replace=False)
        chosen[i] = np.sort(drawn)
    return chosen


def _is_finite(values: Float[Tensor, "example ..."]) -> Bool[Tensor, " example"]:
    """Which examples have neither a NaN nor an infinite number: these would stay in the sum."""
    return torch.isfinite(values.flatten(1).sum(dim=1))
