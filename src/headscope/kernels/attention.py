"""Attention of some heads and rows in one walk: scores, softmax, entropies and output.

Each map is made, turned into weights and multiplied with the values by one thread, while it is in
that thread's cache. Products are those of torch's own BLAS library, called from compiled code.
"""

import ctypes
from functools import cache
from typing import Any, NamedTuple

import numba
import numpy as np
import torch
from jaxtyping import Float
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.extending import intrinsic
from torch import Tensor

# Compiled in: lanes.py 796f5ae9, threads.py 066d3b4e
from headscope.kernels import njit
from headscope.kernels.lanes import FIXED_ORDER, exp, from_order, in_order
from headscope.kernels.threads import use_torch_threads

__all__ = ["attend", "find_product"]

ZERO, ONE, LOWEST = np.float32(0), np.float32(1), np.int32(-0x80000000)
LIMIT = np.float32(-1e30)  # of a distance; a mask may be minus infinity, whose part is 0
AS_IS, TURNED = np.int64(ord("N")), np.int64(ord("T"))
N_BYTES = np.int64(4)  # of a float32


class Heads(NamedTuple):
    """Where the rows of heads are in memory: an address, and the steps to the next one."""

    address: int
    example: int
    head: int
    row: int


@cache
def find_product() -> int | None:
    """The address of the matrix product in torch's libraries; None where there is none."""
    try:
        return ctypes.cast(ctypes.CDLL(torch._C.__file__).sgemm_, ctypes.c_void_p).value
    except (AttributeError, OSError):
        return None


def attend(
    query: Float[Tensor, "example head row part"],
    key: Float[Tensor, "example group key part"],
    value: Float[Tensor, "example group key size"],
    mask: Float[Tensor, "#example #head #row key"] | None,
    scale: float,
    weights: Float[Tensor, "example head row key"],
    output: Float[Tensor, "example head row size"],
) -> Float[Tensor, "example head row"]:
    """Fill in weights and output, softmax(scale q k + mask) v; the entropies of rows, in nats.

    The heads of a group share keys and values.
    """
    use_torch_threads()
    entropy = weights.new_empty(weights.shape[:3])
    shape = (*query.shape, key.shape[1], key.shape[2], value.shape[3])
    masks, steps = _read_mask(mask, key.shape[2])
    _attend(
        find_product(), shape, _find(query), _find(key), _find(value), masks.numpy(), steps,
        np.float32(scale), weights.numpy(), _find(output), entropy.numpy(),
    )  # fmt: skip
    return entropy


def _find(rows: Tensor) -> Heads:
    assert rows.dtype == torch.float32
    assert rows.stride(3) == 1
    example, head, row, _ = rows.stride()
    return Heads(rows.data_ptr(), example, head, max(row, rows.shape[3]))  # of one row it is any


def _read_mask(
    mask: Tensor | None, n_keys: int
) -> tuple[Float[Tensor, "any key"], tuple[int, int, int]]:
    """The rows of a mask, and from example, head and row to the next; no rows without a mask."""
    if mask is None:
        return torch.empty(0, 0), (0, 0, 0)
    n_examples, n_heads, n_rows, _ = mask.shape
    steps = (n_heads * n_rows * (n_examples > 1), n_rows * (n_heads > 1), 1 * (n_rows > 1))
    return mask[..., :n_keys].reshape(-1, n_keys).to(torch.float32).contiguous(), steps


def _call_product(  # type: ignore[no-untyped-def]
    typing, function, turn_a, turn_b, m, n, k, alpha, a, step_a, b, step_b, beta, c, step_c
):
    """BLAS's sgemm, called by its address: c = alpha a b + beta c, all by columns."""
    whole, real = types.int64, types.float32
    pointers = {7, 9, 12}  # a, b, c; BLAS takes the rest by reference
    signature = types.void(*(real if place in (6, 11) else whole for place in range(14)))

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        pointer = ir.IntType(8).as_pointer()
        passed = [
            builder.inttoptr(one, pointer)
            if place in pointers
            else builder.bitcast(cgutils.alloca_once_value(builder, one), pointer)
            for place, one in enumerate(given)
            if place > 0
        ]
        kind = ir.FunctionType(ir.VoidType(), [pointer] * len(passed))
        builder.call(builder.inttoptr(given[0], kind.as_pointer()), passed)
        return context.get_dummy_value()

    return signature, generate


