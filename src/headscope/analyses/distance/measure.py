"""How alike heads attend: Jensen-Shannon divergence between every two heads (paper, section 6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headscope.analyses.distance.tables import (
    COLUMNS,
    Distances,
    make_tables,
)
from headscope.contracts import Analysis
from headscope.data.attention import AttentionRows, Readings, spread_heads
from headscope.data.sampled_rows import SampledRows
from headscope.lazy import Tensor, torch
from headscope.options import option, require
from headscope.stats.sums import Sums

__all__ = [
    "ROW_SUMS", "Distance", "list_heads", "max_heads_option", "rows_option", "scale_to_all_rows",
    "sum_rows",
]  # fmt: skip


ALL_ROWS = 10**9  # more than any example has
ROW_SUMS = {"rows": "", "segments": "", "heads": "layer", "of_heads": "layer"}
STEPS = 2.0**30  # in a nat, to which sums are rounded: below 2^23 they add up in one float64


def rows_option() -> Any:
    """The option `rows` of analyses that compare heads row by row."""
    return option(32, "Query rows sampled per example to compare heads; or all.", parse=_read_rows)


def _read_rows(text: str) -> int:
    """The number of rows.

    >>> _read_rows("48"), _read_rows("all") == ALL_ROWS
    (48, True)
    """
    if text.strip() == "all":
        return ALL_ROWS
    is_number = text.strip().isdecimal() and len(text) < 20
    require(is_number, "rows", text, "a number of rows, or all")
    return int(text)


def max_heads_option() -> Any:
    """The option `max_heads` of analyses that compare heads with each other."""
    return option(1024, "Maximum heads to compare; in larger models, evenly spread ones.")


@dataclass(frozen=True)
class Distance(Analysis):
    """Mean Jensen-Shannon divergence, in nats, between every two heads over all query rows.

    Of an example longer than `rows` tokens so many rows are drawn, and stand for all its rows. Of a
    model of more than `max_heads` heads so many are compared, as many of each layer: pairs of heads
    would outgrow any memory.
    """

    rows: int = rows_option()
    max_heads: int = max_heads_option()
    seed: int = 0  # of the rows and the permutation test; the engine sets it to the run's

    name = "distance"
    weighs_documents = True
    measures_cross = True
    compares_layers = True
    sums = {"divergence": "pair", **ROW_SUMS}
    tables = COLUMNS

    def __post_init__(self) -> None:
        require(self.rows > 0, "rows", self.rows, "at least 1")
        require(self.max_heads > 1, "max_heads", self.max_heads, "at least 2")

    @property
    def reads(self) -> tuple[SampledRows, ...]:
        return (SampledRows(self.rows, self.max_heads, self.seed),)

    def measure(self, seen: Readings) -> Mapping[str, Tensor]:
        """Divergence by pair of heads, summed over rows, and how many rows there are.

        What the model is like, `heads` compared of the `of_heads` of each layer, is the same in
        every example.
        """
        from headscope.kernels.jensen_shannon import divergence_within  # numba: when it is used

        rows: AttentionRows = seen[self.reads[0]]
        return sum_rows(divergence_within(rows.weights), rows)

    def summarize(self, sums: Sums) -> Mapping[str, pd.DataFrame]:
        """Every pair, every head's nearest, and heads of one layer against those of others."""
        return make_tables(Distances(sums, list_heads(sums)), self.seed)


def sum_rows(divergence: NDArray[np.float64], attention: AttentionRows) -> dict[str, Tensor]:
    """Sums over all rows of each example, and what they are over."""
    n_examples = len(attention.weights)
    heads = torch.tensor(attention.n_heads, dtype=torch.float64)  # [layer]
    of_heads = torch.tensor(attention.of_heads or attention.n_heads, dtype=torch.float64)
    n_rows = torch.full((n_examples,), attention.batch.n_tokens, dtype=torch.float64)
    return {
        "divergence": scale_to_all_rows(divergence, attention),
        "rows": n_rows,
        "segments": torch.ones_like(n_rows),
        "heads": heads.expand(n_examples, -1),  # [example, layer]
        "of_heads": of_heads.expand(n_examples, -1),
    }


def scale_to_all_rows(divergence: NDArray[np.float64], attention: AttentionRows) -> Tensor:
    """Sums over the sampled rows, scaled to all rows of each example.

    They are rounded to 2^-30 nats, so that a tally of all pairs needs no rests.
    """
    scale = attention.batch.n_tokens / attention.weights.shape[1]
    return torch.from_numpy(np.rint(divergence * (STEPS * scale)) / STEPS)


def list_heads(sums: Sums) -> list[NDArray[np.int64]]:
    """The heads of each layer that were compared, 0-based."""
    n_heads, of_heads = (
        sums.ratio(name, "segments").values.round().astype(int) for name in ("heads", "of_heads")
    )  # [layer] each
    return [spread_heads(of, n) for n, of in zip(n_heads, of_heads, strict=True)]
