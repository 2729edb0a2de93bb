"""A model's attention a few rows at a time, so that maps stay in the processor's cache.

The eager function of the model's own file is called for one part of the queries after the other,
with the keys that they may see; a compiled one takes its place where it gives the same.
Whatever the function does, the parts give what the whole gives, or the model is measured whole:
`find_slicing` compares them once. Masks are made part by part as well, where the model file lets a
mask pass that is none yet.
"""

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from math import prod
from typing import Any, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor, nn
from transformers import AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import eager_mask

from headscope.data.reading import MapSlice
from headscope.models import tap
from headscope.models.plain import attend_compiled, attend_in_torch, can_compile, is_plain, wide

__all__ = ["SlicedLayer", "Slicing", "find_slicing", "observe_slices"]

SLICE_NUMBERS = 2**20  # weights of a slice of short examples: 4 MB, for the processor's cache
DEVICE_NUMBERS = 2**26  # at most, on an accelerator, where few large slices are faster
SPARE_SLICES = 16  # of so many slices there is room in its free memory
KEPT_MASK = 2**22  # numbers of a mask that are kept from layer to layer; longer ones are made again
TOLERANCE = 2e-5  # between the parts and the whole, of one layer with scores of usual size
HALF_TOLERANCE = 1e-2

Inputs = Mapping[str, Any]


class Slicing(Enum):
    """How a model's attention can be cut into slices."""

    NONE = "whole"  # it cannot
    ROWS = "rows"  # with a mask for the whole input
    ALL = "rows and masks"


class SlicedLayer(NamedTuple):
    """One layer that is about to be shown."""

    shape: tuple[int, int, int, int]  # example, head, query, key
    dtype: torch.dtype
    visible: Int[Tensor, " query"]
    n_groups: int  # of heads that share their keys


Begin = Callable[[SlicedLayer], Callable[[MapSlice], None]]  # gives what takes the slices
End = Callable[[Tensor], None]  # gets the layer's output, [example, query, head, part]


@dataclass
class RowMask:
    """A mask that is cut, or made, a few rows at a time; the same for all heads and examples."""

    shape: tuple[int, int]  # query, key
    device: torch.device
    tensor: Tensor | None = None  # [example or 1, head or 1, query or 1, key]; None: see all
    recipe: Mapping[str, Any] | None = None  # of `eager_mask`, to make it
    _kept: dict[tuple[int, int], tuple[Tensor | None, int]] = field(default_factory=dict)
    _n_seen: dict[tuple[int, int], int] = field(default_factory=dict)

    # what model files ask a mask for on its way
    ndim = 4

    def to(self, *args: Any, **options: Any) -> "RowMask":
        return self

    def rows(self, first: int, last: int) -> tuple[Tensor | None, int]:
        """The mask of these queries, and how many keys, from the first on, they may see."""
        if (first, last) not in self._kept:
            made = self._make(first, last)
            if self.recipe is None or self.shape[0] * self.shape[1] <= KEPT_MASK:
                self._kept[first, last] = made
            return made
        return self._kept[first, last]

    def visible(self, n_rows: int) -> Int[Tensor, " query"]:
        """How many keys each query may see."""
        n_queries, n_keys = self.shape
        counts = torch.full((n_queries,), n_keys, device=self.device)
        for first in range(0, n_queries, n_rows):
            last = min(first + n_rows, n_queries)
            mask, n_seen = self.rows(first, last)
            if (pairs := tap.visible_pairs(mask, last - first, n_seen)) is not None:
                counts[first:last] = pairs.sum(-1)
        return counts

    def whole(self) -> Tensor | None:
        return self.tensor if self.recipe is None else eager_mask(**self.recipe)

    def _make(self, first: int, last: int) -> tuple[Tensor | None, int]:
        mask = self.tensor
        if self.recipe is not None:
            mask = self._cook(first, last)
        elif mask is not None and mask.shape[-2] > 1:
            mask = mask[:, :, first:last]
        if mask is None:
            return None, self.shape[1]
        if (first, last) not in self._n_seen:
            self._n_seen[first, last] = self._count_keys(mask, first, last)
        n_seen = self._n_seen[first, last]
        return mask[..., :n_seen], n_seen

    def _cook(self, first: int, last: int, **changed: Any) -> Tensor | None:
        assert self.recipe is not None
        offset = self.recipe.get("q_offset", 0) + first
        part = {"batch_size": 1, "q_length": last - first, "q_offset": offset}
        return eager_mask(**{**self.recipe, **part, **changed})

    def _count_keys(self, mask: Tensor | None, first: int, last: int) -> int:
        """How many keys these queries may see, from the first on.

        A device is not asked, as the host would wait for it: the mask is made once more on the CPU,
        without padding, of which there is none. Where that fails, all keys count.
        """
        if mask is not None and mask.device.type != "cpu":
            try:
                mask = self._cook(first, last, device="cpu", attention_mask=None)
            except Exception:  # it is made from tensors on the device, or is one
                return self.shape[1]
        pairs = tap.visible_pairs(mask, last - first, self.shape[1])
        if pairs is None or not pairs.any():
            return self.shape[1]
        return int(pairs.any(0).nonzero()[-1]) + 1


