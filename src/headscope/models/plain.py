"""Plain attention, softmax(scale q k + mask) v, in compiled code.

Most model files compute just this, in many walks over the scores. Whether a file does is found by
trying: its eager function and ours get the same random inputs, with scores so large that a soft cap
shows, and must give the same.
"""

from collections.abc import Callable
from math import prod
from typing import Any
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headscope.data.reading import is_compiled

__all__ = ["attend_plainly", "is_plain"]

Eager = Callable[[Tensor, Tensor, Tensor, Tensor | None], tuple[Tensor, Tensor]]

TOLERANCE = 2e-5  # of weights and outputs of random inputs; any other formula is far off
N_ROWS, N_KEYS, SPREAD = 5, 7, 20.0  # of the trial; the spread is that of its scores

_found: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()


def is_plain(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, scale: Any, eager: Eager
) -> bool:
    """Whether a module's attention is the plain one, and compiled code can compute it."""
    if not is_compiled(query) or any(rows.stride(3) != 1 for rows in (query, key, value)):
        return False
    if module not in _found:
        _found[module] = isinstance(scale, float) and _gives_the_same(query, key, scale, eager)
    return _found[module]


def attend_plainly(
    query: Float[Tensor, "example head row part"],
    key: Float[Tensor, "example group key part"],
    value: Float[Tensor, "example group key size"],
    mask: Float[Tensor, "#example #head #row key"] | None,
    scale: float,
    output: Float[Tensor, "example row head size"],
    room: Float[Tensor, " number"],
) -> tuple[Float[Tensor, "example head row key"], Float[Tensor, "example head row"]]:
    """Fill in the output; the weights, which stand in `room`, and their entropies."""
    from headscope.kernels.attention import attend  # numba is slow to load

    shape = (*query.shape[:3], key.shape[2])
    weights = room[: prod(shape)].view(shape)
    return weights, attend(query, key, value, mask, scale, weights, output.transpose(1, 2))


def _gives_the_same(query: Tensor, key: Tensor, scale: float, eager: Eager) -> bool:
    from headscope.kernels.attention import find_product

    if find_product() is None:
        return False
    random = torch.Generator().manual_seed(0)
    (n_heads, n_parts), n_groups = query.shape[1::2], key.shape[1]

    def draw(*shape: int) -> Tensor:
        return torch.randn(2, *shape, generator=random)

    queries = draw(n_heads, N_ROWS, n_parts) * (SPREAD / (abs(scale) * n_parts**0.5))
    keys, values = draw(n_groups, N_KEYS, n_parts), draw(n_groups, N_KEYS, n_parts)
    causal = torch.ones(N_ROWS, N_KEYS).tril(N_KEYS - N_ROWS) == 0
    for mask in (None, torch.zeros(1, 1, N_ROWS, N_KEYS).masked_fill(causal, torch.finfo().min)):
        try:
            expected = eager(queries, keys, values, mask)
        except Exception:  # any model file may fail here in its own way
            return False
        output, room = torch.empty(2, N_ROWS, n_heads, n_parts), draw(n_heads * N_ROWS * N_KEYS)
        weights, _ = attend_plainly(queries, keys, values, mask, scale, output, room.flatten())
        for one, other in zip((output, weights), expected, strict=True):
            if one.shape != other.shape or (one - other).abs().max() > TOLERANCE:
                return False
    return True
