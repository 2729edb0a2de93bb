"""Intervals of shares: Wilson's, for as many answers as the documents are worth."""

import numpy as np
import pytest

from headscope.stats.bucket import N_BUCKETS
from headscope.stats.interval import align, estimate, proportion

T_63 = 1.998341  # 97.5 % of t with 63 degrees of freedom


def in_buckets(*values: float) -> np.ndarray:
    sums = np.zeros(N_BUCKETS)
    sums[: len(values)] = values
    return sums


def wilson(p: float, n: float, t: float) -> tuple[float, float]:
    middle, half = p + t**2 / (2 * n), t * np.sqrt(p * (1 - p) / n + t**2 / (4 * n**2))
    return (middle - half) / (1 + t**2 / n), (middle + half) / (1 + t**2 / n)


def test_independent_answers_have_wilsons_interval() -> None:
    # ten answers a bucket, as many right in each as independent answers would give or fewer
    correct = np.tile([5.0, 5.0, 6.0, 4.0], N_BUCKETS // 4)
    found = proportion(correct, np.full(N_BUCKETS, 10.0))
    effect = (320 + np.sqrt(10)) / 321  # one answer more, of which nothing is known
    assert (found.low, found.high) == pytest.approx(wilson(0.5, 640 / effect, T_63), rel=1e-6)


def test_answers_that_go_together_count_for_less() -> None:
    correct = np.tile([10.0, 0.0], N_BUCKETS // 2)  # a document is all right or all wrong
    found = proportion(correct, np.full(N_BUCKETS, 10.0))
    assert (found.low, found.high) == pytest.approx(wilson(0.5, 63, T_63), rel=0.01)


def test_a_share_of_all_is_worth_no_more_than_its_documents_allow() -> None:
    # 20 documents of 20 answers, all right: they may well be right or wrong together
    found = proportion(in_buckets(*[20] * 20), in_buckets(*[20] * 20))
    assert found.low == pytest.approx(wilson(1, 400 / np.sqrt(20), 2.093024)[0], rel=1e-6)


@pytest.mark.parametrize("n_right", [0, 2])
def test_all_right_or_all_wrong_has_an_interval_of_some_width(n_right: int) -> None:
    found = proportion(in_buckets(n_right / 2, n_right / 2), in_buckets(1, 1))
    assert found.value == n_right / 2
    assert 0 <= found.low < found.high <= 1


def test_the_interval_of_none_or_all_ends_at_its_number() -> None:
    for n_documents in range(2, 60):
        count = in_buckets(*[3] * n_documents)
        none, every = proportion(0 * count, count), proportion(count, count)
        assert (none.low, every.high) == (0, 1), n_documents


@pytest.mark.parametrize("count", [(), (7,)])
def test_no_answers_or_one_bucket_have_no_interval(count: tuple[int, ...]) -> None:
    found = proportion(in_buckets(*count), in_buckets(*count))
    assert np.isnan([found.low, found.high]).all()


@pytest.mark.parametrize("seed", range(20))
def test_an_interval_holds_its_number_and_stays_between_0_and_1(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = rng.integers(0, 5, N_BUCKETS).astype(float)
    correct = rng.binomial(count.astype(int), rng.choice([0.02, 0.5, 0.98])).astype(float)
    found = proportion(correct, count)
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert found.low < found.high


def test_numbers_over_different_buckets_are_compared_over_all_of_them() -> None:
    one = np.array([2.0, np.nan, 1.0, np.nan])  # on all data, then without each of three buckets
    other = np.array([5.0, 4.0, np.nan, np.nan])
    first, second = align(one, other)
    np.testing.assert_array_equal(first, [2, 2, 1, np.nan])
    np.testing.assert_array_equal(second, [5, 4, 5, np.nan])
    assert estimate(first - second).value == -3


def test_a_number_that_differs_by_rounding_alone_has_no_interval() -> None:
    share = np.array([1.0, 1.0, 1 - 2**-53, 1.0, np.nan])
    assert np.isnan(estimate(share).low)
    assert estimate(share).value == 1.0
