"""Minimising a smooth convex function: L-BFGS in coordinates in which its curvature is even."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

__all__ = ["Minimum", "minimize"]

MEMORY = 30  # pairs of steps and changes of the gradient
MOST_TRIALS = 30  # of step lengths along a direction
DECREASE, CURVATURE = 1e-4, 0.9  # the two conditions of Wolfe

Vector = Float[NDArray[np.float64], " parameter"]
Matrix = Float[NDArray[np.float64], "parameter other"]
Function = Callable[[Vector], tuple[float, Vector]]  # the value and the gradient at a point


@dataclass(frozen=True, eq=False)
class Minimum:
    """Where a search ended, and how."""

    point: Vector
    value: float
    gradient: float  # its norm
    iterations: int
    evaluations: int
    is_converged: bool


def minimize(
    function: Function,
    start: Vector,
    curvature: Matrix,
    tolerance: float,
    most_iterations: int = 500,
    report: Callable[[float, float], None] = lambda value, gradient: None,
) -> Minimum:
    """The point at which the gradient's norm is at most `tolerance`.

    `curvature` is a rough Hessian: in coordinates in which it is the identity, few steps lead to
    the minimum however alike the features are. It changes the path, not the place.
    """
    factor = np.linalg.cholesky(curvature)  # curvature = factor @ factor.T
    search = _Search(function, np.linalg.inv(factor))
    point = start
    value, gradient = search.evaluate(point)
    steps: deque[tuple[Vector, Vector]] = deque(maxlen=MEMORY)
    iterations = 0
    while np.linalg.norm(gradient) > tolerance and iterations < most_iterations:
        flat = search.inverse @ gradient  # the gradient in the even coordinates
        direction = search.inverse.T @ -_apply_inverse_hessian(steps, flat)
        found = search.along(point, value, gradient, direction)
        if found is None:  # rounding: no step goes down any more
            break
        moved = factor.T @ (found[0] - point)
        changed = search.inverse @ (found[2] - gradient)
        if moved @ changed > 0:
            steps.append((moved, changed))
        point, value, gradient = found
        iterations += 1
        report(value, float(np.linalg.norm(gradient)))
    norm = float(np.linalg.norm(gradient))
    return Minimum(point, value, norm, iterations, search.evaluations, norm <= tolerance)


@dataclass
class _Search:
    function: Function
    inverse: Matrix  # of the curvature's factor
    evaluations: int = 0

    def evaluate(self, point: Vector) -> tuple[float, Vector]:
        self.evaluations += 1
        return self.function(point)

    def along(
        self, point: Vector, value: float, gradient: Vector, direction: Vector
    ) -> tuple[Vector, float, Vector] | None:
        """A step that goes down enough but not too short: by doubling and halving."""
        slope = float(gradient @ direction)
        length, shortest, longest = 1.0, 0.0, np.inf
        for _ in range(MOST_TRIALS):
            there = point + length * direction
            new_value, new_gradient = self.evaluate(there)
            if not new_value <= value + DECREASE * length * slope:
                longest = length
            elif float(new_gradient @ direction) < CURVATURE * slope:
                shortest = length
            else:
                return there, new_value, new_gradient
            length = 2 * length if np.isinf(longest) else (shortest + longest) / 2
        return None


def _apply_inverse_hessian(steps: deque[tuple[Vector, Vector]], vector: Vector) -> Vector:
    """The inverse Hessian that the steps taken so far tell of, times a vector (two loops)."""
    shares = []
    result = vector.copy()
    for moved, changed in reversed(steps):
        share = (moved @ result) / (moved @ changed)
        result -= share * changed
        shares.append(share)
    if steps:
        moved, changed = steps[-1]
        result *= (moved @ changed) / (changed @ changed)
    for (moved, changed), share in zip(steps, reversed(shares), strict=True):
        result += (share - (changed @ result) / (moved @ changed)) * moved
    return result
