"""Plain attention, softmax(scale q k + mask) v: which modules compute it, and computing it here.

Compiled on the CPU, in one walk with the entropies; by torch on other devices and in other
precisions. So a slice costs less than by the function of the model's own file.
"""

from collections.abc import Callable
from math import prod
from typing import Any
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headscope.data.reading import is_compiled

__all__ = ["Eager", "attend_compiled", "attend_in_torch", "can_compile", "is_plain", "wide"]

PLAIN_TOLERANCE = 2e-5  # of weights and outputs of random inputs; any other formula is far off
N_ROWS, N_KEYS, SPREAD = 5, 7, 20.0  # of the trial; the spread is that of its scores

Eager = Callable[[Tensor, Tensor, Tensor, Tensor | None], tuple[Tensor, Tensor]]

_is_plain: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()


def wide(dtype: torch.dtype) -> torch.dtype:
    """The precision that weights are measured in."""
    return torch.float32 if dtype.itemsize < 4 else dtype


def is_plain(module: nn.Module, query: Tensor, key: Tensor, scale: Any, eager: Eager) -> bool:
    """Whether a module's attention is softmax(scale q k + mask) v, which is computed here.

    Found by trying, once: its eager function and ours get the same random inputs, with scores so
    large that a soft cap shows, and must give the same.
    """
    if module not in _is_plain:
        _is_plain[module] = isinstance(scale, float) and _equals_ours(query, key, scale, eager)
    return _is_plain[module]


def can_compile(*inputs: Tensor) -> bool:
    """Whether compiled code reads these queries, keys and values."""
    from headscope.kernels.attention import find_product  # numba is slow to load

    is_read = all(is_compiled(rows) and rows.stride(3) == 1 for rows in inputs)
    return is_read and find_product() is not None


Given = tuple[Float[Tensor, "example head row key"], Float[Tensor, "example head row"] | None]


def attend_compiled(
    room: Float[Tensor, " number"],
    query: Float[Tensor, "example head row part"],
    key: Float[Tensor, "example group key part"],
    value: Float[Tensor, "example group key size"],
    mask: Float[Tensor, "#example #head #row key"] | None,
    scale: float,
    output: Float[Tensor, "example row head size"],
) -> Given:
    """Fill in the output; the weights, which stand in `room`, and their entropies."""
    from headscope.kernels.attention import attend

    shape = (*query.shape[:3], key.shape[2])
    weights = room[: prod(shape)].view(shape)
    return weights, attend(query, key, value, mask, scale, weights, output.transpose(1, 2))


def attend_in_torch(
    query: Float[Tensor, "example head row part"],
    key: Float[Tensor, "example group key part"],
    value: Float[Tensor, "example group key size"],
    mask: Float[Tensor, "#example #head #row key"] | None,
    scale: float,
    output: Float[Tensor, "example row head size"],
) -> Given:
    """The same on any device and in any precision; the weights are float32 or wider.

    The rows of all heads of a group stand one under the other, so no key or value is copied.
    """
    shape = (*query.shape[:3], key.shape[2])
    rows = query.reshape(*key.shape[:2], -1, key.shape[3])  # [example, group, head row, part]
    scores = (rows @ key.mT).view(shape) * scale
    scores = scores if mask is None else scores + mask
    weights = scores.softmax(-1, dtype=wide(query.dtype))
    of_groups = weights.to(value.dtype).view(*rows.shape[:3], -1)
    output.copy_((of_groups @ value).view(*shape[:3], -1).transpose(1, 2))
    return weights, None


def _equals_ours(query: Tensor, key: Tensor, scale: float, eager: Eager) -> bool:
    random = torch.Generator().manual_seed(0)
    (n_heads, n_parts), n_groups, device = query.shape[1::2], key.shape[1], query.device

    def draw(*shape: int) -> Tensor:
        return torch.randn(2, *shape, generator=random).to(device)

    queries = draw(n_heads, N_ROWS, n_parts) * (SPREAD / (abs(scale) * n_parts**0.5))
    keys, values = draw(n_groups, N_KEYS, n_parts), draw(n_groups, N_KEYS, n_parts)
    causal = torch.ones(N_ROWS, N_KEYS, device=device).tril(N_KEYS - N_ROWS) == 0
    hidden = torch.zeros_like(causal, dtype=torch.float32).masked_fill(causal, torch.finfo().min)
    for mask in (None, hidden[None, None]):
        output = queries.new_empty(2, N_ROWS, n_heads, n_parts)
        try:
            expected = eager(queries, keys, values, mask)
        except Exception:  # any model file may fail here in its own way
            return False
        weights, _ = attend_in_torch(queries, keys, values, mask, scale, output)
        for ours, theirs in zip((output, weights), expected, strict=True):
            if ours.shape != theirs.shape or (ours - theirs).abs().max() > PLAIN_TOLERANCE:
                return False
    return True
