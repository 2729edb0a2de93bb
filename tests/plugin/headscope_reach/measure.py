"""How far away heads look: the distance between a query and what it attends to."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd
import torch
from torch import Tensor

from headscope import Analysis, LayerAttention, Tally, empty_tables, head_axes, option, tidy_table
from headscope.data.depth import halves
from headscope.options import require
from headscope.stats.contrast import over_layers
from headscope.stats.interval import estimate


@dataclass(frozen=True)
class Reach(Analysis):
    """Mean distance of attention in tokens, and the share of it that goes far away."""

    name: ClassVar[str] = "reach"
    tables: ClassVar[dict[str, tuple[str, ...]]] = {
        "reach": ("layer", "head", "tokens", "low", "high", "share", "share_low", "share_high"),
        "reach-halves": ("layers", "tokens", "low", "high"),
    }

    far: int = option(10, "Distance in tokens from which on attention counts as far away.")

    def __post_init__(self) -> None:
        require(self.far > 0, "far", self.far, "at least 1")

    def measure(self, attention: LayerAttention) -> Mapping[str, Tensor]:
        """Both, as means over the queries of an example, by example and head."""
        place = torch.arange(attention.n_tokens, device=attention.weights.device)
        distance = (place[:, None] - place).abs()  # [query, key]
        tokens = (attention.weights * distance).sum(-1).mean(-1)  # [example, head]
        share = (attention.weights * (distance >= self.far)).sum(-1).mean(-1)
        return {"tokens": tokens, "share": share, "segments": tokens.new_ones(len(tokens))}

    def rank(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The share itself: the more attention goes far, the better an example shows it."""
        return {"far": values["share"]}

    def summarize(self, tally: Tally) -> dict[str, pd.DataFrame]:
        """Means over examples, by head."""
        if not tally:
            return empty_tables(self.tables)
        tokens = tally.ratio("tokens", "segments", within=(0, float("inf")))
        share = tally.ratio("share", "segments", within=(0, 1))
        columns = self.tables["reach"][2:]
        values = dict(zip(columns, (*tokens, *share), strict=True))  # [layer, head] each
        return {
            "reach": tidy_table(head_axes(*tokens.value.shape), values),
            "reach-halves": compare_halves(tally.replicates("tokens", "segments")),
        }


def compare_halves(replicates: Any) -> pd.DataFrame:
    """Means over the lower and the upper layers, and their difference, with its own interval."""
    by_layer = replicates.mean(axis=2)  # [replicate, layer]: on all data, then without each bucket
    lower, upper = halves(by_layer.shape[1])
    if not upper:
        return pd.DataFrame(columns=list(Reach.tables["reach-halves"]))
    near, far = (over_layers(by_layer, half) for half in (lower, upper))
    parts = {"lower": near, "upper": far, "upper - lower": far - near}
    rows = [(name, *map(float, estimate(part))) for name, part in parts.items()]
    return pd.DataFrame(rows, columns=list(Reach.tables["reach-halves"]))
