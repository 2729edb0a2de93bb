"""The usual way to measure heads: ask for all maps, stack them, and compute in NumPy."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from headscope.data.encoding import Batch, TokenKind
from headscope.models.loaded import LoadedModel

__all__ = ["UsualTotals", "measure_usually"]

Array = NDArray[np.floating[Any]]
UsualTotals = dict[str, Array]  # analysis -> [layer, head, ...], summed over examples
PUNCTUATION = (".", ",")


def measure_usually(source: LoadedModel, batches: Sequence[Batch]) -> UsualTotals:
    """The three measures summed over all examples; no intervals."""
    source.model.set_attn_implementation("eager")
    totals: UsualTotals = {}
    for batch in batches:
        with torch.inference_mode():
            outputs = source.model(**batch.inputs, output_attentions=True)
        maps = torch.stack(outputs.attentions, dim=1).numpy()  # [example, layer, head, query, key]
        for name, values in _measure(maps, batch).items():
            totals[name] = totals.get(name, 0) + values.sum(axis=0)
    return totals


def _measure(maps: Array, batch: Batch) -> dict[str, Array]:
    return {
        "position": _position(maps),
        "special-tokens": _special_tokens(maps, batch),
        "entropy": _entropy(maps),
    }


def _position(maps: Array) -> Array:
    diagonals = [np.diagonal(maps, k, axis1=-2, axis2=-1).sum(-1) for k in (-1, 0, 1)]
    weight: Array = np.stack(diagonals, axis=-1) / maps.shape[-1]  # [example, layer, head, target]
    return weight


def _special_tokens(maps: Array, batch: Batch) -> Array:
    """Attention by class of the attended token, from all rows, from SEP rows and from the rest."""
    kinds = batch.kinds.numpy()
    surfaces = np.array([encoding.surfaces for encoding in batch.encodings])
    is_cls, is_sep = kinds == TokenKind.CLS, kinds == TokenKind.SEP
    is_mark = np.isin(surfaces, PUNCTUATION) & (kinds == TokenKind.TEXT)
    is_first = np.zeros_like(is_cls)
    is_first[:, 0] = ~(is_cls | is_sep)[:, 0]  # an ordinary token at the beginning
    is_mark &= ~is_first
    classes = [is_cls, is_sep, is_first, is_mark, ~(is_cls | is_sep | is_first | is_mark)]
    targets = np.stack(classes, axis=-1).astype(maps.dtype)  # [example, key, target]
    sources = [np.ones_like(is_sep), is_sep, ~is_sep]
    rows = np.stack(sources, axis=1).astype(maps.dtype)  # [example, source, query]
    mass: Array = rows[:, None, None] @ maps @ targets[:, None, None]
    # mass: [example, layer, head, source, target]
    weight: Array = mass / rows.sum(-1)[:, None, None, :, None]
    return weight


def _entropy(maps: Array) -> Array:
    """In nats, over all rows and for the first row alone."""
    rows = -(maps * np.log(maps + np.float32(1e-12))).sum(-1)  # [example, layer, head, query]
    return np.stack([rows.mean(-1), rows[..., 0]], axis=-1)  # [example, layer, head, rows]
