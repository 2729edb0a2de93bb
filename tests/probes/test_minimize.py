"""The search for a minimum: exact where it is known, honest where it is not reached."""

import numpy as np
import pytest

from headscope.probes.attention_only import minimize


def valley(point: np.ndarray) -> tuple[float, np.ndarray]:
    """Convex, badly scaled, with its minimum at (1, -2, 3)."""
    away, scale = point - np.array([1.0, -2.0, 3.0]), np.array([1.0, 100.0, 1e4])
    value = np.sqrt(1 + scale * away**2).sum()
    return float(value), scale * away / np.sqrt(1 + scale * away**2)


@pytest.mark.parametrize("hessian", [np.eye(3), np.diag([1.0, 100.0, 1e4])])
def test_the_minimum_is_found_whatever_the_approximate_hessian(hessian: np.ndarray) -> None:
    found = minimize(valley, np.zeros(3), hessian, tolerance=1e-8)
    assert found.is_converged
    assert found.gradient <= 1e-8
    np.testing.assert_allclose(found.point, [1, -2, 3], atol=1e-7)


def test_the_true_hessian_makes_a_quadratic_take_one_step() -> None:
    scale = np.array([1.0, 1e6])
    found = minimize(
        lambda x: (float(scale @ x**2) / 2, scale * x), np.ones(2), np.diag(scale), 1e-6
    )
    assert found.is_converged
    assert found.iterations == 1


def test_a_search_that_is_cut_short_says_so() -> None:
    found = minimize(valley, np.zeros(3), np.eye(3), tolerance=1e-8, most_iterations=2)
    assert not found.is_converged
    assert found.iterations == 2


def test_no_step_down_ends_the_search() -> None:
    found = minimize(lambda x: (0.0, np.ones(2)), np.zeros(2), np.eye(2), tolerance=1e-8)
    assert not found.is_converged  # a gradient that promises what the value does not keep
    assert found.iterations == 0


def test_a_start_at_the_minimum_is_kept() -> None:
    start = np.array([1.0, -2.0, 3.0])
    found = minimize(valley, start, np.eye(3), tolerance=1e-8)
    assert (found.iterations, found.evaluations, found.is_converged) == (0, 1, True)
    np.testing.assert_array_equal(found.point, start)


def test_progress_is_told_after_every_step_and_ends_with_the_result() -> None:
    told = list[tuple[float, float]]()
    found = minimize(
        valley, np.zeros(3), np.eye(3), 1e-8, report=lambda value, norm: told.append((value, norm))
    )
    values = [value for value, _ in told]
    assert len(told) == found.iterations > 2
    assert values == sorted(values, reverse=True)
    assert told[-1] == pytest.approx((found.value, found.gradient), rel=1e-6)
    assert all(norm > 1e-8 for _, norm in told[:-1])  # it stops as soon as it may
