"""Which head of one model attends like which head of another, matched one to one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from headscope.analyses.distance.measure import (
    list_heads,
    max_heads_option,
    rows_option,
    scale_to_all_rows,
)
from headscope.analyses.distance.tables import PAIR_COLUMNS
from headscope.analyses.head_matches.chance import make_chance_table
from headscope.contracts import Watch
from headscope.data.attention import AttentionRows
from headscope.data.table import empty_tables
from headscope.kernels.jensen_shannon import divergence_between, divergence_within
from headscope.options import require
from headscope.stats.interval import estimate
from headscope.stats.tally import Tally

__all__ = ["HeadMatches"]

NEAREST = ("nearest_layer_b", "nearest_head_b", "nearest_divergence")
CHANCE_COLUMNS = ("matching", "divergence", "low", "high", "same_head")
MATCH_COLUMNS = (*PAIR_COLUMNS, "support", *NEAREST, "is_mutual", "mean_divergence")

Array = NDArray[np.float64]


@dataclass(frozen=True)
class HeadMatches:
    """Divergence of every head of one model and every head of another, over the same tokens.

    Heads are matched one to one so that the divergences of all matches sum to the least.
    """

    rows: int = rows_option()
    max_heads: int = max_heads_option()
    n_layers: int = 1  # of the first model, whose layers are shown first

    name: ClassVar[str] = "head-matches"
    watches: ClassVar[Watch] = Watch.MODEL_PAIR
    needs: ClassVar[frozenset[str]] = frozenset()
    tables: ClassVar[dict[str, tuple[str, ...]]] = {
        "head-matches": MATCH_COLUMNS,
        "distance-between": PAIR_COLUMNS,
        "head-matches-chance": CHANCE_COLUMNS,
    }

    def __post_init__(self) -> None:
        require(self.rows > 0, "rows", self.rows, "at least 1")
        require(self.max_heads > 1, "max_heads", self.max_heads, "at least 2")

    def measure(self, attention: AttentionRows) -> Mapping[str, Tensor]:
        """Divergence by example and pair of heads, summed over rows; and how many rows."""
        n_first = sum(attention.n_heads[: self.n_layers])
        divergence = divergence_between(attention.weights, n_first)  # [example, first, second]
        within = divergence_within(
            attention.weights[:, :, :n_first].contiguous()
        )  # [example, pair]
        alone = scale_to_all_rows(within, attention)["divergence"]
        return {**scale_to_all_rows(divergence, attention), "within": alone}

    def summarize(self, tally: Tally) -> dict[str, pd.DataFrame]:
        """All pairs across the models, and the matches."""
        if not tally:
            return empty_tables(self.tables)
        divergence = tally.replicates("divergence", "rows")[:, 0]  # [replicate, first, second]
        heads = list_heads(tally)
        # The sums themselves say where the second model's layers begin.
        n_layers = int((np.cumsum([*map(len, heads)]) <= divergence.shape[1]).sum())
        first, second = _name_heads(heads[:n_layers]), _name_heads(heads[n_layers:])
        pairs = _pair_table(divergence, first, second)
        return {
            "head-matches": _match_table(divergence, pairs, second),
            "distance-between": pairs,
            "head-matches-chance": make_chance_table(tally, first, second),
        }


def _name_heads(heads: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Layer and number of each head, 1-based: [head, 2]."""
    return np.array([(layer + 1, h + 1) for layer, of_layer in enumerate(heads) for h in of_layer])


def _pair_table(
    divergence: Float[Array, "replicate first second"],
    first: NDArray[np.int64],
    second: NDArray[np.int64],
) -> pd.DataFrame:
    """Every head of the one model with every head of the other."""
    found = [part.ravel() for part in estimate(divergence)]
    one, other = np.repeat(first, len(second), axis=0), np.tile(second, (len(first), 1))
    return pd.DataFrame(dict(zip(PAIR_COLUMNS, (*one.T, *other.T, *found), strict=True)))


def _match_table(
    divergence: Float[Array, "replicate first second"],
    pairs: pd.DataFrame,
    second: NDArray[np.int64],
) -> pd.DataFrame:
    """The matched pairs, how sure they are, and each one's nearest head, matched or not."""
    point = divergence[0]
    one, other = linear_sum_assignment(point)  # of unequal numbers, the fewer all match
    nearest = point.argmin(axis=1)[one]  # of each matched head of the first model
    table = pairs.iloc[one * len(second) + other].reset_index(drop=True)
    return table.assign(
        support=_support(divergence[1:], one, other),
        nearest_layer_b=second[nearest, 0],
        nearest_head_b=second[nearest, 1],
        nearest_divergence=point[one, nearest],
        is_mutual=(nearest == other) & (point.argmin(axis=0)[other] == one),
        mean_divergence=point.mean(axis=1)[one],
    )


def _support(
    draws: Float[Array, "replicate first second"], one: NDArray[np.intp], other: NDArray[np.intp]
) -> Float[Array, " match"]:
    """The share of buckets without which the same two heads still match; none for one bucket."""
    whole = [draw for draw in draws if not np.isnan(draw).any()]
    if not whole:
        return np.full(len(one), np.nan)
    count = np.zeros(len(one))
    for draw in whole:
        is_matched = np.zeros(draw.shape, dtype=bool)
        is_matched[linear_sum_assignment(draw)] = True
        count += is_matched[one, other]
    return count / len(whole)
