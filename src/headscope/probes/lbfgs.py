"""The minimum of a smooth convex function: L-BFGS with a preconditioner."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

__all__ = ["Minimum", "minimize"]

MEMORY = 30  # steps from which the curvature is estimated
MOST_TRIALS = 30  # of step lengths along a direction
DECREASE, CURVATURE = 1e-4, 0.9  # the two conditions of Wolfe

Vector = Float[NDArray[np.float64], " parameter"]
Matrix = Float[NDArray[np.float64], "parameter other"]
Function = Callable[[Vector], tuple[float, Vector]]  # the value and the gradient at a point
Report = Callable[[float, float], None]  # is told the value and the gradient's norm


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
    hessian: Matrix,
    tolerance: float,
    most_iterations: int = 500,
    report: Report = lambda value, gradient: None,
) -> Minimum:
    """The point at which the gradient's norm is at most `tolerance`.

    `hessian` may be approximate: in coordinates in which it is the identity, few steps lead to the
    minimum however alike the features are. It changes the path, not the minimum.
    """
    evaluations = iterations = 0

    def evaluate(point: Vector) -> tuple[float, Vector]:
        nonlocal evaluations
        evaluations += 1
        return function(point)

    factor = np.linalg.cholesky(hessian)  # hessian = factor @ factor.T
    inverse = np.linalg.inv(factor)
    point, (value, gradient) = start, evaluate(start)
    steps: deque[tuple[Vector, Vector]] = deque(maxlen=MEMORY)
    while np.linalg.norm(gradient) > tolerance and iterations < most_iterations:
        scaled = inverse @ gradient  # in the coordinates of the preconditioner
        direction = inverse.T @ -_apply_inverse_hessian(steps, scaled)
        lower = _step_along(direction, evaluate, point, value, gradient)
        if lower is None:  # rounding: no step goes down any more
            break
        step = factor.T @ (lower[0] - point)
        change = inverse @ (lower[2] - gradient)
        if step @ change > 0:
            steps.append((step, change))
        point, value, gradient = lower
        iterations += 1
        report(value, float(np.linalg.norm(gradient)))
    norm = float(np.linalg.norm(gradient))
    return Minimum(point, value, norm, iterations, evaluations, norm <= tolerance)


def _step_along(
    direction: Vector, evaluate: Function, point: Vector, value: float, gradient: Vector
) -> tuple[Vector, float, Vector] | None:
    """A step that meets both conditions, by doubling and halving its length."""
    slope = float(gradient @ direction)
    length, shortest, longest = 1.0, 0.0, np.inf
    for _ in range(MOST_TRIALS):
        there = point + length * direction
        new_value, new_gradient = evaluate(there)
        if not new_value <= value + DECREASE * length * slope:
            longest = length
        elif float(new_gradient @ direction) < CURVATURE * slope:
            shortest = length
        else:
            return there, new_value, new_gradient
        length = 2 * length if np.isinf(longest) else (shortest + longest) / 2
    return None


def _apply_inverse_hessian(steps: deque[tuple[Vector, Vector]], vector: Vector) -> Vector:
    """The inverse Hessian, as estimated from the steps so far, times a vector (two loops)."""
    shares = []
    result = vector.copy()
    for step, change in reversed(steps):
        share = (step @ result) / (step @ change)
        result -= share * change
        shares.append(share)
    if steps:
        step, change = steps[-1]
        result *= (step @ change) / (change @ change)
    for (step, change), share in zip(steps, reversed(shares), strict=True):
        result += (share - (change @ result) / (step @ change)) * step
    return result