_multiply: Any = intrinsic(_call_product)


@numba.njit(inline="always", fastmath=FIXED_ORDER)
def _softmax(own, distances):  # type: ignore[no-untyped-def]
    """Turn a row of scores into weights; its entropy.

    With d the distance of a score from the largest of its row and Z the sum of all e^d, the
    weights are e^d / Z and the entropy is ln Z minus the mean d: no logarithm of a weight.
    """
    n_keys = len(own)
    highest = LOWEST
    for key in range(n_keys):
        highest = max(highest, in_order(own[key]))
    top = from_order(highest)
    for key in range(n_keys):
        distance = own[key] - top
        distances[key] = max(distance, LIMIT)
        own[key] = exp(distance)
    total, moment = _sums(own, distances)
    share = ONE / total
    for key in range(n_keys):
        own[key] *= share
    return max(np.log(total) - moment * share, ZERO)


@numba.njit(inline="always", fastmath=FIXED_ORDER)
def _sums(parts, distances):  # type: ignore[no-untyped-def]
    """The sum of all parts, and of their products with distances; eight lanes, in this order."""
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = ZERO
    m0 = m1 = m2 = m3 = m4 = m5 = m6 = m7 = ZERO
    n_keys = len(parts)
    end = n_keys - n_keys % 8
    for key in range(0, end, 8):
        s0 += parts[key]
        s1 += parts[key + 1]
        s2 += parts[key + 2]
        s3 += parts[key + 3]
        s4 += parts[key + 4]
        s5 += parts[key + 5]
        s6 += parts[key + 6]
        s7 += parts[key + 7]
        m0 += parts[key] * distances[key]
        m1 += parts[key + 1] * distances[key + 1]
        m2 += parts[key + 2] * distances[key + 2]
        m3 += parts[key + 3] * distances[key + 3]
        m4 += parts[key + 4] * distances[key + 4]
        m5 += parts[key + 5] * distances[key + 5]
        m6 += parts[key + 6] * distances[key + 6]
        m7 += parts[key + 7] * distances[key + 7]
    for key in range(end, n_keys):
        s0 += parts[key]
        m0 += parts[key] * distances[key]
    total = (s0 + s1 + s2 + s3) + (s4 + s5 + s6 + s7)
    return total, (m0 + m1 + m2 + m3) + (m4 + m5 + m6 + m7)


compiled: Any = njit(parallel=True, fastmath=FIXED_ORDER)


@compiled
def _attend(  # type: ignore[no-untyped-def]
    product, shape, query, key, value, masks, mask_steps, scale, weights, output, entropy
):
    n_examples, n_heads, n_rows, n_parts, n_groups, n_keys, n_sizes = shape
    for task in numba.prange(n_examples * n_heads):
        example, head = task // n_heads, task % n_heads
        group = head // (n_heads // n_groups)
        own, distances = weights[example, head], np.empty(n_keys, np.float32)
        _multiply(
            product, TURNED, AS_IS, n_keys, n_rows, n_parts, scale,
            _place(key, example, group), key.row, _place(query, example, head), query.row,
            ZERO, own.ctypes.data, n_keys,
        )  # fmt: skip
        for row in range(n_rows):
            if len(masks):
                place = example * mask_steps[0] + head * mask_steps[1] + row * mask_steps[2]
                seen = masks[place]
                for other in range(n_keys):
                    own[row, other] += seen[other]
            entropy[example, head, row] = _softmax(own[row], distances)
        _multiply(
            product, AS_IS, AS_IS, n_sizes, n_rows, n_keys, ONE,
            _place(value, example, group), value.row, own.ctypes.data, n_keys,
            ZERO, _place(output, example, head), output.row,
        )  # fmt: skip


@njit()
def _place(heads, example, head):  # type: ignore[no-untyped-def]
    return heads.address + N_BYTES * (example * heads.example + head * heads.head)
