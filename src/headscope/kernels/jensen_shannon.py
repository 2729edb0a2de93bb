"""Jensen-Shannon divergence between many rows of attention, with one logarithm for each pair.

JS(p, q) = H((p+q)/2) - (H(p)+H(q))/2. With S(p, q) = sum s log2 s over s = p+q, this is
ln 2 / 2 * ((S(p, p) + S(q, q)) / 2 - S(p, q)) nats, so S of half of the pairs and of each row
with itself is all there is to compute. S(p, p) takes the very steps of S(p, q): the divergence of
equal rows is exactly 0. Float32 rounds by less than 1e-6 a row; a sum that it leaves below 0 is 0.
"""

from typing import Any

import numba
import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

# Compiled in: lanes.py 796f5ae9, threads.py 066d3b4e
from headscope.kernels import njit
from headscope.kernels.lanes import FASTMATH, x_log2_x
from headscope.kernels.threads import use_torch_threads

__all__ = [
    "divergence_between", "divergence_within", "sum_pairs", "sum_pairs_in_torch",
    "sum_pairs_on_device", "sum_within",
]  # fmt: skip

Array = NDArray[np.float64]

PARTNERS = 4  # heads compared with one head at a time: independent sums keep the processor busy
ROWS_PER_TASK = 16  # fixed, so that no sum depends on the number of threads
KEYS_PER_BLOCK = 512  # in float32; a block of a few hundred heads stays in the cache
NO_SPLIT = 0

ZERO = np.float32(0)


def divergence_within(
    weights: Float[Tensor, "example row head key"],
) -> Float[Array, "example pair"]:
    """Divergence in nats, summed over rows, of every two heads, paired as by `np.triu_indices`."""
    sums = _choose(weights)(weights, NO_SPLIT)
    first, second = np.triu_indices(sums.shape[-1], 1)
    return _divergence(sums, first, second)


def divergence_between(
    weights: Float[Tensor, "example row head key"], n_first: int
) -> Float[Array, "example first second"]:
    """Divergence in nats, summed over rows, of each of the first heads and each of the others."""
    sums = _choose(weights)(weights, n_first)
    first, second = np.indices((n_first, sums.shape[-1] - n_first))
    return _divergence(sums, first, second + n_first)


