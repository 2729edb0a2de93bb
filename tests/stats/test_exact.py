"""Sums are exact: no order and no grouping changes a bit."""

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headscope.stats.sums import STEPS, ExactSum, Tally, add_exactly, on_grid

NUMBERS = st.floats(-(2.0**40), 2.0**40, allow_nan=False) | st.floats(-1.0, 1.0)


@given(st.lists(NUMBERS, min_size=1, max_size=30), st.randoms(use_true_random=False))
def test_the_sum_is_the_true_one_in_whatever_order(numbers: list[float], random) -> None:  # type: ignore[no-untyped-def]
    sums = [ExactSum(on_grid(np.array([number]))) for number in numbers]
    true = sum((Fraction(float(one.total[0])) for one in sums), Fraction(0))
    while len(sums) > 1:  # any two of them, until one is left
        one, other = (sums.pop(random.randrange(len(sums))) for _ in range(2))
        sums.append(add_exactly(one, other))
    total, rest = sums[0]
    assert total[0] == float(true), "the nearest number"
    assert Fraction(float(total[0])) + Fraction(float(0 if rest is None else rest[0])) == true


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_single_precision_is_kept_but_for_tiny_numbers(number: float) -> None:
    kept = on_grid(np.array([number], np.float64))[0]
    assert kept == number if abs(number) >= 2.0**-32 else abs(kept - number) <= 0.5 / STEPS


def test_tallies_add_to_the_same_bits_in_any_order() -> None:
    random = np.random.default_rng(0)
    parts = []
    for _ in range(50):
        tally = Tally()
        values = np.exp(random.normal(0, 8, (7, 3))).astype(np.float32)
        tally.add(random.integers(0, 64, 7), {"x": values, "n": np.ones((7, 1))})
        parts.append(tally)
    plain, exact = [], []
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(50)
        total, rounded = Tally(), np.zeros((64, 3))
        for i in order:
            total = total + parts[i]
            rounded = rounded + parts[i].totals["x"]
        exact.append(total)
        plain.append(rounded.tobytes())
    assert len({tally.totals["x"].tobytes() for tally in exact}) == 1
    assert len({tally.rests["x"].tobytes() for tally in exact}) == 1
    assert "n" not in exact[0].rests, "counts are exact as they are"
    assert len(set(plain)) > 1, "else the test could not fail"


def test_adding_in_place_gives_the_same_and_leaves_the_other_alone() -> None:
    random = np.random.default_rng(0)
    parts = [Tally({"x": random.random((64, 5)) * 10.0**k}) for k in range(-6, 6)]
    kept = [part.totals["x"].copy() for part in parts]
    total, in_place = Tally(), Tally()
    for part in parts:
        total = total + part
        in_place += part
    assert in_place.totals["x"].tobytes() == total.totals["x"].tobytes()
    assert in_place.rests["x"].tobytes() == total.rests["x"].tobytes()
    assert all(np.array_equal(part.totals["x"], k) for part, k in zip(parts, kept, strict=True))
