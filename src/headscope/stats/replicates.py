"""Bootstrap weights and folds that depend on the seed and the example's id alone.

Replicate 0 is all ones: the point estimate. Every other one gives an example a Poisson(1) count,
the streaming form of drawing examples with replacement. The counts come from a counter-based
generator keyed by (seed, example), so they are the same in any order, batch, shard or machine.
"""

from collections.abc import Sequence
from math import exp, factorial

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

__all__ = ["N_FOLDS", "fold_of", "replicate_weights"]

N_FOLDS = 2

_POISSON = np.cumsum([exp(-1) / factorial(count) for count in range(18)])
_POISSON_BOUNDS = np.array([int(p * 2.0**64) for p in _POISSON if p < 1.0], dtype=np.uint64)


def fold_of(key: int) -> int:
    """Which half an example belongs to: heads are chosen on one half and scored on the other."""
    return key & 1


def replicate_weights(
    keys: Sequence[int], seed: int, n_replicates: int
) -> Float[NDArray[np.float64], "fold replicate example"]:
    """How often each example counts in each replicate of each fold.

    >>> replicate_weights([4, 7], seed=0, n_replicates=0)[:, 0]
    array([[1., 0.],
           [0., 1.]])
    """
    counts = np.ones((1 + n_replicates, len(keys)))  # [replicate, example]
    for column, key in enumerate(keys):
        draws = np.random.Philox(key=[seed, key]).random_raw(n_replicates)
        counts[1:, column] = np.searchsorted(_POISSON_BOUNDS, draws, side="right")
    folds = np.array([fold_of(key) for key in keys])
    in_fold = folds == np.arange(N_FOLDS)[:, None]  # [fold, example]
    weights: NDArray[np.float64] = counts * in_fold[:, None, :]  # [fold, replicate, example]
    return weights
