"""How a model's loss or hidden states change when a head is switched off, layer by layer.

Copies of a batch, each with another head of one layer altered, run side by side. What lies below
the layer is the same for all of them, so where the model's layers can be skipped they are not run
again: what entered the layer is kept from the run of the model as it is.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count, product
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from transformers import PreTrainedModel

from headscope.contracts import Watch
from headscope.data.attention import LayerChange
from headscope.data.encoding import Batch, Encoding, TokenKind
from headscope.errors import ModelError
from headscope.models import tap
from headscope.models.anatomy import eval_mode, is_close, run
from headscope.models.language import Outcome
from headscope.models.loaded import LoadedModel, ModelView

__all__ = ["MODES", "AblationSource", "mean_outputs", "switched_off"]

MODES = ("zero", "mean", "sink")

Alter = Callable[[int, Tensor, Tensor, Tensor], Tensor]  # layer, output, weights, values -> output


@dataclass
class Prefix:
    """The inputs of a model's layers, from a run as it is: layers below an altered one are skipped.

    `layers` are all layers in order, those without attention too; none: nothing can be skipped.
    Where a layer hands on more than hidden states (T5 a bias by position), none is skipped.
    """

    layers: Sequence[nn.Module]
    inputs: dict[int, Tensor] = field(default_factory=dict)
    extra_outputs: dict[int, tuple[Any, ...] | None] = field(default_factory=dict)  # None: no tuple

    @property
    def can_skip(self) -> bool:
        """Whether a layer can be passed by, as all that it gives is hidden states."""
        extras = [value for extra in self.extra_outputs.values() for value in extra or ()]
        return bool(self.layers) and all(value is None for value in extras)

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Keep what enters each layer."""
        with ExitStack() as hooks:
            for number, layer in enumerate(self.layers):

                def record(m: Any, args: Any, kwargs: Any, output: Any, at: int = number) -> None:
                    self.inputs[at] = args[0] if args else kwargs["hidden_states"]
                    self.extra_outputs[at] = output[1:] if isinstance(output, tuple) else None

                hooks.callback(layer.register_forward_hook(record, with_kwargs=True).remove)
            yield

    @contextmanager
    def replayed(self, layer: int, n_copies: int) -> Iterator[None]:
        """Skip the layers below, and let copies of what entered `layer` enter it."""
        if not self.can_skip:
            yield
            return
        entered = torch.cat([self.inputs[layer]] * n_copies)

        def enter(module: nn.Module, args: Any, kwargs: Any) -> tuple[Any, Any]:
            if args:
                return (entered, *args[1:]), kwargs
            return args, {**kwargs, "hidden_states": entered}

        with ExitStack() as undo:
            for number in range(layer):
                undo.enter_context(self._skipped(number))
            hook = self.layers[layer].register_forward_pre_hook(enter, with_kwargs=True)
            undo.callback(hook.remove)
            yield

    @contextmanager
    def _skipped(self, number: int) -> Iterator[None]:
        layer, extra = self.layers[number], self.extra_outputs[number]

        def skip(*args: Any, **kwargs: Any) -> Any:
            hidden = args[0] if args else kwargs["hidden_states"]
            return hidden if extra is None else (hidden, *extra)

        before = {name: value for name, value in vars(layer).items() if name == "forward"}
        layer.forward = skip
        try:
            yield
        finally:
            del layer.forward
            vars(layer).update(before)  # a forward of the object's own, as accelerate sets it


