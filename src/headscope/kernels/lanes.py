"""x log2 x and e^x for compiled loops: without a branch or a call, so that loops run in lanes."""

from typing import Any

import numpy as np
from numba.core import types
from numba.extending import intrinsic

from headscope.kernels import njit

__all__ = ["FASTMATH", "FIXED_ORDER", "exp", "from_order", "in_order", "x_log2_x"]

FASTMATH = {"reassoc", "contract", "nsz"}  # sums in lanes, fused products; nothing else is given up

# Without sums in lanes. Compiled code is made twice, apart and with its callers; a process that
# compiles takes the one and a process that reads the cache the other, and both must round alike.
FIXED_ORDER = FASTMATH - {"reassoc"}

# log2(1 + r) is r times this polynomial within 5e-8, for 1 + r between sqrt(1/2) and sqrt(2).
C0, C1, C2, C3 = map(np.float32, (1.4426947724, -0.7213571490, 0.4809394452, -0.3600872130))
C4, C5, C6, C7 = map(np.float32, (0.2867074454, -0.2500690658, 0.2368904636, -0.1457445039))
ONE = np.float32(1)
SQRT_HALF_BITS, EXPONENT_BITS = np.int32(0x3F3504F3), np.int32(-0x800000)
MANTISSA_WIDTH = np.int32(23)

# 2^r is this polynomial within 8e-8, for r between -1/2 and 1/2.
E0, E1, E2 = map(np.float32, (1.0000000755, 0.6931471880, 0.2402210749))
E3, E4, E5 = map(np.float32, (0.0555035711, 0.0096760319, 0.0013390863))
LOG2_E, HALF, LEAST = np.float32(np.log2(np.e)), np.float32(0.5), np.float32(-127)
EXPONENT_BIAS, SIGN_PLACE, ALL_BUT_SIGN = np.int32(127), np.int32(31), np.int32(0x7FFFFFFF)


def _bitcast(given: Any, wanted: Any) -> Any:
    """A function of compiled code: a number with the same bits in another type."""

    def cast(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(wanted))

    return intrinsic(lambda typing, number: (wanted(given), cast))


bits_of = _bitcast(types.float32, types.int32)
float_of = _bitcast(types.int32, types.float32)


@njit(fastmath=FASTMATH)
def x_log2_x(x):  # type: ignore[no-untyped-def]
    """x log2 x of a float32 that is not negative; 0 of 0, without a branch."""
    bits = bits_of(x)
    above = np.int32(bits - SQRT_HALF_BITS)
    exponent = np.float32(np.int32(above >> MANTISSA_WIDTH))
    r = float_of(np.int32(bits - np.int32(above & EXPONENT_BITS))) - ONE
    q = C4 + r * (C5 + r * (C6 + r * C7))
    q = C0 + r * (C1 + r * (C2 + r * (C3 + r * q)))
    return x * (exponent + r * q)


@njit(fastmath=FIXED_ORDER)
def exp(x):  # type: ignore[no-untyped-def]
    """e^x of a float32 that is not positive; 0 where it would be below 2^-126."""
    doublings = x * LOG2_E
    doublings = LEAST if doublings < LEAST else doublings  # NaN stays NaN
    whole = np.int32(doublings - HALF)  # the nearest one, as no number is above 0
    r = doublings - np.float32(whole)
    power = E0 + r * (E1 + r * (E2 + r * (E3 + r * (E4 + r * E5))))
    return power * float_of(np.int32((whole + EXPONENT_BIAS) << MANTISSA_WIDTH))


@njit(fastmath=FASTMATH)
def in_order(x):  # type: ignore[no-untyped-def]
    """An integer for a float32, in the same order: the largest of integers is found in lanes."""
    return _reflect(bits_of(x))


@njit(fastmath=FASTMATH)
def from_order(number):  # type: ignore[no-untyped-def]
    """The float32 of an integer of `in_order`."""
    return float_of(_reflect(number))


@njit(fastmath=FASTMATH)
def _reflect(bits):  # type: ignore[no-untyped-def]
    return np.int32(bits ^ np.int32((bits >> SIGN_PLACE) & ALL_BUT_SIGN))
