"""How broadly a head attends: the entropy of its rows (paper, section 3.3)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from headscope.contracts import Watch
from headscope.data.attention import LayerAttention
from headscope.data.table import empty_tables, head_axes, tidy_table
from headscope.stats.ranking import Values
from headscope.stats.tally import Tally

__all__ = ["Entropy"]

ROWS = ["all", "cls"]


@dataclass(frozen=True)
class Entropy:
    """Mean of -sum a ln a in nats, over all rows and for the first token's row alone.

    `uniform` is what a head that spreads its attention evenly over the keys it may see would get.
    """

    name: ClassVar[str] = "entropy"
    watches: ClassVar[Watch] = Watch.ATTENTION
    needs: ClassVar[frozenset[str]] = frozenset()
    measures_cross: ClassVar[bool] = True
    tables: ClassVar[dict[str, tuple[str, ...]]] = {
        "entropy": ("layer", "head", "rows", "nats", "low", "high", "uniform")
    }

    def measure(self, attention: LayerAttention) -> Mapping[str, Tensor]:
        """Entropy by example, head and kind of row, beside that of uniform attention."""
        rows = _entropy(attention.weights)  # [example, head, query]
        nats = torch.stack([rows.mean(-1), rows[..., 0]], dim=-1)  # [example, head, rows]
        ceiling = attention.visible.to(nats.dtype).log()  # [query]
        uniform = torch.stack([ceiling.mean(), ceiling[0]])  # [rows]
        return {
            "nats": nats,
            "uniform": uniform.expand(len(nats), -1),  # [example, rows]
            "segments": nats.new_ones(len(nats)),
        }

    def rank(self, values: Mapping[str, Values]) -> dict[str, Values]:
        """The share of even attention: the broader, the better an example shows it."""
        nats, uniform = values["nats"][..., 0], values["uniform"][..., 0][:, :, None]
        return {"broad": nats / np.where(uniform > 0, uniform, np.nan)}

    def summarize(self, tally: Tally) -> dict[str, pd.DataFrame]:
        """Mean over segments, by head and kind of row."""
        if not tally:
            return empty_tables(self.tables)
        nats = tally.ratio("nats", "segments")  # [layer, head, rows]
        uniform = tally.ratio("uniform", "segments").value  # [layer, rows]
        axes = {**head_axes(*nats.value.shape[:2]), "rows": ROWS}
        values = {"nats": nats.value, "low": nats.low, "high": nats.high}
        values["uniform"] = uniform[:, None, :]  # [layer, 1, rows]
        return {self.name: tidy_table(axes, values)}


def _entropy(weights: Float[Tensor, "*rows key"]) -> Float[Tensor, "*rows"]:
    """-sum a ln a over keys; 0 ln 0 is 0. Half the time of `torch.special.entr`, on one copy."""
    logarithms = weights.clamp_min(torch.finfo(weights.dtype).tiny).log_()
    return -logarithms.mul_(weights).sum(-1)
