"""Differences of runs: as loops over documents give them."""

import numpy as np
import pytest

from headscope.stats.bucket import N_BUCKETS, leave_one_out
from headscope.stats.difference import best_of, paired_difference, unpaired_difference, widen
from headscope.stats.interval import share
from tests.references import comparison as reference
from tests.references.comparison import Documents


def draw_documents(seed: int, buckets: range, shift: float = 0.0) -> Documents:
    draw = np.random.default_rng(seed)
    return {b: (shift + draw.normal(0, 1, draw.integers(1, 5))).tolist() for b in buckets}


def replicates_of(*numbers: Documents) -> np.ndarray:
    above, below = np.zeros((N_BUCKETS, len(numbers))), np.zeros((N_BUCKETS, len(numbers)))
    for column, documents in enumerate(numbers):
        for bucket, values in documents.items():
            above[bucket, column], below[bucket, column] = sum(values), len(values)
    return share(leave_one_out(above), leave_one_out(below))


@pytest.mark.parametrize("n_buckets", [2, 7, 12, 13, 40])
def test_paired_differences_equal_the_definition(n_buckets: int) -> None:
    pairs = [
        tuple(draw_documents(seed + k, range(3, 3 + n_buckets), 0.3 * k) for k in (0, 1))
        for seed in (1, 5, 9)
    ]
    found = paired_difference(*(replicates_of(*part) for part in zip(*pairs, strict=True)))
    expected = [reference.paired(one, other) for one, other in pairs]
    np.testing.assert_allclose(np.transpose(found), expected, rtol=1e-7)


def test_numbers_over_different_few_buckets_are_tested_each_over_its_own() -> None:
    ones = [draw_documents(1, range(0, 8)), draw_documents(2, range(20, 30))]
    others = [draw_documents(3, range(0, 8), 1.0), draw_documents(4, range(20, 30), 1.0)]
    found = paired_difference(replicates_of(*ones), replicates_of(*others))
    expected = [reference.paired(one, other) for one, other in zip(ones, others, strict=True)]
    np.testing.assert_allclose(np.transpose(found), expected, rtol=1e-7)


@pytest.mark.parametrize("n_buckets", [10, 13, 30])
def test_unpaired_differences_equal_the_definition(n_buckets: int) -> None:
    one, other = draw_documents(1, range(n_buckets)), draw_documents(2, range(5, 40), 0.5)
    found = unpaired_difference(replicates_of(one), replicates_of(other))
    np.testing.assert_allclose(np.concatenate(found), reference.unpaired(one, other), rtol=1e-7)


def test_a_difference_that_is_not_paired_is_not_tested_over_few_buckets() -> None:
    few, many = draw_documents(1, range(9)), draw_documents(2, range(5, 40), 9.0)
    for found in (
        unpaired_difference(*map(replicates_of, pair)) for pair in ((few, many), (many, few))
    ):
        assert abs(found.value) > 5
        assert np.isnan([found.low, found.high, found.p_value]).all()


def test_the_same_numbers_have_no_interval_and_no_test() -> None:
    same = replicates_of(draw_documents(1, range(9)))
    found = paired_difference(same, same)
    assert found.value == 0
    assert np.isnan([found.low, found.high, found.p_value]).all()
    alone = replicates_of(draw_documents(1, range(1)))
    assert np.isnan(unpaired_difference(same, alone).p_value).all()


def test_the_largest_is_chosen_without_the_documents_it_is_scored_on() -> None:
    heads = [draw_documents(seed, range(10)) for seed in range(8)]
    best = best_of(replicates_of(*heads))
    means = [reference.mean_without(head, None) for head in heads]
    assert best.place == int(np.argmax(means))
    assert best.held_out[0] == pytest.approx(reference.held_out_best(heads))
    assert best.held_out[0] < best.largest[0] == max(means)  # the luck of the choice is gone
    without = [max(reference.mean_without(head, b) for head in heads) for b in range(10)]
    np.testing.assert_allclose(best.largest[1:11], without)
    one_bucket = best_of(replicates_of(*(draw_documents(s, [8]) for s in (1, 2))))
    np.testing.assert_array_equal(one_bucket.held_out, one_bucket.largest)


def test_the_difference_of_largest_heads_holds_what_all_data_and_other_documents_say() -> None:
    """All heads of a run are equal, so the largest of many is luck: its interval knows."""
    n_held = n_told_apart = 0
    for seed in range(40):
        draw = np.random.default_rng(seed)
        sums = draw.normal(0, 1, (2, N_BUCKETS, 30))
        sums[0, :, 1:] -= 1.5  # the first run has one head that is largest, the other thirty
        counts = np.ones((N_BUCKETS, 30))
        one, other = (best_of(share(leave_one_out(s), leave_one_out(counts))) for s in sums)
        found = [paired_difference(other[p][:, None], one[p][:, None]) for p in (1, 2)]
        wide = widen(*found)
        n_held += bool(wide.low[0] <= 0 <= wide.high[0])
        n_told_apart += bool(found[1].p_value[0] < 0.05)
        assert wide.value == found[0].value
        assert wide.p_value == max(part.p_value for part in found)
    assert n_held >= 36
    assert n_told_apart >= 8  # the largest on all data would be called different
