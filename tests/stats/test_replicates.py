"""Bootstrap weights: streamed, yet the same whatever the order."""

import numpy as np

from headscope.data.example import Example
from headscope.stats.replicates import N_FOLDS, replicate_weights

KEYS = [Example(f"made:{i}", text="x").key for i in range(4000)]


def test_replicate_zero_counts_every_example_once() -> None:
    weights = replicate_weights(KEYS, seed=0, n_replicates=3)
    assert weights.shape == (N_FOLDS, 4, len(KEYS))
    assert (weights[:, 0].sum(axis=0) == 1).all()


def test_an_example_belongs_to_one_fold_in_every_replicate() -> None:
    weights = replicate_weights(KEYS, seed=0, n_replicates=20)
    assert not (weights.sum(axis=1) > 0).all(axis=0).any()
    share = weights[0, 0].mean()
    assert 0.45 < share < 0.55


def test_weights_of_an_example_do_not_depend_on_the_others() -> None:
    together = replicate_weights(KEYS[:50], seed=3, n_replicates=10)
    for place in (0, 17, 49):
        alone = replicate_weights([KEYS[place]], seed=3, n_replicates=10)
        assert (alone[..., 0] == together[..., place]).all()


def test_counts_are_poisson_with_mean_one() -> None:
    counts = replicate_weights(KEYS, seed=1, n_replicates=50)[:, 1:].sum(axis=0)
    assert abs(counts.mean() - 1) < 0.01
    assert abs(counts.var() - 1) < 0.02
    frequencies = np.bincount(counts.astype(int).ravel(), minlength=4)[:4] / counts.size
    np.testing.assert_allclose(frequencies, np.exp(-1) / np.array([1, 1, 2, 6]), atol=0.005)


def test_another_seed_gives_other_weights_and_the_same_folds() -> None:
    one, other = (replicate_weights(KEYS[:200], seed=s, n_replicates=5) for s in (0, 1))
    assert (one[:, 0] == other[:, 0]).all()
    assert (one[:, 1:] != other[:, 1:]).any()
