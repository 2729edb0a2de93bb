"""The untrained model: what a model's shape and embeddings alone would attend to.

`random-init:MODEL` keeps the pretrained embeddings of MODEL and draws every other weight anew with
the model's own initialiser: the paper's baseline for how much comes from training.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from headscope.models.loaded import LoadedModel, refuse_offloaded

__all__ = ["PREFIX", "make_untrained"]

PREFIX = "random-init:"


def make_untrained(source: LoadedModel, seed: int = 0) -> LoadedModel:
    """A copy of the model with its embeddings kept and its other weights random, by the seed."""
    refuse_offloaded(source, "there is no room for a copy with random weights")
    name = f"{PREFIX}{source.name}"
    if source.whole is None:
        return replace(source, name=name, model=_draw_weights(source.model, seed))
    whole = _draw_weights(source.whole, seed)
    return replace(source, name=name, model=whole.get_encoder(), whole=whole)


def _draw_weights(model: PreTrainedModel, seed: int) -> PreTrainedModel:
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        build = cast(Callable[[Any], PreTrainedModel], type(model))
        fresh = build(model.config)
        kept = dict(_embedding_weights(model))
        for name, weight in fresh.named_parameters():
            if name in kept:
                weight.copy_(kept[name])
    nn.Module.to(fresh, device=model.device, dtype=model.dtype)
    fresh.eval()
    return fresh


def _embedding_weights(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """What belongs to the input embeddings: tables outside the layers, and all under "embed..."."""
    tables = {name for name, module in model.named_modules() if isinstance(module, nn.Embedding)}
    for name, weight in model.named_parameters():
        parts = name.split(".")
        is_in_layers = any(part.isdecimal() for part in parts)
        is_table = ".".join(parts[:-1]) in tables
        if not is_in_layers and (is_table or any("embed" in part for part in parts)):
            yield name, weight
