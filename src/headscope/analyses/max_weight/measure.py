"""How much a head puts on one token at most: the largest weight of a row (paper, section 3.3)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import pandas as pd
from torch import Tensor

from headscope.contracts import Watch
from headscope.data.attention import LayerAttention
from headscope.data.table import empty_tables, head_axes, tidy_table
from headscope.stats.tally import Tally

__all__ = ["MaxWeight"]


@dataclass(frozen=True)
class MaxWeight:
    """Mean largest weight of a row: per segment over all its rows, then over segments."""

    name: ClassVar[str] = "max-weight"
    watches: ClassVar[Watch] = Watch.ATTENTION
    needs: ClassVar[frozenset[str]] = frozenset()
    measures_cross: ClassVar[bool] = True
    tables: ClassVar[dict[str, tuple[str, ...]]] = {
        "max-weight": ("layer", "head", "weight", "low", "high")
    }

    def measure(self, attention: LayerAttention) -> Mapping[str, Tensor]:
        """The mean over rows, by example and head."""
        weight = attention.weights.amax(-1).mean(-1)  # [example, head]
        return {"weight": weight, "segments": weight.new_ones(len(weight))}

    def summarize(self, tally: Tally) -> dict[str, pd.DataFrame]:
        """Mean over segments, by head."""
        if not tally:
            return empty_tables(self.tables)
        weight = tally.ratio("weight", "segments")  # [layer, head]
        values = {"weight": weight.value, "low": weight.low, "high": weight.high}
        return {self.name: tidy_table(head_axes(*weight.value.shape), values)}
