"""The best candidate is scored on documents that had no part in its choice."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headscope.stats.accuracy import choose_best
from headscope.stats.bucket import N_BUCKETS, N_FOLDS, N_PARTITIONS, make_partitions
from tests.references import folds as reference_folds


def reference(correct: np.ndarray, count: np.ndarray) -> float:
    """Choose on seven folds and score on the eighth, in plain loops, for each way to fold."""
    right = 0.0
    for folds in make_partitions(count):
        for fold in range(N_FOLDS):
            totals = [0.0] * correct.shape[1]
            for bucket in range(N_BUCKETS):
                if folds[bucket] != fold:
                    for candidate in range(correct.shape[1]):
                        totals[candidate] += correct[bucket, candidate]
            chosen = totals.index(max(totals))
            right += sum(correct[b, chosen] for b in range(N_BUCKETS) if folds[b] == fold)
    return right / N_PARTITIONS / count.sum()


@pytest.mark.parametrize("seed", range(10))
def test_held_out_scores_equal_plain_loops(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = rng.integers(1, 9, N_BUCKETS).astype(float)
    correct = rng.binomial(count.astype(int)[:, None], 0.5, (N_BUCKETS, 12)).astype(float)
    best = choose_best(correct, count)
    assert best.heldout.sum() / count.sum() == pytest.approx(reference(correct, count))
    assert best.place == correct.sum(axis=0).argmax()


@given(st.lists(st.integers(0, 1000), min_size=N_BUCKETS, max_size=N_BUCKETS))
def test_folds_hold_about_as_many_words_in_every_partition(sizes: list[int]) -> None:
    count = np.array(sizes, float)
    for folds in make_partitions(count):
        words = np.bincount(folds, count, minlength=N_FOLDS)
        assert words.max() - words.min() <= count.max()
        n_used = np.bincount(folds[count > 0], minlength=N_FOLDS)
        assert n_used.max() - n_used.min() <= 1


def test_partitions_equal_plain_loops() -> None:
    count = np.random.default_rng(0).integers(0, 5, N_BUCKETS).astype(float)
    expected = reference_folds.make_partitions(dict(enumerate(count)))
    for folds, one in zip(make_partitions(count), expected, strict=True):
        assert folds.tolist() == [one[bucket] for bucket in range(N_BUCKETS)]


def test_partitions_differ() -> None:
    partitions = make_partitions(np.arange(N_BUCKETS, dtype=float))
    together = partitions[:, :, None] == partitions[:, None]  # [partition, bucket, bucket]
    assert len({part.tobytes() for part in together}) == N_PARTITIONS


def test_the_best_of_many_by_luck_is_not_better_held_out() -> None:
    rng = np.random.default_rng(0)
    correct = rng.binomial(4, 0.5, (N_BUCKETS, 300)).astype(float)
    best = choose_best(correct, np.full(N_BUCKETS, 4.0))
    assert correct[:, best.place].sum() / 256 > 0.57
    assert best.heldout.sum() / 256 == pytest.approx(0.5, abs=0.06)
    assert best.n_agreeing < best.n_folds


def test_a_clear_winner_is_chosen_in_every_fold() -> None:
    correct = np.zeros((N_BUCKETS, 3))
    correct[:, 1] = 1
    best = choose_best(correct, np.ones(N_BUCKETS))
    n_choices = N_FOLDS * N_PARTITIONS
    assert (best.place, best.n_agreeing, best.n_folds, best.other) == (
        1,
        n_choices,
        n_choices,
        None,
    )
    assert best.heldout.sum() == N_BUCKETS


def test_the_other_choice_is_named() -> None:
    correct = np.ones((N_BUCKETS, 3))
    correct[:, 2] = 0
    correct[3, 0] += 2  # best thanks to one bucket
    correct[0, 1] += 1
    best = choose_best(correct, np.full(N_BUCKETS, 3.0))
    assert (best.place, best.other) == (0, 1)
    assert best.n_agreeing == (N_FOLDS - 1) * N_PARTITIONS


def test_two_buckets_are_held_out_in_turn_and_one_cannot_be() -> None:
    correct, count = np.zeros((N_BUCKETS, 2)), np.zeros(N_BUCKETS)
    correct[[8, 16]], count[[8, 16]] = 1, 1
    assert choose_best(correct, count).heldout_count.sum() == 2
    correct[16], count[16] = 0, 0
    best = choose_best(correct, count)
    assert best.n_folds == 0
    assert best.heldout_count.sum() == 0