_makes_row_masks: ContextVar[bool] = ContextVar("makes_row_masks", default=False)


def _make_mask(*args: Any, **recipe: Any) -> Any:
    """The mask that a model file asks for: whole, or a recipe for its rows."""
    if args or not _makes_row_masks.get():
        return eager_mask(*args, **recipe)
    if recipe.get("allow_is_bidirectional_skip"):
        few = {"batch_size": 1, "q_length": 1}
        if eager_mask(**{**recipe, **few}) is None:
            return None
    shape = (int(recipe["q_length"]), int(recipe["kv_length"]))
    return RowMask(shape, torch.device(recipe.get("device", "cpu")), recipe=recipe)


AttentionMaskInterface.register(tap.NAME, _make_mask)


def observe_slices(
    model: PreTrainedModel,
    inputs: Inputs,
    slicing: Slicing,
    n_rows: int,
    begin: Begin,
    end: End,
) -> None:
    """Run the model and show every layer slice by slice."""
    masks: dict[int, tuple[Any, RowMask, Tensor]] = {}  # by id; the mask is kept for its id

    def attend(module: nn.Module, *args: Any, **options: Any) -> Tensor:
        call = _read_call(module, args, options)
        size = _size_slices(call, n_rows)
        if id(call.mask) not in masks:
            mask = _as_row_mask(call)
            masks[id(call.mask)] = (call.mask, mask, mask.visible(size.n_rows))
        _, mask, visible = masks[id(call.mask)]
        layer = SlicedLayer(call.shape, wide(call.query.dtype), visible, call.key.shape[1])
        output = _attend_in_slices(call, mask, size, begin(layer))
        end(output)
        return output

    _run(model, inputs, slicing, attend)


def find_slicing(model: PreTrainedModel, inputs: Inputs) -> Slicing:
    """How the model can be cut: with slices of few rows, each layer gives what it gives whole."""
    two = {name: torch.cat([value, value.flip(-1)]) for name, value in inputs.items()}
    for slicing in (Slicing.ALL, Slicing.ROWS):
        try:
            if _gives_the_same(model, two, slicing):
                return slicing
        except Exception:  # any model file may fail here in its own way
            continue
    return Slicing.NONE


def _gives_the_same(model: PreTrainedModel, inputs: Inputs, slicing: Slicing) -> bool:
    is_same: list[bool] = []

    def attend(module: nn.Module, *args: Any, **options: Any) -> Tensor:
        call = _read_call(module, args, options)
        mask = _as_row_mask(call)
        output, weights = call.eager(call.query, call.key, call.value, mask.whole())
        joined = torch.zeros_like(weights, dtype=wide(weights.dtype))

        def take(part: MapSlice) -> None:
            n_keys = part.weights.shape[-1]
            joined[part.examples, :, part.rows, :n_keys] = part.weights

        sliced = _attend_in_slices(call, mask, SliceSize(1, 3), take)
        # How far rounding can move a score, and with it the weight: no score is larger than this.
        longest = [float(vectors.norm(dim=-1).max()) for vectors in (call.query, call.key)]
        largest = prod(longest) * (options.get("scaling") or 1.0)
        rounding = largest * torch.finfo(call.query.dtype).eps
        most = HALF_TOLERANCE if weights.dtype.itemsize < 4 else TOLERANCE + rounding
        for ours, whole in ((joined, weights), (sliced, output)):
            scale = max(1.0, float(whole.abs().max()))
            is_same.append(float((ours - whole).abs().max()) <= most * scale)
        return output

    _run(model, inputs, slicing, attend)
    return bool(is_same) and all(is_same)


def _run(model: PreTrainedModel, inputs: Inputs, slicing: Slicing, attend: tap.Attention) -> None:
    """Run the model with `attend` in place of its attention function, and masks cut as it can."""
    token = _makes_row_masks.set(slicing is Slicing.ALL)
    try:
        with tap.replaced_attention(model, attend), torch.inference_mode():
            model(**inputs)
    finally:
        _makes_row_masks.reset(token)


