"""Differences paired by bucket of documents, tested and corrected."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from headscope.stats.bucket import N_BUCKETS
from headscope.stats.tests import compare, holm, max_null_p, pool_random_effects, sign_flip_p


def test_with_equal_buckets_the_test_is_the_paired_t_test() -> None:
    rng = np.random.default_rng(0)
    one, other = rng.binomial(10, (0.6, 0.5), (N_BUCKETS, 2)).T.astype(float)
    found = compare(one, other, np.full(N_BUCKETS, 10.0))
    expected = stats.ttest_rel(one, other)
    assert found.value == pytest.approx((one - other).mean() / 10)
    assert found.p_value == pytest.approx(expected.pvalue, rel=1e-6)
    low, high = expected.confidence_interval(0.95)
    assert (found.low * 10, found.high * 10) == pytest.approx((low, high), rel=1e-6)


def test_no_difference_of_shares_is_beyond_one() -> None:
    one, other, count = (np.zeros(N_BUCKETS) for _ in range(3))
    other[0], count[:2] = 1, 1  # two words: one found by the other system, one by none
    found = compare(one, other, count)
    assert (found.value, found.low, found.high) == (-0.5, -1, 1)


def test_few_buckets_are_tested_by_all_their_signs() -> None:
    differences = np.array([3.0, 1.0, 2.0, -1.0, 4.0])
    sums = [abs(np.dot(signs, differences)) for signs in product((1, -1), repeat=5)]
    expected = np.mean([s >= 9 for s in sums])
    assert sign_flip_p(differences) == expected
    found = np.zeros(N_BUCKETS)
    found[:5] = differences + 5
    other, count = np.zeros(N_BUCKETS), np.zeros(N_BUCKETS)
    other[:5], count[:5] = 5, 10
    assert compare(found, other, count).p_value == expected


def test_without_a_difference_the_test_seldom_finds_one() -> None:
    rng = np.random.default_rng(0)
    count = np.full(N_BUCKETS, 6.0)
    draws = rng.binomial(6, 0.5, (400, 2, N_BUCKETS)).astype(float)
    p_values = np.array([compare(*pair, count).p_value for pair in draws])
    assert 0.02 <= (p_values < 0.05).mean() <= 0.08


def test_a_difference_of_the_detectable_size_is_found_in_four_of_five_studies() -> None:
    rng = np.random.default_rng(1)
    count = np.full(N_BUCKETS, 20.0)
    found = [
        compare(*rng.binomial(20, [[0.56], [0.5]], (2, N_BUCKETS)).astype(float), count)
        for _ in range(300)
    ]
    detectable = np.mean([f.detectable for f in found])
    power = stats.norm.cdf(0.06 / detectable * (1.96 + 0.84) - 1.96)
    assert np.mean([f.p_value < 0.05 for f in found]) == pytest.approx(power, abs=0.06)


@pytest.mark.parametrize("n_buckets", [0, 1])
def test_nothing_to_compare_gives_no_p_value(n_buckets: int) -> None:
    count = np.zeros(N_BUCKETS)
    count[:n_buckets] = 5
    found = compare(count / 5, 0 * count, count)
    assert np.isnan(found.p_value)
    assert np.isnan(found.low)


def test_the_best_of_all_is_held_against_the_best_of_all_by_chance() -> None:
    null = np.array([0.3, 0.4, 0.5, 0.35])
    assert max_null_p(0.6, null) == 1 / 5
    assert max_null_p(0.4, null) == 3 / 5


def test_corpora_that_differ_widen_the_mean_and_what_is_predicted() -> None:
    errors = np.full(4, 0.02)
    alike = pool_random_effects(np.array([0.50, 0.51, 0.49, 0.50]), errors)
    apart = pool_random_effects(np.array([0.30, 0.60, 0.40, 0.70]), errors)
    assert alike.spread == 0
    assert apart.spread == pytest.approx(np.std([0.3, 0.6, 0.4, 0.7], ddof=1), rel=0.05)
    assert apart.mean.high - apart.mean.low > alike.mean.high - alike.mean.low
    assert apart.predicted_high > apart.mean.high > apart.mean.value > apart.predicted_low


def test_holm_corrects_only_what_was_tested() -> None:
    assert holm(np.array([0.02, np.nan, 0.01])).tolist()[::2] == [0.02, 0.02]
    assert holm(np.array([0.9, 0.8])).tolist() == [1.0, 1.0]


def test_pooled_intervals_stay_where_shares_and_differences_can_be() -> None:
    values, errors = np.array([0.02, 0.5, 0.99]), np.full(3, 0.01)
    share = pool_random_effects(values, errors, lowest=0.0)
    assert (share.mean.low, share.mean.high) == (0, 1)
    assert (share.predicted_low, share.predicted_high) == (0, 1)
    difference = pool_random_effects(values, errors)
    assert -1 < difference.mean.low < 0
    assert difference.predicted_low == -1
