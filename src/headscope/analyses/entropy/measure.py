"""How broadly a head attends: the entropy of its rows (paper, section 3.3)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from headscope.contracts import Analysis
from headscope.data.attention import Readings
from headscope.data.encoding import TokenKind
from headscope.data.reading import SUMS, AnyReading
from headscope.stats.estimates import (
    AT_LEAST_0,
    DIFFERENCE,
    SHARE,
    Column,
    Estimates,
    Number,
    add_difference,
)
from headscope.stats.ranking import Values
from headscope.stats.sums import Sums

__all__ = ["Entropy"]


@dataclass(frozen=True)
class Entropy(Analysis):
    """Mean of -sum a ln a in nats, over all rows and for the row of [CLS] alone.

    `cls` is the first opening special token, wherever it stands (XLNet's is the last token); a
    model without one (T5, GPT-2) has no such rows. `uniform` is what a head that spreads its
    attention evenly over the keys it may see would get, and `share` the one over the other.
    A learned sink (gpt-oss) counts as one more key in both.
    """

    name: ClassVar[str] = "entropy"
    weighs_documents: ClassVar[bool] = True
    measures_cross: ClassVar[bool] = True
    reads: ClassVar[tuple[AnyReading, ...]] = (SUMS,)
    sums: ClassVar[dict[str, str]] = {
        "nats": "layer head rows", "uniform": "layer rows", "segments": "rows",
    }  # fmt: skip
    labels: ClassVar[dict[str, tuple[str, ...]]] = {"rows": ("all", "cls")}
    tables: ClassVar[dict[str, tuple[str, ...]]] = {
        "entropy": (
            *("layer", "head", "rows", "nats", "low", "high"),
            *("uniform", "share", "share_low", "share_high"),
        ),
        "entropy-layers": (
            *("layer", "rows", "nats", "low", "high", "share", "share_low", "share_high"),
        ),
    }

    def measure(self, seen: Readings) -> Mapping[str, Tensor]:
        """Entropy by kind of row, beside that of uniform attention."""
        nats = seen[SUMS].entropy  # [example, layer, head, query]
        is_cls = seen.batch.kinds == TokenKind.CLS  # [example, query]
        first = (is_cls & (is_cls.cumsum(-1) == 1)).to(nats.dtype)
        even = torch.full_like(first, 1 / seen.n_queries)
        shares = torch.stack([even, first], dim=-1)  # [example, query, rows]
        ceiling = (seen.visible + seen.has_sink).to(nats.dtype).log()  # [layer, query]
        has_rows = torch.stack([torch.ones_like(first[:, 0]), first.sum(-1)], dim=-1)
        uniform = torch.stack([layer @ shares for layer in ceiling], dim=1)
        return {"nats": nats @ shares[:, None], "uniform": uniform, "segments": has_rows}

    def rank(self, values: Mapping[str, Values]) -> dict[str, Values]:
        """The share of even attention: the broader, the better an example shows it."""
        nats, uniform = values["nats"][..., 0], values["uniform"][:, :, None, 0]
        return {"broad": nats / np.where(uniform > 0, uniform, np.nan)}

    def summarize(self, sums: Sums) -> Mapping[str, Estimates]:
        """Mean over segments, by head and kind of row; then over the heads of each layer.

        Kinds that no segment has are left out.
        """
        nats, uniform = sums.mean("nats", "segments"), sums.mean("uniform", "segments")
        share = nats / uniform.where(uniform > 0)
        heads: dict[str, Column] = {
            "nats": Number(nats, AT_LEAST_0),
            "uniform": uniform.isel(replicate=0),
            "share": Number(share, SHARE),
        }
        layers: dict[str, Column] = {
            "nats": Number(_by_layer(nats)),
            "share": Number(_by_layer(share), DIFFERENCE),
        }
        return {
            self.name: Estimates(heads, known="nats"),
            "entropy-layers": Estimates(layers, untrained="share"),
        }


def _by_layer(replicates: xr.DataArray) -> xr.DataArray:
    """The mean over heads, and by how much the first token's is above that of all."""
    return add_difference(replicates.mean("head", skipna=False), "rows", "cls", "all")
