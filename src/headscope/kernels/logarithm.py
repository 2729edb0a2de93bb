"""x log2 x for compiled loops: without a branch or a call, so that a loop over it runs in lanes."""

from typing import Any

import numba
import numpy as np
from numba.core import types
from numba.extending import intrinsic

__all__ = ["FASTMATH", "x_log2_x"]

FASTMATH = {"reassoc", "contract", "nsz"}  # sums in lanes, fused products; nothing else is given up

# log2(1 + r) is r times this polynomial within 5e-8, for 1 + r between sqrt(1/2) and sqrt(2).
C0, C1, C2, C3 = map(np.float32, (1.4426947724, -0.7213571490, 0.4809394452, -0.3600872130))
C4, C5, C6, C7 = map(np.float32, (0.2867074454, -0.2500690658, 0.2368904636, -0.1457445039))
ONE = np.float32(1)
SQRT_HALF_BITS, EXPONENT_BITS = np.int32(0x3F3504F3), np.int32(-0x800000)
MANTISSA_WIDTH = np.int32(23)


def _bitcast(given: Any, wanted: Any) -> Any:
    """A function of compiled code: a number with the same bits in another type."""

    def cast(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(wanted))

    return intrinsic(lambda typing, number: (wanted(given), cast))


_bits_of = _bitcast(types.float32, types.int32)
_float_of = _bitcast(types.int32, types.float32)


@numba.njit(cache=True, fastmath=FASTMATH)
def x_log2_x(x):  # type: ignore[no-untyped-def]
    """x log2 x of a float32 that is not negative; 0 of 0, without a branch."""
    bits = _bits_of(x)
    above = np.int32(bits - SQRT_HALF_BITS)
    exponent = np.float32(np.int32(above >> MANTISSA_WIDTH))
    r = _float_of(np.int32(bits - np.int32(above & EXPONENT_BITS))) - ONE
    q = C4 + r * (C5 + r * (C6 + r * C7))
    q = C0 + r * (C1 + r * (C2 + r * (C3 + r * q)))
    return x * (exponent + r * q)
