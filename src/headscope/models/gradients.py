"""Gradients of a loss by attention weights, layer by layer, without ever holding a model's maps.

A head's output at query q is o[q] = sum over k of a[q,k] v[k], so d loss / d a[q,k] is the product
of d loss / d o[q] with v[k]. The model runs with its fast attention, which keeps no maps; on the
way back each layer's output gradient is met once, turned into that layer's map, shown and let go.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import count
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import eager_mask

from headscope.data.attention import LayerAttention
from headscope.data.encoding import Batch
from headscope.errors import ModelError
from headscope.models.language import Task
from headscope.models.loaded import LoadedModel
from headscope.models.seen import SeenModel
from headscope.models.tap import attending_by, find_eager, visible_keys, visible_pairs

__all__ = ["GradientSource", "only_activations"]

NAME = "headscope-gradient"

Watch = Callable[[Tensor, Tensor, Tensor | None], None]  # output, values, mask
_watch: ContextVar[Watch] = ContextVar("watch")


@dataclass(frozen=True)
class GradientSource(SeenModel):
    """A language model that shows |d loss / d attention| where others show attention.

    The loss is each example's own mean, so what is shown does not depend on the batch. Layers come
    last first, as the way back meets them.
    """

    task: Task

    @property
    def model(self) -> LoadedModel:
        return self.task.source

    def attend(self, batch: Batch, observe: Callable[[LayerAttention], None]) -> None:
        """Run the model forth and back and show every layer's gradients, last layer first."""
        model, layers, seen = self.model.model, count(), set[int]()

        def watch(output: Tensor, values: Tensor, mask: Tensor | None) -> None:
            layer = next(layers)

            def show(gradient: Tensor) -> None:
                seen.add(layer)
                observe(_measure(layer, gradient, values.detach(), mask, batch))

            output.register_hook(show)  # type: ignore[no-untyped-call]

        inputs, targets = self.task.prepare(batch)
        token = _watch.set(watch)
        try:
            with attending_by(model, NAME), only_activations(model), torch.enable_grad():
                self.task.losses(inputs, targets).sum().backward()  # type: ignore[no-untyped-call]
        finally:
            _watch.reset(token)
        if len(seen) != self.n_layers:
            raise ModelError(
                f"Gradients reached {len(seen)} of the {self.n_layers} layers of {self.name}. "
                "Expected a model whose attention goes through transformers' AttentionInterface; "
                "leave the analysis 'gradient' out."
            )


def _measure(
    layer: int, gradient: Tensor, values: Tensor, mask: Tensor | None, batch: Batch
) -> LayerAttention:
    """The sizes of the gradients of one layer: of its output `gradient[example, query, head, part]`
    with its `values[example, group, key, part]`."""
    n_tokens, n_heads = gradient.shape[1:3]
    values = values.repeat_interleave(n_heads // values.shape[1], dim=1)
    sizes = (gradient.transpose(1, 2) @ values.transpose(-1, -2)).abs_()  # [ex., head, query, key]
    is_visible = visible_pairs(mask, n_tokens, n_tokens)
    if is_visible is not None:
        sizes.masked_fill_(~is_visible, 0)
    visible = visible_keys(mask, n_tokens, n_tokens).to(sizes.device)
    return LayerAttention(layer, sizes, batch, visible, is_visible)


def _watched_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    **options: Any,
) -> tuple[Tensor, None]:
    # What fast attention cannot do (Gemma's capped scores) the model's own function does.
    is_plain = options.get("softcap") is None
    attend = sdpa_attention_forward if is_plain else find_eager(type(module))
    if mask is None and is_plain:
        options["is_causal"] = False  # a decoder's mask is always given
    output = attend(module, query, key, value, mask, **options)[0]
    _watch.get()(output, value, mask)
    return output, None


AttentionInterface.register(NAME, _watched_attention)
AttentionMaskInterface.register(NAME, eager_mask)


@contextmanager
def only_activations(model: nn.Module) -> Iterator[None]:
    """Gradients flow from the embeddings on, and to no weight; all is as it was afterwards."""
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    training = [module for module in model.modules() if module.training]
    for weight in trained:
        weight.requires_grad_(False)
    model.eval()
    hook = model.get_input_embeddings().register_forward_hook(  # type: ignore[operator]
        lambda module, inputs, output: output.requires_grad_(True)
    )
    try:
        yield
    finally:
        hook.remove()
        for weight in trained:
            weight.requires_grad_(True)
        for module in training:
            module.training = True
