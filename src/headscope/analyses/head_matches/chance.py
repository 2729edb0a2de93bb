"""How alike matched heads are beside what chance gives: random matches, and one model alone."""

import numpy as np
import pandas as pd
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from headscope.stats.bucket import N_BUCKETS, N_FOLDS, fold_of, leave_one_out
from headscope.stats.interval import estimate, share
from headscope.stats.tally import Tally

__all__ = ["AT_RANDOM", "HELD_OUT", "ITSELF", "OWN_HEADS", "make_chance_table"]

HELD_OUT = "one to one, held out"
AT_RANDOM = "at random"
OWN_HEADS = "first model, its own other heads"
ITSELF = "first model with itself, other documents"

Array = NDArray[np.float64]
FOLDS = fold_of(np.arange(N_BUCKETS))


def make_chance_table(
    tally: Tally, first: NDArray[np.int64], second: NDArray[np.int64]
) -> pd.DataFrame:
    """Mean divergences: of the matches, held out; at random; of a model's own most alike heads.

    Heads are matched on seven folds of documents and scored on the eighth. The mean over all pairs
    is what random matches have. The last row asks how well documents tell heads apart at all:
    heads of the first model are known by their distances from all heads of the second, on half of
    the documents, and looked for on the other half. Its number is the mean distance of these
    distances.
    """
    above, rows = tally.totals["divergence"][:, 0], tally.totals["rows"][:, 0]  # [bucket, ...]
    own = _as_square(tally.totals["within"][:, 0], len(first))  # [bucket, head, head]
    held_out = estimate(_held_out(above, rows))
    at_random = estimate(share(leave_one_out(above.mean(axis=(1, 2))), leave_one_out(rows)))
    own_heads = estimate(_held_out(own, rows)) if len(first) > 1 else (np.nan,) * 3
    distance, found = _find_again(above, rows)
    one, other = linear_sum_assignment(above.sum(axis=0))
    same = float((first[one] == second[other]).all(axis=1).mean())
    lines = [
        (HELD_OUT, *map(float, held_out), same),
        (AT_RANDOM, *map(float, at_random), 1 / max(len(first), len(second))),
        (OWN_HEADS, *map(float, own_heads), 0.0),
        (ITSELF, distance, np.nan, np.nan, found),
    ]
    columns = ["matching", "divergence", "low", "high", "same_head"]
    return pd.DataFrame(lines, columns=columns)


def _held_out(
    above: Float[Array, "bucket first second"], rows: Float[Array, " bucket"]
) -> Float[Array, " replicate"]:
    """Replicates of the mean divergence of matches that other folds chose."""
    scored = np.zeros(N_BUCKETS)
    is_scored = np.zeros(N_BUCKETS, bool)
    for fold in range(N_FOLDS):
        inside = fold == FOLDS
        if rows[inside].sum() and rows[~inside].sum():
            one, other = linear_sum_assignment(above[~inside].sum(axis=0))
            scored[inside] = above[inside][:, one, other].mean(axis=1)
            is_scored |= inside
    return share(leave_one_out(scored), leave_one_out(np.where(is_scored, rows, 0.0)))


def _find_again(
    above: Float[Array, "bucket first second"], rows: Float[Array, " bucket"]
) -> tuple[float, float]:
    """How far the first model's heads are from themselves on other documents, and how many of them
    are found again; NaN where half of the folds have no documents."""
    halves = [above[part == FOLDS % 2].sum(axis=0) for part in (0, 1)]
    n_rows = [rows[part == FOLDS % 2].sum() for part in (0, 1)]
    if not all(n_rows):
        return np.nan, np.nan
    one, other = (half / n for half, n in zip(halves, n_rows, strict=True))  # [head, second]
    apart = np.abs(one[:, None] - other).mean(axis=-1)  # [head, head]
    heads, found = linear_sum_assignment(apart)
    return float(np.diagonal(apart).mean()), float((heads == found).mean())


def _as_square(pairs: Float[Array, "bucket pair"], n_heads: int) -> Array:
    """Pairs of heads as a matrix whose diagonal no match would choose."""
    square = np.zeros((len(pairs), n_heads, n_heads))
    one, other = np.triu_indices(n_heads, 1)
    square[:, one, other] = square[:, other, one] = pairs
    square[:, np.arange(n_heads), np.arange(n_heads)] = 1 + pairs.max(initial=0.0)
    return square
