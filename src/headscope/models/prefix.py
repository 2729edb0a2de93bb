"""The layers below an altered one, run once: its input is kept, and they are skipped."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["Prefix"]


@dataclass
class Prefix:
    """The inputs of a model's layers, from a run as it is.

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
                record = partial(self._record, number)
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

    def _record(self, number: int, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        self.inputs[number] = args[0] if args else kwargs["hidden_states"]
        self.extra_outputs[number] = output[1:] if isinstance(output, tuple) else None

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
