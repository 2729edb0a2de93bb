"""Sums that are the same in whatever order they are added: of batches, shards, parts or machines.

Floating-point addition rounds, so that (a + b) + c is not a + (b + c). Here every number is a
multiple of 2^-56 and its sum is kept in two: the nearest float64, and the rest, which a second one
holds without loss. Sums below 2^45 are exact; so is everything that single precision can say
above 2^-32.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["ExactSum", "add_exactly", "on_grid"]

STEPS = 2.0**56  # in 1: a number that is no multiple of a step is rounded to one
CHUNK = 1 << 15  # numbers added at a time

Array = NDArray[np.float64]


class ExactSum(NamedTuple):
    """A sum as the nearest float64 and what is left of it; None: nothing is left anywhere."""

    total: Array
    rest: Array | None = None


def on_grid(values: Array) -> Array:
    """The values rounded to multiples of a step, in place."""
    np.multiply(values, STEPS, out=values)
    np.rint(values, out=values)
    return np.divide(values, STEPS, out=values)


def add_exactly(one: ExactSum, other: ExactSum) -> ExactSum:
    """The sum of both, without loss, in the place of the first: Knuth's TwoSum.

    >>> a, b = (ExactSum(np.array([x])) for x in (1.0, 2.0**-55))
    >>> total, rest = add_exactly(a, b)
    >>> total[0], rest[0] == 2.0**-55
    (np.float64(1.0), np.True_)
    """
    first, second = one.total.reshape(-1), other.total.reshape(-1)
    rests = [part.rest.reshape(-1) for part in (one, other) if part.rest is not None]
    rest = rests[0] if one.rest is not None else None
    for start in range(0, len(first), CHUNK):  # in the cache, and without large copies
        some = slice(start, start + CHUNK)
        near, lost = _add_two(first[some], second[some])
        for known in rests:
            lost += known[some]
        np.add(near, lost, out=first[some])
        lost -= first[some] - near
        if rest is None and lost.any():
            rest = np.zeros_like(first)
        if rest is not None:
            rest[some] = lost
    shape = one.total.shape
    return ExactSum(first.reshape(shape), None if rest is None else rest.reshape(shape))


def _add_two(first: Array, second: Array) -> tuple[Array, Array]:
    """The nearest float64 to each sum, and what is lost of it."""
    near = first + second
    part = near - first
    lost = near - part
    np.subtract(first, lost, out=lost)
    lost += second - part
    return near, lost
