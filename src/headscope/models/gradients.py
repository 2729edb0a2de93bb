"""Gradients of a loss by attention weights, layer by layer, without ever holding a model's maps.

A head's output at query q is o[q] = sum over k of a[q,k] v[k], so d loss / d a[q,k] is the product
of d loss / d o[q] with v[k]. The model runs with its fast attention, which keeps no maps; on the
way back each layer's output gradient is met once, turned into that layer's map, shown and let go.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from headscope.contracts import Watch
from headscope.data.attention import LayerGradient
from headscope.data.encoding import Batch, Encoding
from headscope.errors import ModelError
from headscope.models import tap
from headscope.models.anatomy import eval_mode, is_close
from headscope.models.language import Task
from headscope.models.loaded import LoadedModel, ModelView

__all__ = ["GradientSource", "only_activations"]

WHOLE_NUMBERS = 2**26  # of a layer's map that are shown whole: 256 MB
SLICE_ROWS = 128


@dataclass(frozen=True)
class GradientSource(ModelView):
    """A language model that shows |d loss / d attention|.

    The loss is each example's own mean, so what is shown does not depend on the batch. Layers come
    last first, as the backward pass reaches them.
    """

    emits: ClassVar[Watch] = Watch.GRADIENT
    task: Task
    _is_exact: dict[nn.Module, bool] = field(default_factory=dict, repr=False)  # fast attention

    @property
    def model(self) -> LoadedModel:
        return self.task.source

    def explain_unusable(self, encoding: Encoding) -> str:
        return self.task.explain_unusable(encoding)

    def attend(self, batch: Batch, observe: Callable[[LayerGradient], None]) -> None:
        """Run the model forward and backward and show every layer's gradients, last layer first."""
        model, layers, reached = self.model.model, count(), set[int]()

        def attend(module: nn.Module, *args: Any, **options: Any) -> Tensor:
            output, layer = self._attend_fast(module, *args, **options), next(layers)
            values, mask = tap.values_and_mask(args, options)

            def show(gradient: Tensor) -> None:
                reached.add(layer)
                measured = _measure(layer, gradient, values.detach(), mask, batch)
                products = tap.at_least_float32(gradient) * tap.at_least_float32(output.detach())
                observe(replace(measured, masks=products.sum(dim=(1, 3))))  # [example, head]

            if output.requires_grad:  # a recurrent model may run its first rounds without
                output.register_hook(show)  # type: ignore[no-untyped-call]
            return output

        if why := self.model.explain_fixed():
            raise ModelError(why)
        inputs, targets = self.task.prepare(batch)
        with tap.replaced_attention(model, attend), only_activations(model), torch.enable_grad():
            self.task.losses(inputs, targets).sum().backward()  # type: ignore[no-untyped-call]
        if len(reached) != self.n_layers:
            raise ModelError(
                f"Gradients reached {len(reached)} of the {self.n_layers} layers of {self.name}. "
                "Expected a loss that depends on all of them; leave the analysis out."
            )

    def _attend_fast(self, module: nn.Module, *args: Any, **options: Any) -> Tensor:
        """Fast attention where it does what the model's own function does, which else does it.

        Found at a layer's first batch: it knows no capped scores (Gemma 2), no learned sinks.
        """
        eager = tap.find_eager(type(module))
        if module not in self._is_exact:
            with torch.no_grad():
                given = eager(module, *args, **options)[0]
                try:
                    fast = _fast_attention(module, *args, **options)
                    self._is_exact[module] = is_close(fast, given, given.dtype)
                except Exception:  # it refuses what it knows that it cannot do
                    self._is_exact[module] = False
        if self._is_exact[module]:
            return _fast_attention(module, *args, **options)
        return eager(module, *args, **options)[0]


def _measure(
    layer: int, gradient: Tensor, values: Tensor, mask: Tensor | None, batch: Batch
) -> LayerGradient:
    """The sizes of the gradients of one layer: of its output `gradient[example, query, head, part]`
    with its `values[example, group, key, part]`."""
    gradient, values = tap.at_least_float32(gradient), tap.at_least_float32(values)
    n_tokens, n_heads = gradient.shape[1:3]
    values = values.repeat_interleave(n_heads // values.shape[1], dim=1)
    gradient, values = gradient.transpose(1, 2), values.transpose(-1, -2)
    is_visible = tap.visible_pairs(mask, n_tokens, n_tokens)

    def size_rows(rows: slice) -> Tensor:
        sizes = (gradient[:, :, rows] @ values).abs_()  # [example, head, query, key]
        return sizes if is_visible is None else sizes.masked_fill_(~is_visible[rows], 0)

    if len(gradient) * n_heads * n_tokens**2 <= WHOLE_NUMBERS:
        return LayerGradient(layer, size_rows(slice(None)), batch, is_visible)
    starts = range(0, n_tokens, SLICE_ROWS)
    columns = sum(size_rows(slice(start, start + SLICE_ROWS)).sum(2) for start in starts)
    shape = torch.empty(len(gradient), n_heads, n_tokens, n_tokens, device="meta")
    return LayerGradient(layer, shape, batch, is_visible, torch.as_tensor(columns))


def _fast_attention(module: nn.Module, *args: Any, **options: Any) -> Tensor:
    _, mask = tap.values_and_mask(args, options)
    if mask is None:
        options["is_causal"] = False  # a decoder's mask is always given
    output: Tensor = sdpa_attention_forward(module, *args, **options)[0]
    return output


@contextmanager
def only_activations(model: nn.Module) -> Iterator[None]:
    """Gradients flow from the embeddings on, and to no weight; all is as it was afterwards."""
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    for weight in trained:
        weight.requires_grad_(False)
    hook = model.get_input_embeddings().register_forward_hook(  # type: ignore[operator]
        # a copy, for a model may change it in place, which a leaf does not allow
        lambda module, inputs, output: output.requires_grad_(True).clone()
    )
    try:
        with eval_mode(model):
            yield
    finally:
        hook.remove()
        for weight in trained:
            weight.requires_grad_(True)
