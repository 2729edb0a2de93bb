"""Totals that add, and the intervals they give."""

import numpy as np
import pytest

from headscope.data.example import stable_hash
from headscope.stats.replicates import replicate_weights
from headscope.stats.tally import Tally, estimate


def tally_of(values: np.ndarray, n_replicates: int = 1000) -> Tally:
    keys = [stable_hash(f"value:{i}") for i in range(len(values))]
    tally = Tally()
    arrays = {"sum": values[:, None], "count": np.ones((len(values), 1))}  # [example, layer]
    tally.add(replicate_weights(keys, 0, n_replicates), arrays)
    return tally


def test_the_estimate_is_the_plain_mean() -> None:
    values = np.random.default_rng(0).normal(size=100)
    assert tally_of(values).ratio("sum", "count").value[0] == pytest.approx(values.mean())


def test_the_interval_is_as_wide_as_the_standard_error_says() -> None:
    values = np.random.default_rng(0).normal(size=400)
    low, high = (float(bound[0]) for bound in tally_of(values).ratio("sum", "count")[1:])
    expected = 2 * 1.96 * values.std() / np.sqrt(len(values))
    assert high - low == pytest.approx(expected, rel=0.1)


def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    rng = np.random.default_rng(7)
    covered = 0
    for _ in range(200):
        low, high = tally_of(rng.exponential(size=80), 200).ratio("sum", "count")[1:]
        covered += bool(low[0] <= 1 <= high[0])
    assert 0.88 <= covered / 200 <= 0.99


def test_nothing_over_nothing_is_no_number() -> None:
    tally = Tally({"sum": np.zeros((2, 3, 1)), "count": np.zeros((2, 3, 1))})
    assert np.isnan(tally.ratio("sum", "count")).all()


def test_replicates_without_a_value_are_left_out_of_the_interval() -> None:
    low, high = estimate(np.array([[5.0], [np.nan], [4.0], [6.0]]))[1:]
    assert 4 <= low[0] < high[0] <= 6


def test_adding_leaves_both_tallies_as_they_were() -> None:
    one, other = Tally({"a": np.ones((2, 1, 1))}), Tally({"a": np.ones((2, 1, 1))})
    total = one + other + other
    assert total.totals["a"].sum() == 6
    assert one.totals["a"].sum() == other.totals["a"].sum() == 2


def test_a_name_that_one_tally_lacks_counts_as_zero() -> None:
    total = Tally({"a": np.ones(1)}) + Tally({"b": np.full(1, 2.0)})
    assert {name: value.sum() for name, value in total.totals.items()} == {"a": 1, "b": 2}
