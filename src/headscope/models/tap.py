"""Observing a model's attention layer by layer, while it runs.

transformers lets a model's attention function be chosen by name. Ours, under the name "headscope",
is the one that `replaced_attention` was given. The tap's calls the eager function of the model's
own file, shows the weights to an observer and returns no map, so that one layer's maps are alive
at a time and no line here knows a model family. Models that do not use that interface are asked
for `output_attentions` instead.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from logging import getLogger
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedModel

from headscope.errors import ModelError

__all__ = [
    "NAME", "Attention", "TapOutput", "at_least_float32", "find_eager", "observe_outputs",
    "observe_tap", "replaced_attention", "using_attention", "values_and_mask", "visible_keys",
    "visible_pairs",
]  # fmt: skip


class TapOutput(NamedTuple):
    """One layer's weights, and by the tap also its module, values and output; float32 or wider."""

    weights: Float[Tensor, "example head query key"]
    visible: Int[Tensor, " query"]  # how many keys a query may look at
    module: nn.Module | None = None
    values: Float[Tensor, "example group key part"] | None = None  # heads may share a group's
    output: Float[Tensor, "example query head part"] | None = None


Observer = Callable[[TapOutput], None]
Inputs = Mapping[str, Tensor]
Attention = Callable[..., Tensor]  # (module, query, key, value, mask, **options) -> output

NAME = "headscope"
_attention: ContextVar[Attention] = ContextVar("attention")


def observe_tap(model: PreTrainedModel, inputs: Inputs, observe: Observer) -> None:
    """Run the model with our attention function in place of its own."""

    def attend(module: nn.Module, *args: Any, **options: Any) -> Tensor:
        output, weights = find_eager(type(module))(module, *args, **options)
        values, mask = values_and_mask(args, options)
        visible = visible_keys(mask, weights)
        parts = (at_least_float32(part) for part in (values, output))
        observe(TapOutput(at_least_float32(weights), visible, module, *parts))
        return output

    with replaced_attention(model, attend), torch.inference_mode():
        model(**inputs)


def observe_outputs(model: PreTrainedModel, inputs: Inputs, observe: Observer) -> None:
    """Run the model and ask for all its maps at once."""
    with using_attention(model, "eager"), torch.inference_mode():
        if model.config._attn_implementation != "eager":
            raise ModelError(
                f"{type(model).__name__} keeps the attention function it was loaded with, which "
                'gives no weights; load it with attn_implementation="eager".'
            )
        maps = model(**inputs, output_attentions=True, return_dict=True).get("attentions")
    for weights in maps or ():
        if weights is None:
            raise ModelError(f"{type(model).__name__} gives no weights for one of its layers.")
        observe(TapOutput(at_least_float32(weights), _visible_in(weights)))


def values_and_mask(
    args: Sequence[Any], options: Mapping[str, Any]
) -> tuple[Tensor, Tensor | None]:
    """The values and the mask that an attention function is called with.

    `args` are query, key, value and the mask, unless it is passed by its name.
    """
    values, *rest = args[2:]
    return values, rest[0] if rest else options.get("attention_mask")


def at_least_float32(numbers: Tensor) -> Tensor:
    """Half precision as float32, for sums would lose digits or overflow; the rest as it is."""
    return numbers.float() if numbers.dtype.itemsize < 4 else numbers


def visible_keys(mask: Tensor | None, weights: Tensor) -> Int[Tensor, " query"]:
    """How many keys each query may look at, by the model's own mask (None: all of them)."""
    n_queries, n_keys = weights.shape[-2:]
    pairs = visible_pairs(mask, n_queries, n_keys)
    if pairs is not None:
        return pairs.sum(-1)
    return torch.full((n_queries,), n_keys, device=weights.device)


def visible_pairs(
    mask: Tensor | None, n_queries: int, n_keys: int
) -> Bool[Tensor, "query key"] | None:
    """Which keys each query may look at, by the model's own mask; None: all of them."""
    if mask is None:
        return None
    row = mask[0, 0, :n_queries, :n_keys]
    is_visible = row if row.dtype == torch.bool else row > torch.finfo(row.dtype).min / 2
    return is_visible.expand(n_queries, n_keys)  # a mask may have one row for all queries


def find_eager(kind: type[nn.Module]) -> Callable[..., tuple[Tensor, Tensor]]:
    """The eager attention function of the file that defines a module's class."""
    for parent in kind.__mro__:
        function = getattr(sys.modules.get(parent.__module__), "eager_attention_forward", None)
        if callable(function):
            eager: Callable[..., tuple[Tensor, Tensor]] = function
            return eager
    raise ModelError(f"{kind.__name__} has no eager attention function in its module.")


AttentionInterface.register(NAME, lambda *args, **given: (_attention.get()(*args, **given), None))


@contextmanager
def replaced_attention(model: PreTrainedModel, attend: Attention) -> Iterator[None]:
    """The model with `attend` in place of its attention function; it gives the output alone."""
    token = _attention.set(attend)
    try:
        with using_attention(model, NAME):
            yield
    finally:
        _attention.reset(token)


@contextmanager
def using_attention(model: PreTrainedModel, name: str) -> Iterator[None]:
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


def _visible_in(weights: Tensor) -> Int[Tensor, " query"]:
    """Visible keys where no mask is at hand: as far back and ahead as any query really looks."""
    has_weight = (weights != 0).flatten(0, -3).any(dim=0).fill_diagonal_(True)  # [query, key]
    queries, keys = has_weight.nonzero(as_tuple=True)
    back, ahead = (queries - keys).max(), (keys - queries).max()
    positions = torch.arange(has_weight.shape[0], device=weights.device)
    return positions.clamp(max=back) + 1 + positions.flip(0).clamp(max=ahead)
