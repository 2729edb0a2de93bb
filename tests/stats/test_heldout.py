"""The best candidate is scored on documents that had no part in its choice."""

import numpy as np
import pytest

from headscope.stats.bucket import N_BUCKETS, N_FOLDS, fold_of
from headscope.stats.heldout import choose_best


def reference(correct: np.ndarray, count: np.ndarray) -> float:
    """Choose on seven folds and score on the eighth, in plain loops."""
    right = 0.0
    for fold in range(N_FOLDS):
        totals = [0.0] * correct.shape[1]
        for bucket in range(N_BUCKETS):
            if fold_of(bucket) != fold:
                for candidate in range(correct.shape[1]):
                    totals[candidate] += correct[bucket, candidate]
        chosen = totals.index(max(totals))
        right += sum(correct[b, chosen] for b in range(N_BUCKETS) if fold_of(b) == fold)
    return right / count.sum()


@pytest.mark.parametrize("seed", range(10))
def test_held_out_scores_equal_plain_loops(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = rng.integers(1, 9, N_BUCKETS).astype(float)
    correct = rng.binomial(count.astype(int)[:, None], 0.5, (N_BUCKETS, 12)).astype(float)
    best = choose_best(correct, count)
    assert best.heldout.sum() / count.sum() == pytest.approx(reference(correct, count))
    assert best.place == correct.sum(axis=0).argmax()


def test_the_best_of_many_by_luck_is_not_better_held_out() -> None:
    rng = np.random.default_rng(0)
    correct = rng.binomial(4, 0.5, (N_BUCKETS, 300)).astype(float)
    best = choose_best(correct, np.full(N_BUCKETS, 4.0))
    assert correct[:, best.place].sum() / 256 > 0.57
    assert best.heldout.sum() / 256 == pytest.approx(0.5, abs=0.06)
    assert best.n_agreeing < N_FOLDS


def test_a_clear_winner_is_chosen_in_every_fold() -> None:
    correct = np.zeros((N_BUCKETS, 3))
    correct[:, 1] = 1
    best = choose_best(correct, np.ones(N_BUCKETS))
    assert (best.place, best.n_agreeing, best.n_folds, best.other) == (1, 8, 8, None)
    assert best.heldout.sum() == N_BUCKETS


def test_the_other_choice_is_named() -> None:
    correct = np.ones((N_BUCKETS, 3))
    correct[:, 2] = 0
    correct[fold_of(np.arange(N_BUCKETS)) == 3, 0] += 1  # best thanks to one fold
    correct[0, 1] += 1
    best = choose_best(correct, np.full(N_BUCKETS, 2.0))
    assert (best.place, best.other) == (0, 1)
    assert best.n_agreeing == 7


def test_documents_in_one_fold_cannot_be_held_out() -> None:
    correct, count = np.zeros((N_BUCKETS, 2)), np.zeros(N_BUCKETS)
    correct[[8, 16]], count[[8, 16]] = 1, 1  # both in fold 0
    best = choose_best(correct, count)
    assert best.n_folds == 0
    assert best.heldout_count.sum() == 0
