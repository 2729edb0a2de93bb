"""Seeing a model's attention layer by layer, while it runs.

transformers lets a model's attention function be chosen by name. Ours, under the name "headscope",
calls the eager function of the model's own file, shows the weights to an observer and returns no
map, so that one layer's maps are alive at a time and no line here knows a model family. Models
that do not use that interface are asked for `output_attentions` instead.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from logging import getLogger
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import eager_mask

from headscope.errors import ModelError

__all__ = [
    "Observer",
    "Seen",
    "attending_by",
    "find_eager",
    "observe_outputs",
    "observe_tap",
    "visible_keys",
    "visible_pairs",
]


class Seen(NamedTuple):
    """What one layer shows: its weights, and by the tap also the module and its values."""

    weights: Float[Tensor, "example head query key"]
    visible: Int[Tensor, " query"]  # how many keys a query may look at
    module: nn.Module | None = None
    values: Float[Tensor, "example group key part"] | None = None  # heads may share a group's


Observer = Callable[[Seen], None]
Inputs = Mapping[str, Tensor]

NAME = "headscope"
_observer: ContextVar[Observer] = ContextVar("observer")


def observe_tap(model: PreTrainedModel, inputs: Inputs, observe: Observer) -> None:
    """Run the model with our attention function in place of its own."""
    with attending_by(model, NAME), _observed_by(observe), torch.inference_mode():
        model(**inputs)


def observe_outputs(model: PreTrainedModel, inputs: Inputs, observe: Observer) -> None:
    """Run the model and ask for all its maps at once."""
    with attending_by(model, "eager"), torch.inference_mode():
        if model.config._attn_implementation != "eager":
            raise ModelError(
                f"{type(model).__name__} keeps the attention function it was loaded with, which "
                'gives no weights; load it with attn_implementation="eager".'
            )
        maps = model(**inputs, output_attentions=True, return_dict=True).get("attentions")
    for weights in maps or ():
        if weights is None:
            raise ModelError(f"{type(model).__name__} gives no weights for one of its layers.")
        observe(Seen(weights, _visible_in(weights)))


def visible_keys(mask: Tensor | None, n_queries: int, n_keys: int) -> Int[Tensor, " query"]:
    """How many keys each query may look at, by the model's own mask (None: all of them)."""
    pairs = visible_pairs(mask, n_queries, n_keys)
    return torch.full((n_queries,), n_keys) if pairs is None else pairs.sum(-1)


def visible_pairs(
    mask: Tensor | None, n_queries: int, n_keys: int
) -> Bool[Tensor, "query key"] | None:
    """Which keys each query may look at, by the model's own mask; None: all of them."""
    if mask is None:
        return None
    row = mask[0, 0, :n_queries, :n_keys]
    is_visible = row if row.dtype == torch.bool else row > torch.finfo(row.dtype).min / 2
    return is_visible.expand(n_queries, n_keys)  # a mask may have one row for all queries


def _tap_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    **options: Any,
) -> tuple[Tensor, None]:
    eager = find_eager(type(module))
    output, weights = eager(module, query, key, value, mask, **options)
    visible = visible_keys(mask, weights.shape[-2], weights.shape[-1])
    _observer.get()(Seen(weights, visible, module, value))
    return output, None


def find_eager(kind: type[nn.Module]) -> Callable[..., tuple[Tensor, Tensor]]:
    """The eager attention function of the file that defines a module's class."""
    for parent in kind.__mro__:
        found = getattr(sys.modules.get(parent.__module__), "eager_attention_forward", None)
        if callable(found):
            eager: Callable[..., tuple[Tensor, Tensor]] = found
            return eager
    raise ModelError(f"{kind.__name__} has no eager attention function beside it.")


AttentionInterface.register(NAME, _tap_attention)
AttentionMaskInterface.register(NAME, eager_mask)


@contextmanager
def attending_by(model: PreTrainedModel, name: str) -> Iterator[None]:
    """The model with another attention function, and its own again afterwards."""
    before = model.config._attn_implementation
    _set_quietly(model, name)
    try:
        yield
    finally:
        _set_quietly(model, before)


def _set_quietly(model: PreTrainedModel, name: str) -> None:
    if model.config._attn_implementation == name:
        return
    # A model off the interface is not changed and logs a warning; that case is ours to report.
    logger = getLogger(PreTrainedModel.__module__)
    was_disabled, logger.disabled = logger.disabled, True
    try:
        model.set_attn_implementation(name)
    finally:
        logger.disabled = was_disabled


@contextmanager
def _observed_by(observe: Observer) -> Iterator[None]:
    token = _observer.set(observe)
    try:
        yield
    finally:
        _observer.reset(token)


def _visible_in(weights: Tensor) -> Int[Tensor, " query"]:
    """Visible keys where no mask is at hand: as far back and ahead as any query really looks."""
    is_seen = (weights != 0).flatten(0, -3).any(dim=0).fill_diagonal_(True)  # [query, key]
    queries, keys = is_seen.nonzero(as_tuple=True)
    back, ahead = (queries - keys).max(), (keys - queries).max()
    places = torch.arange(is_seen.shape[0], device=weights.device)
    return places.clamp(max=back) + 1 + places.flip(0).clamp(max=ahead)