def sum_pairs(
    weights: Float[Tensor, "example row head key"], n_first: int = NO_SPLIT
) -> Float[Array, "example head other"]:
    """S of each head and those after it, summed over rows, compiled for the CPU, in float32.

    With `n_first`, only pairs of one of the first heads and one of the others are filled, and the
    diagonal. Sums over a block of keys are float32, carried on in float64.
    """
    use_torch_threads()
    n_examples, n_rows, n_heads, _ = weights.shape
    n_padded = -(-n_heads // PARTNERS) * PARTNERS
    sums = np.empty((n_examples, n_heads, n_heads))
    for example, maps in enumerate(weights.float().contiguous().numpy()):
        parts = np.zeros((-(-n_rows // ROWS_PER_TASK), n_heads, n_padded))
        _add_tasks(maps, n_first, parts)
        sums[example] = parts.sum(axis=0)[:, :n_heads]
    return sums


def sum_pairs_in_torch(
    weights: Float[Tensor, "example row head key"], n_first: int = NO_SPLIT
) -> Float[Array, "example head other"]:
    """The same by torch, on any device and in the weights' own precision; read once, at the end."""
    sums = sum_pairs_on_device(weights, n_first).cpu().double() / np.log(2)
    return sums.numpy()


def sum_pairs_on_device(
    weights: Float[Tensor, "example row head key"], n_first: int
) -> Float[Tensor, "example head other"]:
    """S in nats, where the weights are: nothing here waits for the device."""
    n_examples, _, n_heads, _ = weights.shape
    wide = weights.dtype if weights.device.type == "mps" else torch.float64  # which mps has not
    shape = (n_examples, n_heads, n_heads)
    sums = torch.zeros(shape, dtype=wide, device=weights.device)
    for example, maps in enumerate(weights):  # one at a time: temporaries of one example alone
        for head in range(n_heads):
            others = slice(max(head, n_first), n_heads) if head < (n_first or n_heads) else None
            for chosen in filter(None, (others, slice(head, head + 1))):
                both = maps[:, head, None] + maps[:, chosen]  # [row, other, key]
                rows = torch.special.xlogy(both, both).sum(-1)  # [row, other]
                sums[example, head, chosen] = rows.to(wide).sum(0)
    return sums


def _choose(weights: Tensor) -> Any:
    """Compiled code where it is faster and as exact as the weights are, torch elsewhere."""
    is_compiled = weights.device.type == "cpu" and weights.dtype != torch.float64
    return sum_pairs if is_compiled else sum_pairs_in_torch


def _divergence(sums: Array, first: NDArray[np.intp], second: NDArray[np.intp]) -> Array:
    alone = np.diagonal(sums, axis1=1, axis2=2)  # [example, head]
    both = (alone[:, first] + alone[:, second]) / 2 - sums[:, first, second]
    return np.maximum(np.log(2) / 2 * both, 0)


@njit(fastmath=FASTMATH)
def _add_row(block, n_heads, n_first, sums):  # type: ignore[no-untyped-def]
    """Add S of one row's heads: `block[head, key]`, padded to a multiple of PARTNERS."""
    for a in range(n_heads):
        row, own = block[a], a - a % PARTNERS
        for b in range(own, n_heads, PARTNERS):
            is_apart = b + PARTNERS <= n_first or a >= n_first
            if n_first > 0 and b != own and is_apart:
                continue  # no pair across the split
            q0, q1, q2, q3 = block[b], block[b + 1], block[b + 2], block[b + 3]
            s0, s1, s2, s3 = ZERO, ZERO, ZERO, ZERO
            for key in range(len(row)):
                p = row[key]
                s0 += x_log2_x(p + q0[key])
                s1 += x_log2_x(p + q1[key])
                s2 += x_log2_x(p + q2[key])
                s3 += x_log2_x(p + q3[key])
            sums[a, b] += s0
            sums[a, b + 1] += s1
            sums[a, b + 2] += s2
            sums[a, b + 3] += s3


@njit()
def _add_rows(maps, first, last, n_first, sums):  # type: ignore[no-untyped-def]
    """Add S of the rows from `first` up to `last` of `maps[row, head, key]`."""
    _, n_heads, n_keys = maps.shape
    for start in range(0, n_keys, KEYS_PER_BLOCK):
        end = min(n_keys, start + KEYS_PER_BLOCK)
        block = np.zeros((sums.shape[1], end - start), np.float32)
        for row in range(first, last):
            block[:n_heads] = maps[row, :, start:end]
            _add_row(block, n_heads, n_first, sums)


@njit(parallel=True)
def _add_tasks(maps, n_first, parts):  # type: ignore[no-untyped-def]
    for task in numba.prange(len(parts)):
        first = task * ROWS_PER_TASK
        last = min(len(maps), first + ROWS_PER_TASK)
        _add_rows(maps, first, last, n_first, parts[task])


@njit(nogil=True)
def sum_within(
    distance: Float[Array, "head other"],
    deals: Int[NDArray[Any], "deal head"],
    n_heads: Int[NDArray[np.int64], " layer"],
) -> Float[Array, "deal layer"]:
    """The sum over all pairs of heads that a deal gives to the same layer."""
    sums = np.zeros((len(deals), len(n_heads)))
    for deal in range(len(deals)):
        heads, start = deals[deal], 0
        for layer in range(len(n_heads)):
            end = start + n_heads[layer]
            for one in range(start, end):
                row = distance[heads[one]]
                for other in range(one + 1, end):
                    sums[deal, layer] += row[heads[other]]
            start = end
    return sums
