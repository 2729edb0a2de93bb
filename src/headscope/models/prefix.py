"""What lies below a layer, run once: its input is kept, and the layers below are passed by."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

__all__ = ["Prefix", "find_layers"]


def find_layers(model: nn.Module, n_layers: int) -> list[nn.Module]:
    """The model's layers, if they are one plain list of different modules; else none."""
    for module in model.modules():
        if isinstance(module, nn.ModuleList) and len(module) == n_layers:
            layers = list(module)
            if len(set(map(id, layers))) == n_layers and n_layers > 1:
                return layers
    return []


@dataclass
class Prefix:
    """The inputs of a model's layers, from a run as it is."""

    layers: Sequence[nn.Module]
    inputs: dict[int, Tensor] = field(default_factory=dict)
    gives_tuple: dict[int, bool] = field(default_factory=dict)

    def start(self, layer: int) -> int:
        """The first layer that runs when all above `layer` are wanted."""
        return layer if self.layers else 0

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Keep what enters each layer."""
        with ExitStack() as hooks:
            for number, layer in enumerate(self.layers):
                hook = layer.register_forward_hook(self._record(number), with_kwargs=True)
                hooks.callback(hook.remove)
            yield

    @contextmanager
    def replayed(self, layer: int, n_copies: int) -> Iterator[None]:
        """Pass the layers below by, and let copies of what entered `layer` enter it."""
        if not self.layers:
            yield
            return
        entered = self.inputs[layer].repeat(n_copies, *[1] * (self.inputs[layer].ndim - 1))
        with ExitStack() as undo:
            for number in range(layer):
                undo.enter_context(self._passed_by(number))
            hook = self.layers[layer].register_forward_pre_hook(
                lambda module, args, kwargs: _with_hidden(args, kwargs, entered), with_kwargs=True
            )
            undo.callback(hook.remove)
            yield

    def _record(self, number: int) -> Any:
        def record(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
            self.inputs[number] = args[0] if args else kwargs["hidden_states"]
            self.gives_tuple[number] = isinstance(output, tuple)

        return record

    @contextmanager
    def _passed_by(self, number: int) -> Iterator[None]:
        layer = self.layers[number]

        def pass_by(*args: Any, **kwargs: Any) -> Any:
            hidden = args[0] if args else kwargs["hidden_states"]
            return (hidden,) if self.gives_tuple[number] else hidden

        layer.forward = pass_by
        try:
            yield
        finally:
            del layer.forward


def _with_hidden(args: Any, kwargs: Any, hidden: Tensor) -> tuple[Any, Any]:
    if args:
        return (hidden, *args[1:]), kwargs
    return args, {**kwargs, "hidden_states": hidden}
