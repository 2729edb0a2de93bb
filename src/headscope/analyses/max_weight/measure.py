"""How much a head puts on one token at most: the largest weight of a row (paper, section 3.3)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from headscope.contracts import Analysis
from headscope.data.attention import LayerAttention
from headscope.data.reading import MapShape, MapSlice, Reading
from headscope.data.table import empty_tables, head_axes, tidy_table
from headscope.stats.tally import SHARE, Tally

__all__ = ["MaxWeight"]

TENTH = 0.1


class LargestReading:
    """The largest weight of each row, read slice by slice."""

    def begin(self, layer: MapShape) -> Float[Tensor, "example head query"]:
        return torch.zeros(
            layer.weights.shape[:3], dtype=layer.weights.dtype, device=layer.batch.device
        )

    def add(self, found: Tensor, part: MapSlice) -> None:
        found[part.examples, :, part.rows] = part.weights.amax(-1)


LARGEST = LargestReading()


@dataclass(frozen=True)
class MaxWeight(Analysis):
    """Mean largest weight of a row: per segment over all its rows, then over segments.

    `flat_rows` is the share of rows with at most a tenth on any token, of those that may look at
    ten tokens or more.
    """

    name: ClassVar[str] = "max-weight"
    weighs_documents: ClassVar[bool] = True
    measures_cross: ClassVar[bool] = True
    reads: ClassVar[tuple[Reading, ...]] = (LARGEST,)
    tables: ClassVar[dict[str, tuple[str, ...]]] = {
        "max-weight": (
            *("layer", "head", "weight", "low", "high"),
            *("flat_rows", "flat_low", "flat_high"),
        )
    }

    def measure(self, attention: LayerAttention) -> Mapping[str, Tensor]:
        """The mean over rows, by example and head."""
        largest = attention.read(LARGEST)  # [example, head, query]
        can_be_flat = (attention.visible * TENTH >= 1).to(largest.dtype)  # [query]
        one = largest.new_ones(len(largest))  # [example]
        return {
            "weight": largest.mean(-1),  # [example, head]
            "segments": one,
            "flat": (largest <= TENTH).to(largest.dtype) @ can_be_flat,
            "rows": one * can_be_flat.sum(),
        }

    def summarize(self, tally: Tally) -> dict[str, pd.DataFrame]:
        """Mean over segments, by head."""
        if not tally:
            return empty_tables(self.tables)
        weight = tally.ratio("weight", "segments", SHARE)  # [layer, head]
        columns = (*weight, *tally.ratio("flat", "rows", within=SHARE))
        values = dict(zip(self.tables[self.name][2:], columns, strict=True))
        return {self.name: tidy_table(head_axes(*weight.value.shape), values)}
