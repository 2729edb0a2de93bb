"""The hidden states of a model while it runs: the vectors that its layers hand on.

Layer 0 are the embeddings, layer L what the model's L-th layer gives, as transformers counts them
(`output_hidden_states`). So no line here knows a model family.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headscope.errors import ModelError, StudyError
from headscope.models.anatomy import eval_mode
from headscope.models.loaded import LoadedModel

__all__ = ["ALL_LAYERS", "SPREAD_LAYERS", "HiddenStates", "open_hidden_states", "refuse_bad_states"]

ALL_LAYERS, SPREAD_LAYERS = "all", "spread"
N_SPREAD = 4  # layers beside the embeddings, evenly spread up to the last


@dataclass(frozen=True)
class HiddenStates:
    """Which layers of a model are watched, and the size of their vectors."""

    source: LoadedModel
    layers: tuple[int, ...]
    dimension: int

    @contextmanager
    def observe(self, every_layer: bool = False) -> Iterator[list[Tensor]]:
        """A list that holds the states [example, token, dimension] of each layer after a run."""
        seen: list[Tensor] = []

        def ask(module: Any, args: Any, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
            return args, {**options, "output_hidden_states": True, "return_dict": True}

        def take(module: Any, args: Any, output: Any) -> None:
            states = output.get("hidden_states") or ()
            chosen = range(len(states)) if every_layer else self.layers
            seen[:] = [states[layer].detach() for layer in chosen]

        model = self.source.model
        with ExitStack() as hooks:
            hooks.callback(model.register_forward_pre_hook(ask, with_kwargs=True).remove)
            hooks.callback(model.register_forward_hook(take).remove)
            yield seen


def open_hidden_states(source: LoadedModel, wanted: str) -> HiddenStates:
    """The layers that are wanted, "all", "spread" or as "0,6,12"; checked on a few tokens."""
    batch, every = source.batch_of_probe(), HiddenStates(source, (), 0).observe(every_layer=True)
    with every as seen, eval_mode(source.model), torch.inference_mode():
        source.model(**batch.inputs)
    shapes = {tuple(state.shape) for state in seen}
    if len(shapes) != 1 or seen[0].shape[:2] != (1, batch.n_tokens):
        raise ModelError(
            f"The hidden states of {source.name} have the shapes {sorted(shapes)} for "
            f"{batch.n_tokens} tokens, which do not fit a store. Expected a vector of one size "
            "for each token in every layer; leave the structural probes out (--only)."
        )
    layers = choose_layers(wanted, len(seen) - 1)
    for layer in layers:
        refuse_bad_states(seen[layer].half(), [batch.encodings[0].example.id])
    return HiddenStates(source, layers, seen[0].shape[-1])


def choose_layers(wanted: str, n_layers: int) -> tuple[int, ...]:
    """The layers that a user means; 0 are the embeddings.

    >>> choose_layers("spread", 12), choose_layers("all", 2), choose_layers("6,0", 12)
    ((0, 3, 6, 9, 12), (0, 1, 2), (0, 6))
    """
    if wanted == ALL_LAYERS:
        return tuple(range(n_layers + 1))
    if wanted == SPREAD_LAYERS:
        return tuple(sorted({round(n_layers * part / N_SPREAD) for part in range(N_SPREAD + 1)}))
    parts = [part.strip() for part in wanted.split(",")]
    if not all(part.isdecimal() and int(part) <= n_layers for part in parts):
        raise StudyError(
            f"--hidden-layers {wanted} cannot be used. Expected {ALL_LAYERS}, {SPREAD_LAYERS}, or "
            f"numbers from 0 (the embeddings) to {n_layers}, such as 0,{n_layers}."
        )
    return tuple(sorted({int(part) for part in parts}))


def refuse_bad_states(states: Tensor, examples: Sequence[str]) -> None:
    """An error for states in half precision that are NaN, or too large for it."""
    is_bad = ~torch.isfinite(states.float().flatten(1).sum(1))
    if is_bad.any():
        example = examples[int(is_bad.nonzero()[0])]
        raise ModelError(
            f"The hidden states of example {example!r} hold NaN, or numbers over 65,504 that half "
            "precision cannot hold. Expected smaller, finite numbers; choose other "
            "--hidden-layers, try --dtype float32, or leave the structural probes out (--only)."
        )
