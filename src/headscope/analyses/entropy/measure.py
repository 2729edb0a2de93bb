"""How broadly a head attends: the entropy of its rows (paper, section 3.3)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from headscope.contracts import Analysis
from headscope.data.attention import LayerAttention
from headscope.data.encoding import TokenKind
from headscope.data.reading import SUMS, Reading
from headscope.data.table import Tables, empty_tables, head_axes, tidy_table
from headscope.stats.contrast import untrained_columns
from headscope.stats.interval import estimate
from headscope.stats.ranking import Values
from headscope.stats.tally import SHARE, Tally

__all__ = ["Entropy"]

ROWS = ["all", "cls"]
COLUMNS = (
    *("layer", "head", "rows", "nats", "low", "high"),
    *("uniform", "share", "share_low", "share_high"),
)
LAYER_COLUMNS = (*("layer", "rows", "nats", "low", "high", "share", "share_low", "share_high"),)
LAYER_ROWS = [*ROWS, "cls - all"]

Array = NDArray[np.float64]


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
    reads: ClassVar[tuple[Reading, ...]] = (SUMS,)
    tables: ClassVar[dict[str, tuple[str, ...]]] = {
        "entropy": COLUMNS,
        "entropy-layers": LAYER_COLUMNS,
    }

    def measure(self, attention: LayerAttention) -> Mapping[str, Tensor]:
        """Entropy by example, head and kind of row, beside that of uniform attention."""
        nats = attention.entropy()  # [example, head, query]
        is_cls = attention.batch.kinds == TokenKind.CLS  # [example, query]
        first = (is_cls & (is_cls.cumsum(-1) == 1)).to(nats.dtype)
        even = torch.full_like(first, 1 / attention.n_queries)
        shares = torch.stack([even, first], dim=-1)  # [example, query, rows]
        ceiling = (attention.visible + attention.has_sink).to(nats.dtype).log()  # [query]
        has_rows = torch.stack([torch.ones_like(first[:, 0]), first.sum(-1)], dim=-1)
        return {
            "nats": nats @ shares,  # [example, head, rows]
            "uniform": ceiling @ shares[:, None],  # [example, 1, rows]
            "segments": has_rows[:, None],  # [example, 1, rows]
        }

    def rank(self, values: Mapping[str, Values]) -> dict[str, Values]:
        """The share of even attention: the broader, the better an example shows it."""
        nats, uniform = values["nats"][..., 0], values["uniform"][..., 0]
        return {"broad": nats / np.where(uniform > 0, uniform, np.nan)}

    def summarize(self, tally: Tally) -> dict[str, pd.DataFrame]:
        """Mean over segments, by head and kind of row; then over the heads of each layer.

        Kinds that no segment has are left out.
        """
        if not tally:
            return empty_tables(self.tables)
        mean = tally.ratio("nats", "segments", (0, np.inf))  # [layer, head, rows]
        nats, uniform, share = _breadth(tally)
        axes = {**head_axes(*mean.value.shape[:2]), "rows": ROWS}
        columns = (*mean, uniform[0], *estimate(share, SHARE))
        table = tidy_table(axes, dict(zip(COLUMNS[3:], columns, strict=True)))
        return {
            self.name: table[table["nats"].notna()].reset_index(drop=True),
            "entropy-layers": _layer_table(nats, share),
        }

    def add_untrained(
        self, tables: Tables, tally: Tally, untrained: Sequence[Tally]
    ) -> dict[str, pd.DataFrame]:
        """The breadth of untrained models' layers beside that of the model's."""
        model, *draws = (_by_layer(_breadth(one)[2]) for one in (tally, *untrained))
        columns = untrained_columns(model, draws)
        table = tables["entropy-layers"].assign(**{n: v.ravel() for n, v in columns.items()})
        return {**tables, "entropy-layers": table}


def _breadth(tally: Tally) -> tuple[Array, Array, Array]:
    """Replicates of the entropy, of that of even attention, and of the one over the other.

    They are [replicate, layer, head, rows], the second with one head.
    """
    nats, uniform = (tally.replicates(name, "segments") for name in ("nats", "uniform"))
    return nats, uniform, nats / np.where(uniform > 0, uniform, np.nan)


def _by_layer(replicates: Array) -> Float[Array, "replicate layer rows"]:
    """The mean over heads, and by how much the first token's is above that of all."""
    mean = replicates.mean(axis=2)  # [replicate, layer, rows]
    return np.concatenate([mean, mean[..., 1:] - mean[..., :1]], axis=-1)


def _layer_table(nats: Array, share: Array) -> pd.DataFrame:
    parts = (*estimate(_by_layer(nats)), *estimate(_by_layer(share), (-1, 1)))
    axes = {"layer": range(1, nats.shape[1] + 1), "rows": LAYER_ROWS}
    return tidy_table(axes, dict(zip(LAYER_COLUMNS[2:], parts, strict=True)))
