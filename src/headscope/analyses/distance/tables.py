"""From divergences of pairs of heads to tables: pairs, nearest heads, and layers tested."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import log
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from numpy.typing import NDArray

from headscope.stats.interval import ANY, Estimate, estimate
from headscope.stats.sums import Sums
from headscope.stats.tests import holm

__all__ = [
    "COLUMNS", "LARGEST", "PAIR_COLUMNS", "Distances", "find_pairs", "make_tables",
    "ordered_matrix",
]  # fmt: skip

DIVERGENCE = ("divergence", "low", "high")
PAIR_COLUMNS = ("layer_a", "head_a", "layer_b", "head_b", *DIVERGENCE)
NEAREST_COLUMNS = ("layer", "head", "rank", "other_layer", "other_head", *DIVERGENCE)
ENDS = ("", "_low", "_high")
WITHIN, BETWEEN, DIFFERENCE = (
    tuple(f"{name}{end}" for end in ENDS) for name in ("within", "between", "difference")
)
COLUMNS = {
    "distance": PAIR_COLUMNS,
    "distance-nearest": NEAREST_COLUMNS,
    "distance-heads": ("layer", "head", *WITHIN, *BETWEEN),
    "distance-layers": ("layer", *WITHIN, *BETWEEN, *DIFFERENCE, "p_value"),
    "distance-ends": ("ends", "low", "high", "between", *DIFFERENCE),
}

N_NEAREST = 5
LARGEST = log(2)  # nats: the divergence of heads that share no key
N_DEALS = 10_000  # random deals of heads to layers

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


class Means(NamedTuple):
    """Means over pairs of heads, NaN over none; of layers the first number is that of all."""

    head_within: Float[Array, " head"]
    head_between: Float[Array, " head"]
    layer_within: Float[Array, " layers"]
    layer_between: Float[Array, " layers"]
    layer_difference: Float[Array, " layers"]
    ends: Float[Array, " 1"]  # of the first and the last layer
    between: Float[Array, " 1"]  # of any two layers
    ends_difference: Float[Array, " 1"]


@dataclass(frozen=True)
class Pairs:
    """Pairs of heads as `np.triu_indices` has them, of so many heads of each layer."""

    n_heads: tuple[int, ...]

    @cached_property
    def layer_of(self) -> Int[Ints, " head"]:
        """The layer of each head that was compared, 0-based."""
        return np.repeat(np.arange(len(self.n_heads)), self.n_heads)

    @cached_property
    def ends(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The two heads of each pair."""
        return np.triu_indices(len(self.layer_of), 1)

    @cached_property
    def _is_between(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which pairs are of the first and the last layer, and which of any two layers."""
        lower, other = (self.layer_of[end] for end in self.ends)
        is_ends = (lower == 0) & (other == len(self.n_heads) - 1) & (lower != other)
        return is_ends, lower != other

    def square(self, pairs: Float[Array, " pair"]) -> Float[Array, "head other"]:
        """Values of pairs as a symmetric matrix with a zero diagonal."""
        matrix = np.zeros((len(self.layer_of), len(self.layer_of)))
        matrix[self.ends] = pairs
        return matrix + matrix.T

    def average(self, pairs: Float[Array, " pair"]) -> Means:
        """The means of values of pairs."""
        n_heads, layer = np.array(self.n_heads), self.layer_of
        matrix = self.square(pairs)
        within = (matrix * (layer[:, None] == layer)).sum(axis=1)  # [head]; pairs stand twice
        between = matrix.sum(axis=1) - within
        by_layer = layer == np.arange(len(n_heads))[:, None]  # [layer, head]
        n_within = n_heads[layer] - 1
        of_heads = _divide(within, n_within), _divide(between, len(layer) - 1 - n_within)
        layer_within, layer_between = (
            _divide(_with_sum(total), _with_sum(count))
            for total, count in (
                (by_layer @ within / 2, n_heads * (n_heads - 1) // 2),
                (by_layer @ between, n_heads * (n_heads.sum() - n_heads)),
            )
        )
        ends, apart = (
            pairs[chosen].mean(keepdims=True) if chosen.any() else np.full(1, np.nan)
            for chosen in self._is_between
        )
        of_layers = layer_within, layer_between, layer_between - layer_within
        return Means(*of_heads, *of_layers, ends, apart, ends - apart)


@lru_cache(maxsize=4)  # asked of every batch
def find_pairs(n_heads: tuple[int, ...]) -> Pairs:
    """The pairs of so many heads of each layer."""
    return Pairs(n_heads)


@dataclass(frozen=True)
class Distances:
    """The sums of divergences of pairs; heads by layer."""

    sums: Sums
    heads: Sequence[Int[Ints, " head"]]  # of each layer, those that were compared, 0-based

    @cached_property
    def pairs(self) -> Pairs:
        return find_pairs(tuple(len(heads) for heads in self.heads))

    @property
    def layer_of(self) -> Int[Ints, " head"]:
        return self.pairs.layer_of

    def replicates(self) -> Iterator[Float[Array, " pair"]]:
        """Mean divergences of all data, then without each bucket, one after the other.

        One at a time, as the pairs of many heads are too many to hold 65 times.
        """
        above, below = self.sums.values("divergence"), self.sums.values("rows")
        whole, n_rows = above.sum(axis=0), below.sum()
        yield whole / n_rows
        for bucket in range(len(below)):
            is_used = 0 < below[bucket] < n_rows
            rest = (whole - above[bucket]) / (n_rows - below[bucket]) if is_used else np.nan
            yield np.broadcast_to(rest, whole.shape)

    @cached_property
    def head_of(self) -> Int[Ints, " head"]:
        """The place of each head in its layer, 0-based."""
        return np.concatenate(self.heads)

    @cached_property
    def measured(self) -> Estimate[Array]:
        """The divergence of each pair with its interval."""
        return self.sums.estimate("divergence", "rows", (0, LARGEST))

    @cached_property
    def means(self) -> Mapping[str, Estimate[Array]]:
        """The means over pairs, with their intervals, by the names of `Means`."""
        made = zip(*(self.pairs.average(pairs) for pairs in self.replicates()), strict=True)
        means = {}
        for name, part in zip(Means._fields, made, strict=True):
            bounds = ANY if name.endswith("difference") else (0, LARGEST)
            means[name] = estimate(np.stack(part), bounds)  # of [replicate, number]
        return means


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
    first, second = distances.pairs.ends
    layer, head = distances.layer_of + 1, distances.head_of + 1
    columns = (layer[first], head[first], layer[second], head[second], *distances.measured)
    return pd.DataFrame(dict(zip(PAIR_COLUMNS, columns, strict=True)))


def nearest_table(distances: Distances) -> pd.DataFrame:
    """The nearest heads of each head, nearest first; of equal ones the first."""
    value, *others = (distances.pairs.square(part) for part in distances.measured)
    np.fill_diagonal(value, np.inf)  # a head is no neighbour of its own
    n_nearest = min(N_NEAREST, len(value) - 1)
    heads = np.repeat(np.arange(len(value)), n_nearest)
    nearest = value.argsort(axis=1, kind="stable")[:, :n_nearest].ravel()  # of [head, rank]
    layer, head = distances.layer_of + 1, distances.head_of + 1
    ranks = np.tile(np.arange(1, n_nearest + 1), len(value))
    numbers = (part[heads, nearest] for part in (value, *others))
    columns = (layer[heads], head[heads], ranks, layer[nearest], head[nearest], *numbers)
    return pd.DataFrame(dict(zip(NEAREST_COLUMNS, columns, strict=True)))


def head_table(distances: Distances) -> pd.DataFrame:
    """Each head's mean distance to the other heads of its layer, and to those of other layers."""
    heads = {"layer": distances.layer_of + 1, "head": distances.head_of + 1}
    columns = _named(distances, head_within=WITHIN, head_between=BETWEEN)
    return pd.DataFrame({**heads, **columns})


def layer_table(distances: Distances, seed: int) -> pd.DataFrame:
    """The same of all heads of a layer, and first of all layers (no layer number), tested.

    `p_value` is that of heads so close within a layer where heads are assigned to layers at random;
    those of single layers are corrected by Holm.
    """
    columns = _named(
        distances, layer_within=WITHIN, layer_between=BETWEEN, layer_difference=DIFFERENCE
    )
    n_heads = np.array(distances.pairs.n_heads)
    matrix = distances.pairs.square(distances.measured.value)
    p_all, p_layers = permutation_test(matrix, n_heads, seed)
    numbers = pd.array([None, *range(1, len(n_heads) + 1)], dtype="Int64")
    return pd.DataFrame({"layer": numbers, **columns, "p_value": [p_all, *holm(p_layers)]})


def ends_table(distances: Distances) -> pd.DataFrame:
    """Heads of the first against those of the last layer, beside heads of any two layers."""
    names = COLUMNS["distance-ends"]
    if len(distances.pairs.n_heads) < 2:
        return pd.DataFrame(columns=list(names))
    columns = _named(distances, ends=names[:3], between=names[3:4], ends_difference=DIFFERENCE)
    return pd.DataFrame(columns)


def _named(distances: Distances, **names: Sequence[str]) -> dict[str, Array]:
    """Means with their intervals as columns with these names."""
    return {
        name: column
        for mean, columns in names.items()
        for name, column in zip(columns, distances.means[mean], strict=False)
    }


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
    from headscope.kernels.jensen_shannon import sum_within

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


def _with_sum(by_layer: NDArray[Any]) -> Array:
    """The sum over layers (the last axis), before them."""
    total = by_layer.sum(axis=-1, keepdims=True)
    return np.concatenate([total, by_layer], axis=-1).astype(float)


def _divide(total: Array, count: NDArray[Any]) -> Array:
    """Means; NaN where there is no pair."""
    mean: Array = np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)
    return mean
