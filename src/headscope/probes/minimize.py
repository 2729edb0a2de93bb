"""The minimum of a smooth convex function: SciPy's L-BFGS with a preconditioner."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from scipy import optimize

__all__ = ["Matrix", "Minimum", "Report", "Vector", "minimize"]

MEMORY = 30  # steps from which the curvature is estimated

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
    at_start = function(start)
    value, gradient = at_start
    if np.linalg.norm(gradient) <= tolerance:
        return Minimum(start, value, float(np.linalg.norm(gradient)), 0, 1, is_converged=True)
    factor = np.linalg.cholesky(hessian)  # hessian = factor @ factor.T
    inverse = np.linalg.inv(factor)
    # SciPy's first step has length 1; in these units that is a step of Newton's
    unit = float(np.linalg.norm(inverse @ gradient))

    def evaluate(moved: Vector) -> tuple[float, Vector]:
        nonlocal gradient
        is_start = not moved.any()
        value, gradient = at_start if is_start else function(start + unit * (inverse.T @ moved))
        return value, unit * (inverse @ gradient)

    def stop_if_converged(intermediate_result: optimize.OptimizeResult) -> None:
        norm = float(np.linalg.norm(gradient))  # the point that was evaluated last is the new one
        report(float(intermediate_result.fun), norm)
        if norm <= tolerance:
            raise StopIteration

    result = optimize.minimize(
        evaluate,
        np.zeros_like(start),
        jac=True,
        method="L-BFGS-B",
        callback=stop_if_converged,
        options={"maxcor": MEMORY, "maxiter": most_iterations, "ftol": 0.0, "gtol": 0.0},
    )
    point, norm = start + unit * (inverse.T @ result.x), np.linalg.norm(factor @ result.jac) / unit
    # no step down any more, as rounding is in the way, is no convergence
    return Minimum(
        point, float(result.fun), float(norm), result.nit, result.nfev, bool(norm <= tolerance)
    )
