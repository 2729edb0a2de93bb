"""Attention to the previous, the same and the next token (paper, section 3.1)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import pandas as pd
import torch
from torch import Tensor

from headscope.contracts import Analysis
from headscope.data.attention import LayerAttention
from headscope.data.reading import SUMS, Reading
from headscope.data.table import empty_tables, head_axes, tidy_table
from headscope.stats.ranking import Values
from headscope.stats.tally import SHARE, Tally

__all__ = ["Position"]

OFFSETS = {"previous": -1, "self": 0, "next": 1}


@dataclass(frozen=True)
class Position(Analysis):
    """Mean attention to a token at a fixed offset.

    Per segment: the sum of a diagonal over the number of tokens, the edge token that has no such
    neighbour included; then the mean over segments. In cross attention the diagonals lead to the
    source tokens before, at and after the place of the token that is written next.
    """

    name: ClassVar[str] = "position"
    weighs_documents: ClassVar[bool] = True
    measures_cross: ClassVar[bool] = True
    reads: ClassVar[tuple[Reading, ...]] = (SUMS,)
    tables: ClassVar[dict[str, tuple[str, ...]]] = {
        "position": ("layer", "head", "target", "weight", "low", "high")
    }

    def measure(self, attention: LayerAttention) -> Mapping[str, Tensor]:
        """The three diagonals' means, by example, head and target."""
        sums = [attention.offset(offset) for offset in OFFSETS.values()]  # [example, head] each
        weight = torch.stack(sums, dim=-1) / attention.n_queries  # [example, head, target]
        return {"weight": weight, "segments": weight.new_ones(len(weight))}

    def rank(self, values: Mapping[str, Values]) -> dict[str, Values]:
        """The weight itself: the more attention goes there, the better an example shows it."""
        return {target: values["weight"][..., i] for i, target in enumerate(OFFSETS)}

    def summarize(self, tally: Tally) -> dict[str, pd.DataFrame]:
        """Mean over segments, by head and target."""
        if not tally:
            return empty_tables(self.tables)
        weight = tally.ratio("weight", "segments", SHARE)  # [layer, head, target]
        axes = {**head_axes(*weight.value.shape[:2]), "target": list(OFFSETS)}
        columns = dict(zip(self.tables[self.name][3:], weight, strict=True))
        return {self.name: tidy_table(axes, columns)}
