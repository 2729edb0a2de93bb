"""From divergences of pairs of heads to tables: pairs, nearest heads, and layers tested."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import log
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from numpy.typing import NDArray

from headscope.kernels.jensen_shannon import sum_within
from headscope.stats.interval import Measured, estimate
from headscope.stats.tally import Tally
from headscope.stats.tests import holm

__all__ = ["COLUMNS", "PAIR_COLUMNS", "Distances", "make_tables", "ordered_matrix"]

DIVERGENCE = ("divergence", "low", "high", "effective")
PAIR_COLUMNS = ("layer_a", "head_a", "layer_b", "head_b", *DIVERGENCE)
NEAREST_COLUMNS = ("layer", "head", "rank", "other_layer", "other_head", *DIVERGENCE)
MEANS = ("within", "within_low", "within_high", "between", "between_low", "between_high")
DIFFERENCE = ("difference", "difference_low", "difference_high")
COLUMNS = {
    "distance": PAIR_COLUMNS,
    "distance-nearest": NEAREST_COLUMNS,
    "distance-heads": ("layer", "head", *MEANS),
    "distance-layers": ("layer", *MEANS, *DIFFERENCE, "p_value"),
    "distance-ends": ("ends", "low", "high", "between", *DIFFERENCE),
}

N_NEAREST = 5
LARGEST = log(2)  # nats: the divergence of heads that share no key
N_DEALS = 10_000  # random deals of heads to layers

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Distances:
    """The totals of divergences, pairs as `np.triu_indices` has them; heads by layer."""

    tally: Tally
    heads: Sequence[Int[Ints, " head"]]  # of each layer, those that were compared, 0-based

    @cached_property
    def n_heads(self) -> Int[Ints, " layer"]:
        """How many heads of each layer were compared."""
        return np.array([len(heads) for heads in self.heads])

    def replicates(self) -> Iterator[Float[Array, " pair"]]:
        """Mean divergences of all data, then without each bucket, one after the other.

        One at a time, as the pairs of many heads are too many to hold 65 times.
        """
        above, below = self.tally.totals["divergence"][:, 0], self.tally.totals["rows"][:, 0]
        whole, n_rows = above.sum(axis=0), below.sum()
        yield whole / n_rows
        for bucket in range(len(below)):
            is_used = 0 < below[bucket] < n_rows
            rest = (whole - above[bucket]) / (n_rows - below[bucket]) if is_used else np.nan
            yield np.broadcast_to(rest, whole.shape)

    @cached_property
    def layer_of(self) -> Int[Ints, " head"]:
        """The layer of each head that was compared, 0-based."""
        return np.repeat(np.arange(len(self.n_heads)), self.n_heads)

    @cached_property
    def head_of(self) -> Int[Ints, " head"]:
        """The place of each head in its layer, 0-based."""
        return np.concatenate(self.heads)

    @cached_property
    def ends(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The two heads of each pair."""
        return np.triu_indices(len(self.layer_of), 1)

    @cached_property
    def measured(self) -> Measured:
        """The divergence of each pair with its interval."""
        found = self.tally.pooled("divergence", "rows", (0, LARGEST))
        return Measured(*(part[0] for part in found))

    def square(self, pairs: Float[Array, " pair"]) -> Float[Array, "head other"]:
        """Values of pairs as a symmetric matrix with a zero diagonal."""
        matrix = np.zeros((len(self.layer_of), len(self.layer_of)))
        matrix[self.ends] = pairs
        return matrix + matrix.T


def make_tables(distances: Distances, seed: int) -> dict[str, pd.DataFrame]:
    """Every pair, every head's nearest, and heads of one layer against those of others."""
    return {
        "distance": pair_table(distances),
        "distance-nearest": nearest_table(distances),
        "distance-heads": head_table(distances),
        "distance-layers": layer_table(distances, seed),
        "distance-ends": ends_table(distances),
    }


def pair_table(distances: Distances) -> pd.DataFrame:
    """Every two heads once, the one of the lower layer and number first."""
    first, second = distances.ends
    layer, head = distances.layer_of + 1, distances.head_of + 1
    columns = (layer[first], head[first], layer[second], head[second], *distances.measured)
    return pd.DataFrame(dict(zip(PAIR_COLUMNS, columns, strict=True)))


def nearest_table(distances: Distances) -> pd.DataFrame:
    """The nearest heads of each head, nearest first; of equal ones the first."""
    value, *others = (distances.square(part) for part in distances.measured)
    np.fill_diagonal(value, np.inf)  # a head is no neighbour of its own
    n_nearest = min(N_NEAREST, len(value) - 1)
    heads = np.repeat(np.arange(len(value)), n_nearest)
    found = value.argsort(axis=1, kind="stable")[:, :n_nearest].ravel()  # of [head, rank]
    layer, head = distances.layer_of + 1, distances.head_of + 1
    ranks = np.tile(np.arange(1, n_nearest + 1), len(value))
    numbers = (part[heads, found] for part in (value, *others))
    columns = (layer[heads], head[heads], ranks, layer[found], head[found], *numbers)
    return pd.DataFrame(dict(zip(NEAREST_COLUMNS, columns, strict=True)))


def head_table(distances: Distances) -> pd.DataFrame:
    """Each head's mean distance to the other heads of its layer, and to those of other layers."""
    totals = [_sum_by_head(distances, pairs) for pairs in distances.replicates()]
    within, between = (np.stack(part) for part in zip(*totals, strict=True))  # [replicate, head]
    layer = distances.layer_of
    n_within = distances.n_heads[layer] - 1
    means = _means(within, n_within, between, len(layer) - 1 - n_within)
    means = {name: means[name] for name in MEANS}
    return pd.DataFrame({"layer": layer + 1, "head": distances.head_of + 1, **means})


