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
from headscope.data.encoding import TokenKind
from headscope.data.table import empty_tables, head_axes, tidy_table
from headscope.stats.interval import estimate
from headscope.stats.ranking import Values
from headscope.stats.tally import SHARE, Tally, segment_means

__all__ = ["Entropy"]

ROWS = ["all", "cls"]
COLUMNS = (
    *("layer", "head", "rows", "nats", "low", "high", "effective"),
    *("uniform", "share", "share_low", "share_high"),
)


@dataclass(frozen=True)
class Entropy:
    """Mean of -sum a ln a in nats, over all rows and for the row of [CLS] alone.

    `cls` is the first opening special token, wherever it stands (XLNet's is the last token); a
    model without one (T5, GPT-2) has no such rows. `uniform` is what a head that spreads its
    attention evenly over the keys it may see would get, and `share` the one over the other.
    A learned sink (gpt-oss) counts as one more key in both.
    """

    name: ClassVar[str] = "entropy"
    watches: ClassVar[Watch] = Watch.ATTENTION
    needs: ClassVar[frozenset[str]] = frozenset()
    measures_cross: ClassVar[bool] = True
    tables: ClassVar[dict[str, tuple[str, ...]]] = {"entropy": COLUMNS}

    def measure(self, attention: LayerAttention) -> Mapping[str, Tensor]:
        """Entropy by example, head and kind of row, beside that of uniform attention."""
        nats = _entropy(attention.with_sink())  # [example, head, query]
        is_cls = attention.batch.kinds == TokenKind.CLS  # [example, query]
        first = (is_cls & (is_cls.cumsum(-1) == 1)).to(nats.dtype)
        even = torch.full_like(first, 1 / attention.n_tokens)
        shares = torch.stack([even, first], dim=-1)  # [example, query, rows]
        ceiling = (attention.visible + attention.has_sink).to(nats.dtype).log()  # [query]
        has_rows = torch.stack([torch.ones_like(first[:, 0]), first.sum(-1)], dim=-1)
        return {
            **segment_means("nats", nats @ shares),  # [example, head, rows]
            "uniform": ceiling @ shares[:, None],  # [example, 1, rows]
            "segments": has_rows[:, None],  # [example, 1, rows]
        }

    def rank(self, values: Mapping[str, Values]) -> dict[str, Values]:
        """The share of even attention: the broader, the better an example shows it."""
        nats, uniform = values["nats"][..., 0], values["uniform"][..., 0]
        return {"broad": nats / np.where(uniform > 0, uniform, np.nan)}

    def summarize(self, tally: Tally) -> dict[str, pd.DataFrame]:
        """Mean over segments, by head and kind of row; kinds that no segment has are left out."""
        if not tally:
            return empty_tables(self.tables)
        nats = tally.mean("nats", within=(0, np.inf))  # [layer, head, rows]
        # [replicate, layer, head, rows], and 1 for heads
        above, uniform = (tally.replicates(name, "segments") for name in ("nats", "uniform"))
        breadth = estimate(above / np.where(uniform > 0, uniform, np.nan), SHARE)
        axes = {**head_axes(*nats.value.shape[:2]), "rows": ROWS}
        columns = dict(zip(COLUMNS[3:], (*nats, uniform[0], *breadth), strict=True))
        table = tidy_table(axes, columns)
        return {self.name: table[table["nats"].notna()].reset_index(drop=True)}


def _entropy(weights: Float[Tensor, "*rows key"]) -> Float[Tensor, "*rows"]:
    """-sum a ln a over keys; 0 ln 0 is 0. Half the time of `torch.special.entr`, on one copy."""
    logarithms = weights.clamp_min(torch.finfo(weights.dtype).tiny).log_()
    return -logarithms.mul_(weights).sum(-1)
