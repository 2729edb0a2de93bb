"""What becomes of a model's answer when a head is switched off, layer by layer.

Copies of a batch, each with another head of one layer altered, run side by side. What lies below
the layer is the same for all of them, so where the model's layers are a plain list they are not run
again: what entered the layer is kept from the run of the model as it is.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from itertools import count, product
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask

from headscope.data.change import LayerChange
from headscope.data.encoding import Batch, TokenKind
from headscope.models.answers import Answers
from headscope.models.loaded import LoadedModel, evaluating
from headscope.models.prefix import Prefix, find_layers
from headscope.models.seen import SeenModel
from headscope.models.tap import Seen, attending_by, find_eager, observe_tap

__all__ = ["MODES", "AblationSource", "mean_outputs"]

NAME = "headscope-ablation"
MODES = ("zero", "mean", "sink")

Head = tuple[int, int]  # layer, head, from 0
Copy = tuple[int, str]  # head, mode
Alter = Callable[[Tensor, Tensor, Tensor], Tensor]  # output, weights, values -> output

_alter: ContextVar[Alter] = ContextVar("alter")


@dataclass(frozen=True)
class AblationSource(SeenModel):
    """A model that shows, layer by layer, what each head's absence changes.

    "zero" takes the head's output away, "mean" puts its `means[layer, head, part]` over the corpus
    in its place, "sink" moves its attention to closing tokens ([SEP]; in an input without them, to
    the first token) to the other tokens in proportion.
    """

    answers: Answers
    means: Float[Tensor, "layer head part"]
    heads: Collection[Head] | None = None  # None: all
    most_tokens: int = 8192  # of all copies that run side by side

    @property
    def model(self) -> LoadedModel:
        return self.answers.source

    def attend(self, batch: Batch, observe: Callable[[LayerChange], None]) -> None:
        """Run the model as it is, then with each head altered, and show every layer's changes."""
        model, asked = self.model.model, self.answers.ask(batch)
        prefix = Prefix(self._plain_layers)
        with attending_by(model, NAME), evaluating(model), torch.inference_mode():
            with _altering(lambda layer, output, weights, values: output), prefix.recording():
                before = self.answers.answer(asked)
            for layer in range(self.n_layers):
                observe(self._change_layer(layer, batch, asked, before, prefix))

    def _change_layer(
        self, layer: int, batch: Batch, asked: dict[str, Tensor], before: Tensor, prefix: Prefix
    ) -> LayerChange:
        heads = [h for h in range(self.n_heads) if self.heads is None or (layer, h) in self.heads]
        copies: list[Copy] = list(product(heads, MODES))
        changes = torch.zeros(len(batch), self.n_heads, len(MODES), device=batch.device)
        n_copies = max(1, self.most_tokens // (len(batch) * batch.n_tokens))
        for first in range(0, len(copies), n_copies):
            some = copies[first : first + n_copies]
            changed = self._run(layer, some, batch, asked, before, prefix)  # [copy, example]
            for (head, mode), values in zip(some, changed, strict=True):
                changes[:, head, MODES.index(mode)] = values
        is_measured = torch.zeros(self.n_heads, dtype=torch.bool, device=batch.device)
        is_measured[heads] = True
        base, effect = self.answers.size(before), self.answers.effect
        return LayerChange(layer, changes, is_measured, base, effect, batch)

    def _run(
        self,
        layer: int,
        copies: Sequence[Copy],
        batch: Batch,
        asked: dict[str, Tensor],
        before: Tensor,
        prefix: Prefix,
    ) -> Float[Tensor, "copy example"]:
        """The changes by each copy's alteration."""
        n = len(copies)
        repeated = {name: _repeat(value, n) for name, value in asked.items()}
        is_sink = find_sinks(batch)

        def alter(at: int, output: Tensor, weights: Tensor, values: Tensor) -> Tensor:
            if at != layer:
                return output
            output = output.contiguous()
            parts = [part.reshape(n, -1, *part.shape[1:]) for part in (output, weights, values)]
            for i, (head, mode) in enumerate(copies):
                own = [part[i] for part in parts]
                own[0][:, :, head] = self._alter_head(layer, head, mode, own, is_sink)
            return output

        with _altering(alter, prefix.start(layer)), prefix.replayed(layer, n):
            after = self.answers.answer(repeated)
        return self.answers.change(_repeat(before, n), after).view(n, -1)

    def _alter_head(
        self, layer: int, head: int, mode: str, parts: Sequence[Tensor], is_sink: Tensor
    ) -> Float[Tensor, "example query part"]:
        output, weights, values = parts  # [example, query, head, part], [example, head, q, k], ...
        own = output[:, :, head]
        if mode == "zero":
            return torch.zeros_like(own)
        if mode == "mean":
            return self.means[layer, head].to(own).expand_as(own)
        group = head * values.shape[1] // weights.shape[1]
        return move_from_sinks(own, weights[:, head], values[:, group], is_sink)

    @cached_property
    def _plain_layers(self) -> list[nn.Module]:
        return find_layers(self.model.model, self.n_layers)


def find_sinks(batch: Batch) -> Bool[Tensor, "example token"]:
    """The closing tokens of each example; where there are none, its first token."""
    is_sink = batch.kinds == TokenKind.SEP
    is_first = torch.zeros_like(is_sink)
    is_first[:, 0] = True
    return torch.where(is_sink.any(dim=1, keepdim=True), is_sink, is_first)


def move_from_sinks(
    output: Float[Tensor, "example query part"],
    weights: Float[Tensor, "example query key"],
    values: Float[Tensor, "example key part"],
    is_sink: Bool[Tensor, "example key"],
) -> Float[Tensor, "example query part"]:
    """The head's output with its attention to sinks given to the other tokens in proportion.

    A row that has nothing elsewhere stays as it is.
    """
    kept = weights * ~is_sink[:, None, :]
    total = kept.sum(-1, keepdim=True)
    return torch.where(total > 0, (kept / total.clamp_min(1e-30)) @ values, output)


def mean_outputs(source: LoadedModel, batches: Iterable[Batch]) -> Float[Tensor, "layer head part"]:
    """The mean of every head's output over all tokens of some batches."""
    total, n_tokens = torch.zeros(()), 0
    for batch in batches:
        seen: list[Tensor] = []

        def keep(layer: Seen, sums: list[Tensor] = seen) -> None:
            sums.append(_sum_outputs(layer))

        with evaluating(source.model):
            observe_tap(source.model, batch.inputs, keep)
        total = total.to(batch.device) + torch.stack(seen)  # [layer, head, part]
        n_tokens += len(batch) * batch.n_tokens
    return total / n_tokens


def _sum_outputs(seen: Seen) -> Float[Tensor, "head part"]:
    """The sum over examples and queries of what each head gives."""
    assert seen.values is not None
    values = seen.values.repeat_interleave(seen.weights.shape[1] // seen.values.shape[1], dim=1)
    received = seen.weights.sum(dim=2)  # [example, head, key]
    return torch.einsum("ehk,ehkd->hd", received, values)


def _repeat(value: Tensor, n: int) -> Tensor:
    """Copies one after the other."""
    return value.repeat(n, *[1] * (value.ndim - 1))


def _altered_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    **options: Any,
) -> tuple[Tensor, None]:
    output, weights = find_eager(type(module))(module, query, key, value, mask, **options)
    return _alter.get()(output, weights, value), None


AttentionInterface.register(NAME, _altered_attention)
AttentionMaskInterface.register(NAME, eager_mask)


@contextmanager
def _altering(
    alter: Callable[[int, Tensor, Tensor, Tensor], Tensor], first_layer: int = 0
) -> Iterator[None]:
    """Every layer's attention output goes through `alter`, which is told the layer's number."""
    layers = count(first_layer)
    token = _alter.set(lambda *parts: alter(next(layers), *parts))
    try:
        yield
    finally:
        _alter.reset(token)
