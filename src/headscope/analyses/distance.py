"""How alike heads attend: Jensen-Shannon divergence between every two heads (paper, section 6)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from headscope.analyses.distance_tables import (
    HEAD_COLUMNS,
    LAYER_COLUMNS,
    NEAREST_COLUMNS,
    PAIR_COLUMNS,
    Distances,
    head_table,
    layer_table,
    nearest_table,
    pair_table,
)
from headscope.data.rows import AttentionRows
from headscope.data.table import empty_tables
from headscope.data.tally import Tally
from headscope.errors import StudyError
from headscope.kernels.jensen_shannon import divergence_within

__all__ = ["ROWS", "Distance", "count_rows", "refuse_no_rows"]

ROWS = 128


@dataclass(frozen=True)
class Distance:
    """Mean Jensen-Shannon divergence, in nats a query row, between every two heads of the model.

    Of an example longer than `rows` tokens so many rows are drawn, and stand for all its rows.
    """

    rows: int = ROWS

    name: ClassVar[str] = "distance"
    needs: ClassVar[frozenset[str]] = frozenset()
    tables: ClassVar[dict[str, tuple[str, ...]]] = {
        "distance": PAIR_COLUMNS,
        "distance-nearest": NEAREST_COLUMNS,
        "distance-heads": HEAD_COLUMNS,
        "distance-layers": LAYER_COLUMNS,
    }

    def __post_init__(self) -> None:
        refuse_no_rows(self.rows)

    def measure_layers(self, attention: AttentionRows) -> Mapping[str, Tensor]:
        """Divergence by example and pair of heads, summed over rows, and how many rows there are.

        What the model is like, `heads` in each layer, is the same in every example.
        """
        divergence = divergence_within(attention.weights)  # [example, pair]
        heads = torch.tensor(attention.n_heads, dtype=torch.float64)  # [layer]
        n_examples, n_rows, *_ = attention.weights.shape
        return {
            "divergence": torch.from_numpy(divergence * (attention.batch.n_tokens / n_rows)),
            "heads": heads.expand(n_examples, -1),  # [example, layer]
            **count_rows(attention),
        }

    def summarize(self, tally: Tally) -> dict[str, pd.DataFrame]:
        """Every pair, every head's nearest, and heads of one layer against those of others."""
        if not tally:
            return empty_tables(self.tables)
        n_heads = tally.ratio("heads", "segments").value[0].round().astype(int)  # [layer]
        above = tally.totals["divergence"].sum(axis=0)[:, 0]  # [replicate, pair]
        below = tally.totals["rows"].sum(axis=0)  # [replicate, 1]
        divergence = np.divide(above, below, out=np.full(above.shape, np.nan), where=below != 0)
        distances = Distances(divergence, n_heads)
        return {
            "distance": pair_table(distances),
            "distance-nearest": nearest_table(distances),
            "distance-heads": head_table(distances),
            "distance-layers": layer_table(distances),
        }


def count_rows(attention: AttentionRows) -> dict[str, Tensor]:
    """How many rows each example stands for, and how many examples there are."""
    ones = torch.ones(len(attention.weights), dtype=torch.float64)
    return {"rows": ones * attention.batch.n_tokens, "segments": ones}


def refuse_no_rows(rows: int) -> None:
    """An error where no row would be compared."""
    if rows < 1:
        raise StudyError(f"--rows {rows} cannot be used. Expected at least 1.")