@dataclass(frozen=True)
class AblationSource(ModelView):
    """A model that shows, layer by layer, what each head's absence changes.

    "zero" takes the head's output away, "mean" puts its `means[layer, head, part]` over the corpus
    in its place, "sink" moves its attention to closing tokens ([SEP]; in an input without them, to
    the first token) to the other tokens in proportion.
    """

    emits: ClassVar[Watch] = Watch.CHANGE
    outcome: Outcome
    means: Float[Tensor, "layer head part"]
    heads: Collection[tuple[int, int]] | None = None  # (layer number, head), from 0; None: all
    batch_tokens: int = 8192  # of all copies that run side by side

    @property
    def model(self) -> LoadedModel:
        return self.outcome.source

    def explain_unusable(self, encoding: Encoding) -> str:
        return self.outcome.explain_unusable(encoding)

    def attend(self, batch: Batch, observe: Callable[[LayerChange], None]) -> None:
        """Run the model as it is, then with each head altered, and show every layer's changes."""
        model, inputs = self.model.model, self.outcome.prepare(batch)
        prefix = Prefix(self._layers)
        with tap.using_attention(model, tap.NAME), eval_mode(model), torch.inference_mode():
            before = self._run_as_it_is(inputs, prefix)
            for layer in range(self.n_layers):
                observe(self._measure_layer(layer, batch, inputs, before, prefix))

    def _run_as_it_is(self, inputs: dict[str, Tensor], prefix: Prefix) -> Tensor:
        with _altered(self.model.model, _keep), prefix.recording():
            return self.outcome.evaluate(inputs)

    def _run_copies(
        self, inputs: dict[str, Tensor], n: int, prefix: Prefix, layer: int, alter: Alter
    ) -> Tensor:
        """The outcome of copies side by side, from a layer on; those below are not altered."""
        start = layer if prefix.can_skip else 0
        replayed = prefix.replayed(self.layer_numbers[layer], n)
        with _altered(self.model.model, alter, start), replayed:
            return self.outcome.evaluate({k: torch.cat([v] * n) for k, v in inputs.items()})

    @cached_property
    def _layers(self) -> Sequence[nn.Module]:
        """The model's layers, if those below an altered one can be skipped: found by trying."""
        model, prefix = self.model.model, Prefix(self.model.layer_stack)
        inputs = self.outcome.prepare(self.model.batch_of_probe())
        with tap.using_attention(model, tap.NAME), eval_mode(model), torch.inference_mode():
            before = self._run_as_it_is(inputs, prefix)
            try:
                after = self._run_copies(inputs, 2, prefix, self.n_layers - 1, _keep)
            except Exception:  # a model file may use what its layers give in any way
                return []
        is_same = is_close(after, torch.cat([before] * 2), model.dtype)
        return prefix.layers if is_same else []

    def _measure_layer(
        self, layer: int, batch: Batch, inputs: dict[str, Tensor], before: Tensor, prefix: Prefix
    ) -> LayerChange:
        number = self.layer_numbers[layer]
        heads = [h for h in range(self.n_heads) if self.heads is None or (number, h) in self.heads]
        copies = list(product(heads, MODES))
        changes = torch.zeros(len(batch), self.n_heads, len(MODES), device=batch.device)
        most_copies = max(1, self.batch_tokens // (len(batch) * batch.n_tokens))
        for first in range(0, len(copies), most_copies):
            chunk = copies[first : first + most_copies]
            alter = self._alter_copies(layer, chunk, find_sinks(batch))
            after = self._run_copies(inputs, len(chunk), prefix, layer, alter)
            changed = self.outcome.difference(torch.cat([before] * len(chunk)), after)
            for (head, mode), values in zip(chunk, changed.view(len(chunk), -1), strict=True):
                changes[:, head, MODES.index(mode)] = values
        is_measured = torch.zeros(self.n_heads, dtype=torch.bool, device=batch.device)
        is_measured[heads] = True
        base, effect = self.outcome.magnitude(before), self.outcome.effect
        return LayerChange(layer, changes, is_measured, base, effect, batch)

    def _alter_copies(
        self, layer: int, copies: Sequence[tuple[int, str]], is_sink: Tensor
    ) -> Alter:
        def alter(at: int, output: Tensor, weights: Tensor, values: Tensor) -> Tensor:
            if at != layer:
                return output
            output = output.contiguous()
            n = len(copies)
            parts = [part.reshape(n, -1, *part.shape[1:]) for part in (output, weights, values)]
            for i, (head, mode) in enumerate(copies):
                copy = [part[i] for part in parts]
                mean = self.means[layer, head]
                copy[0][:, :, head] = _alter_head(head, mode, copy, mean, is_sink)
            return output

        return alter


@contextmanager
def switched_off(
    model: LoadedModel,
    batch: Batch,
    heads: Collection[tuple[int, int]],
    mode: str,
    means: Float[Tensor, "layer head part"] | None = None,
    check: Callable[[], None] = lambda: None,
) -> Iterator[None]:
    """For one run over the batch, the model with these heads (layer, head; from 0) off at once.

    `means` is needed for the mode "mean" alone. `check` is called at every layer, and may stop the
    run by raising.
    """
    if why := model.explain_fixed():
        raise ModelError(why)
    is_sink = find_sinks(batch)

    def alter(layer: int, output: Tensor, weights: Tensor, values: Tensor) -> Tensor:
        check()
        output = output.contiguous()
        for head in (head for at, head in heads if at == layer):
            mean = output if means is None else means[layer, head]
            altered = _alter_head(head, mode, (output, weights, values), mean, is_sink)
            output[:, :, head] = altered
        return output

    with _altered(model.model, alter), eval_mode(model.model), torch.inference_mode():
        yield


def _alter_head(
    head: int, mode: str, parts: Sequence[Tensor], mean: Tensor, is_sink: Tensor
) -> Float[Tensor, "example query part"]:
    output, weights, values = parts  # [example, query, head, part], [example, head, q, k], ...
    given = output[:, :, head]
    if mode == "zero":
        return torch.zeros_like(given)
    if mode == "mean":
        return mean[: given.shape[-1]].to(given).expand_as(given)
    group = head * values.shape[1] // weights.shape[1]
    return move_from_sinks(given, weights[:, head], values[:, group], is_sink)


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

    A row that has nothing elsewhere stays as it is. What a learned sink takes stays there.
    """
    kept = weights * ~is_sink[:, None, :]
    total = kept.sum(-1, keepdim=True)
    moved = kept / total.clamp_min(1e-30) * weights.sum(-1, keepdim=True)
    return torch.where(total > 0, moved @ values, output)


def mean_outputs(
    model: LoadedModel,
    batches: Iterable[Batch],
    progress: Callable[[int], None] = lambda n_examples: None,
) -> Float[Tensor, "layer head part"]:
    """The mean of every head's output over all tokens of some batches.

    Where layers have heads of different sizes, zeros follow the parts of the smaller ones.
    `progress` is told after each batch how many examples it had.
    """
    if why := model.explain_fixed():
        raise ModelError(why)
    total, n_tokens = torch.zeros(()), 0
    for batch in batches:
        sums: list[Tensor] = []

        def add(layer: tap.TapOutput, sums: list[Tensor] = sums) -> None:
            assert layer.output is not None  # the tap always gives it
            sums.append(layer.output.sum(dim=(0, 1)))  # [head, part]

        run(tap.observe_tap, model.model, batch.inputs, add)
        most = max(of_layer.shape[-1] for of_layer in sums)
        padded = [nn.functional.pad(of_layer, (0, most - of_layer.shape[-1])) for of_layer in sums]
        total = total.to(batch.device) + torch.stack(padded)
        n_tokens += len(batch) * batch.n_tokens
        progress(len(batch))
    return total / n_tokens


def _keep(layer: int, output: Tensor, weights: Tensor, values: Tensor) -> Tensor:
    return output


def _altered(
    model: PreTrainedModel, alter: Alter, first_layer: int = 0
) -> AbstractContextManager[None]:
    """Every layer's attention output goes through `alter`, which is told the layer's number."""
    layers = count(first_layer)

    def attend(module: nn.Module, *args: Any, **options: Any) -> Tensor:
        output, weights = tap.find_eager(type(module))(module, *args, **options)
        return alter(next(layers), output, weights, args[2])

    return tap.replaced_attention(model, attend)
