"""Which head of one model attends like which head of another, matched one to one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from headscope.analyses.distance import ROWS, count_rows, refuse_no_rows
from headscope.analyses.distance_tables import PAIR_COLUMNS
from headscope.data.rows import AttentionRows
from headscope.data.table import empty_tables
from headscope.data.tally import Tally, estimate
from headscope.kernels.jensen_shannon import divergence_between

__all__ = ["HeadMatches"]

MATCH_COLUMNS = (
    *PAIR_COLUMNS,
    "support",
    "nearest_layer_b",
    "nearest_head_b",
    "nearest_divergence",
    "is_mutual",
    "mean_divergence",
)

Array = NDArray[np.float64]


@dataclass(frozen=True)
class HeadMatches:
    """Divergence of every head of one model and every head of another, over the same tokens.

    The first `n_layers` layers that are shown are those of the first model. Heads are matched one
    to one so that the divergences of all matches sum to the least.
    """

    n_layers: int
    rows: int = ROWS

    name: ClassVar[str] = "head-matches"
    needs: ClassVar[frozenset[str]] = frozenset()
    tables: ClassVar[dict[str, tuple[str, ...]]] = {
        "head-matches": MATCH_COLUMNS,
        "distance-between": PAIR_COLUMNS,
    }

    def __post_init__(self) -> None:
        refuse_no_rows(self.rows)

    def measure_layers(self, attention: AttentionRows) -> Mapping[str, Tensor]:
        """Divergence by example and pair of heads, summed over rows; and how many rows."""
        n_first = sum(attention.n_heads[: self.n_layers])
        divergence = divergence_between(attention.weights, n_first)  # [example, first, second]
        n_examples, n_rows, *_ = attention.weights.shape
        heads = torch.tensor(attention.n_heads, dtype=torch.float64)  # [layer]
        return {
            "divergence": torch.from_numpy(divergence * (attention.batch.n_tokens / n_rows)),
            "heads": heads.expand(n_examples, -1),  # [example, layer]
            **count_rows(attention),
        }

    def summarize(self, tally: Tally) -> dict[str, pd.DataFrame]:
        """All pairs across the models, and the matches."""
        if not tally:
            return empty_tables(self.tables)
        above = tally.totals["divergence"].sum(axis=0)[:, 0]  # [replicate, first, second]
        below = tally.totals["rows"].sum(axis=0)[:, :, None]  # [replicate, 1, 1]
        divergence = np.divide(above, below, out=np.full(above.shape, np.nan), where=below != 0)
        n_heads = tally.ratio("heads", "segments").value[0].round().astype(int)  # [layer]
        ends = (_name_heads(n_heads[: self.n_layers]), _name_heads(n_heads[self.n_layers :]))
        pairs = _pair_table(divergence, *ends)
        return {
            "head-matches": _match_table(divergence, pairs, ends[1]),
            "distance-between": pairs,
        }


def match_heads(divergence: Float[Array, "first second"]) -> tuple[NDArray[np.intp], ...]:
    """The one-to-one pairs of least total divergence; of unequal numbers, the fewer all match."""
    first, second = linear_sum_assignment(divergence)
    return first, second


def _name_heads(n_heads: NDArray[np.int64]) -> NDArray[np.int64]:
    """Layer and number of each head, 1-based: [head, 2]."""
    named = [(layer + 1, head + 1) for layer, n in enumerate(n_heads) for head in range(n)]
    return np.array(named)


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
    one, other = match_heads(point)
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
    """The share of bootstrap replicates that match the same two heads; none without replicates."""
    whole = [draw for draw in draws if not np.isnan(draw).any()]
    if not whole:
        return np.full(len(one), np.nan)
    count = np.zeros(len(one))
    for draw in whole:
        is_matched = np.zeros(draw.shape, dtype=bool)
        is_matched[match_heads(draw)] = True
        count += is_matched[one, other]
    return count / len(whole)
