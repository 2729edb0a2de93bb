"""Sums that are the same in whatever order they are added: of batches, shards, parts or machines.

Floating-point addition rounds, so that (a + b) + c is not a + (b + c). Here every number is a
multiple of 2^-56 and its sum is kept in two: the nearest float64, and the rest, which a second one
holds without loss. Sums below 2^45 are exact; so is everything that single precision can say
above 2^-32.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["ExactSum", "add_exactly", "on_grid"]

STEPS = 2.0**56  # in 1: a number that is no multiple of a step is rounded to one

Array = NDArray[np.float64]


class ExactSum(NamedTuple):
    """A sum as the nearest float64 and what is left of it; None: nothing is left anywhere."""

    total: Array
    rest: Array | None = None


def on_grid(values: NDArray[np.floating[Any]]) -> Array:
    """The values as multiples of a step."""
    steps = np.multiply(values, STEPS, dtype=np.float64)
    np.rint(steps, out=steps)
    return np.divide(steps, STEPS, out=steps)


def add_exactly(one: ExactSum, other: ExactSum) -> ExactSum:
    """The sum of both, without loss: Knuth's TwoSum.

    >>> a, b = (ExactSum(np.array([x])) for x in (1.0, 2.0**-55))
    >>> total, rest = add_exactly(a, b)
    >>> total[0], rest[0] == 2.0**-55
    (np.float64(1.0), np.True_)
    """
    first, second = one.total, other.total
    near = first + second
    part = near - first
    lost = near - part
    np.subtract(first, lost, out=lost)
    lost += second - part
    for rest in (one.rest, other.rest):
        if rest is not None:
            lost += rest
    if not lost.any():
        return ExactSum(near)
    total = near + lost
    np.subtract(total, near, out=near)
    rest = np.subtract(lost, near, out=lost)
    return ExactSum(total, rest if rest.any() else None)