@dataclass(frozen=True)
class _Call:
    module: nn.Module
    query: Tensor  # [example, head, query, part]
    key: Tensor  # [example, group, key, part]
    value: Tensor
    mask: Any
    rest: tuple[Any, ...]  # what else came by its place
    options: dict[str, Any]
    is_named: bool  # whether the mask came by its name

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return (*self.query.shape[:3], self.key.shape[2])

    def eager(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        function = tap.find_eager(type(self.module))
        if self.is_named:
            options = {**self.options, "attention_mask": mask}
            return function(self.module, query, key, value, **options)
        return function(self.module, query, key, value, mask, *self.rest, **self.options)

    @property
    def plain_scale(self) -> float | None:
        """The scale of its scores, where the attention is the plain one."""
        scale = self.options.get("scaling")
        return scale if is_plain(self.module, self.query, self.key, scale, self.eager) else None


def _read_call(module: nn.Module, args: tuple[Any, ...], options: dict[str, Any]) -> _Call:
    query, key, value, *rest = args
    if rest:
        return _Call(module, query, key, value, rest[0], tuple(rest[1:]), options, False)
    return _Call(module, query, key, value, options.get("attention_mask"), (), options, True)


def _as_row_mask(call: _Call) -> RowMask:
    n_queries, n_keys = call.shape[2:]
    if isinstance(call.mask, RowMask):
        return replace(call.mask, shape=(n_queries, n_keys), device=call.query.device)
    return RowMask((n_queries, n_keys), call.query.device, tensor=call.mask)


class SliceSize(NamedTuple):
    """How many examples and query rows a slice has at most."""

    n_examples: int
    n_rows: int


def _size_slices(call: _Call, n_rows: int) -> SliceSize:
    """Slices of `n_rows`; of more on an accelerator, as many as fit into its memory with ease."""
    n_examples, n_heads, n_queries, n_keys = call.shape
    most, device = SLICE_NUMBERS, call.query.device
    if device.type != "cpu":
        most = min(DEVICE_NUMBERS, _free_bytes(device) // (4 * SPARE_SLICES))
        n_rows = max(n_rows, most // (n_heads * n_keys))
    n_together = most // (n_heads * n_queries * n_keys) if n_queries <= n_rows else 1
    return SliceSize(max(1, min(n_together, n_examples)), n_rows)


def _free_bytes(device: torch.device) -> int:
    """The free memory of an accelerator; where torch does not say it, a gigabyte."""
    ask = getattr(getattr(torch, device.type, None), "mem_get_info", None)
    return int(ask(device)[0]) if ask else 2**30


def _attend_in_slices(
    call: _Call, mask: RowMask, size: SliceSize, take: Callable[[MapSlice], None]
) -> Tensor:
    """What the heads give for all queries, computed and shown slice by slice."""
    n_examples, n_heads, n_queries, n_keys = call.shape
    output, scale, attend = None, call.plain_scale, attend_in_torch
    if scale is not None:
        output = call.query.new_empty(n_examples, n_queries, n_heads, call.value.shape[3])
        if can_compile(call.query, call.key, call.value):
            n_numbers = n_heads * min(size.n_rows, n_queries) * n_keys
            room = call.query.new_empty(min(size.n_examples, n_examples) * n_numbers)
            attend = partial(attend_compiled, room)
    for start in range(0, n_examples, size.n_examples):
        some = slice(start, start + size.n_examples)
        keys, values = call.key[some], call.value[some]
        if scale is None:  # the model's function would copy them for every slice
            keys, values = keys.contiguous(), values.contiguous()
        for first in range(0, n_queries, size.n_rows):
            last = min(first + size.n_rows, n_queries)
            part, n_seen = mask.rows(first, last)
            part = part[some] if part is not None and len(part) > 1 else part
            query = call.query[some, :, first:last]
            key, value = keys[:, :, :n_seen], values[:, :, :n_seen]
            if scale is not None and output is not None:
                weights, entropy = attend(query, key, value, part, scale, output[some, first:last])
                take(MapSlice(weights, start, first, entropy))
                continue
            given, weights = call.eager(query, key, value, part)
            if output is None:
                output = given.new_empty(n_examples, n_queries, *given.shape[2:])
            output[some, first:last] = given
            take(MapSlice(tap.at_least_float32(weights), start, first))
    assert output is not None  # there is a query
    return output