def layer_table(distances: Distances, seed: int) -> pd.DataFrame:
    """The same of all heads of a layer, and first of all layers (no layer number), tested.

    `p_value` is that of heads so close within a layer where heads are assigned to layers at random;
    those of single layers are corrected by Holm.
    """
    totals = [_sum_by_layer(distances, pairs) for pairs in distances.replicates()]
    within, between = (np.stack(part) for part in zip(*totals, strict=True))  # [replicate, layer]
    n_heads = distances.n_heads
    n_within = n_heads * (n_heads - 1) // 2
    n_between = n_heads * (n_heads.sum() - n_heads)
    means = _means(*map(_with_sum, (within, n_within, between, n_between)))
    matrix = distances.square(distances.measured.value)
    p_all, p_layers = permutation_test(matrix, n_heads, seed)
    numbers = pd.array([None, *range(1, len(n_heads) + 1)], dtype="Int64")
    return pd.DataFrame({"layer": numbers, **means, "p_value": [p_all, *holm(p_layers)]})


def ends_table(distances: Distances) -> pd.DataFrame:
    """Heads of the first against those of the last layer, beside heads of any two layers."""
    one, other = (distances.layer_of[end] for end in distances.ends)
    is_between, n_layers = one != other, len(distances.n_heads)
    is_ends = (one == 0) & (other == n_layers - 1) & is_between
    if n_layers < 2:
        return pd.DataFrame(columns=list(COLUMNS["distance-ends"]))
    means = [(pairs[is_ends].mean(), pairs[is_between].mean()) for pairs in distances.replicates()]
    ends, between = np.array(means).T  # [replicate] each
    found = (*estimate(ends, (0, LARGEST)), between[0], *estimate(ends - between))
    return pd.DataFrame([tuple(map(float, found))], columns=list(COLUMNS["distance-ends"]))


def ordered_matrix(pairs: pd.DataFrame, order: pd.DataFrame) -> Float[Array, "head other"]:
    """The divergences of the table of pairs as a square, in this order of heads (layer, head)."""
    places = pd.MultiIndex.from_frame(order)
    first, second = (
        places.get_indexer(pd.MultiIndex.from_frame(pairs[[f"layer_{end}", f"head_{end}"]]))
        for end in "ab"
    )
    matrix = np.zeros((len(order), len(order)))
    matrix[first, second] = matrix[second, first] = pairs["divergence"]
    return matrix


def permutation_test(
    distance: Float[Array, "head other"], n_heads: Int[Ints, " layer"], seed: int = 0
) -> tuple[float, Float[Array, " layer"]]:
    """How often heads dealt to the layers at random are as close within them, or closer.

    The p-value of the mean over all pairs within layers, and those of each layer alone. The deal
    at hand counts as one, so none is 0. Layers of one head have no pair, and no p-value.
    """
    has_pairs, p_layers = n_heads > 1, np.full(len(n_heads), np.nan)
    if not has_pairs.any():
        return np.nan, p_layers
    seen, dealt = (
        sum_within(distance, deals, n_heads)[:, has_pairs]
        for deals in (np.arange(len(distance))[None], deal_heads(len(distance), seed))
    )
    slack = 1e-12 * seen.sum()  # sums of the same numbers in another order
    n_closer = (dealt <= seen + slack).sum(axis=0)
    n_all = int((dealt.sum(axis=1) <= seen.sum() + slack).sum())
    p_layers[has_pairs] = (1 + n_closer) / (1 + N_DEALS)
    return (1 + n_all) / (1 + N_DEALS), p_layers


@lru_cache(maxsize=1)  # a comparison of runs asks for the same ones often
def deal_heads(n_heads: int, seed: int) -> Int[NDArray[np.int16], "deal head"]:
    """Heads in random orders."""
    heads = np.repeat(np.arange(n_heads, dtype=np.int16)[None], N_DEALS, axis=0)
    return np.random.default_rng(seed).permuted(heads, axis=1)


def _sum_by_head(distances: Distances, pairs: Array) -> tuple[Array, Array]:
    """Sums of a head's distances to its own layer's heads and to all others."""
    matrix, layer = distances.square(pairs), distances.layer_of
    within = (matrix * (layer[:, None] == layer)).sum(axis=1)
    return within, matrix.sum(axis=1) - within


def _sum_by_layer(distances: Distances, pairs: Array) -> tuple[Array, Array]:
    """Sums over the pairs within each layer, and over its pairs with other layers."""
    layer, n_layers = distances.layer_of, len(distances.n_heads)
    within, between = _sum_by_head(distances, pairs)  # [head]; pairs within a layer stand twice
    by_layer = layer == np.arange(n_layers)[:, None]  # [layer, head]
    return by_layer @ within / 2, by_layer @ between


def _with_sum(by_layer: NDArray[Any]) -> Array:
    """The sum over layers (the last axis), before them."""
    total = by_layer.sum(axis=-1, keepdims=True)
    return np.concatenate([total, by_layer], axis=-1).astype(float)


def _means(
    within: Array, n_within: NDArray[Any], between: Array, n_between: NDArray[Any]
) -> dict[str, Array]:
    """Means with their intervals, and between minus within; none where there is no pair."""
    means = []
    for total, count in ((within, n_within), (between, n_between)):
        count = np.broadcast_to(count, total.shape)
        means.append(np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0))
    parts = [*estimate(means[0], (0, LARGEST)), *estimate(means[1], (0, LARGEST))]
    difference = estimate(means[1] - means[0])
    return dict(zip((*MEANS, *DIFFERENCE), (*parts, *difference), strict=True))
