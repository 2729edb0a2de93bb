"""Adding a batch's values to the tally by bucket, beside 402 sums of weighted examples.

The latter is what a bootstrap of 200 Poisson replicates in two halves adds for the same values.
"""

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.row import Row, Settings, at_least, at_most
from benchmarks.timing import best_seconds
from headscope.stats.bucket import N_BUCKETS
from headscope.stats.sums import Tally

__all__ = ["run"]

HEADS = (12, 12)
N_EXAMPLES = (16, 360)  # a batch; what waits to be added up where distances are measured
N_REPLICATES, N_FOLDS = 201, 2

Values = Mapping[str, NDArray[np.float64]]


def run(settings: Settings) -> Iterator[Row]:
    """Ratios of seconds and of bytes, for the values of three analyses of 144 heads."""
    rng = np.random.default_rng(0)
    for n_examples in N_EXAMPLES:
        buckets = rng.integers(N_BUCKETS, size=n_examples)
        weights = _draw_weights(rng, n_examples)
        for name, values in _make_values(rng, n_examples).items():
            tally, former = Tally(), dict[str, NDArray[np.float64]]()
            tally.add(buckets, {part: value[::-1].copy() for part, value in values.items()})
            works = {
                "buckets": partial(tally.add, buckets, values),
                "replicates": partial(_add_replicates, former, weights, values),
            }
            best = best_seconds(works, settings.repeats)
            measured = f"{name}: adding {n_examples} examples"
            yield Row("tally", measured, 1000 * best["buckets"], "ms")
            ratio = best["buckets"] / best["replicates"]
            yield Row("tally", "  by bucket / by replicate", ratio, "x", at_most(1))
            kept = [*tally.totals.values(), *tally.rests.values()]
            sizes = [sum(part.nbytes for part in parts) for parts in (former.values(), kept)]
            target = at_least(5) if name == "distance" else None
            yield Row(
                "tally", "  bytes of replicates / of buckets", sizes[0] / sizes[1], "x", target
            )


def _make_values(rng: np.random.Generator, n_examples: int) -> dict[str, Values]:
    n_pairs = int(np.prod(HEADS)) * (int(np.prod(HEADS)) - 1) // 2
    steps = 2.0**24  # to which distances are rounded
    divergence = np.rint(rng.random((n_examples, 1, n_pairs)) * 60 * steps) / steps
    return {
        "position": {"weight": rng.random((n_examples, *HEADS, 3))},
        "entropy": {"nats": 5 * rng.random((n_examples, *HEADS, 2))},
        "distance": {"divergence": divergence},
    }


def _draw_weights(rng: np.random.Generator, n_examples: int) -> NDArray[np.float64]:
    """How often each replicate of each half counts an example, [fold, replicate, example]."""
    counts = rng.poisson(1, (N_REPLICATES, n_examples))
    in_fold = rng.integers(N_FOLDS, size=n_examples) == np.arange(N_FOLDS)[:, None]
    return (counts * in_fold[:, None]).astype(float)


def _add_replicates(
    totals: dict[str, NDArray[np.float64]], weights: NDArray[np.float64], values: Values
) -> None:
    for name, value in values.items():
        if name not in totals:
            totals[name] = np.zeros((*weights.shape[:2], *value.shape[1:]))
        for fold, in_fold in enumerate(weights):
            chosen = in_fold.any(axis=0)
            part = torch.from_numpy(value[chosen]).flatten(1)  # [example, column]
            sums = torch.from_numpy(in_fold[:, chosen]) @ part  # [replicate, column]
            totals[name][fold] += sums.numpy().reshape(totals[name].shape[1:])
