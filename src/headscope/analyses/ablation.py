"""Does a head matter? What its absence does to the loss, or to the hidden states."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import pandas as pd
from torch import Tensor

from headscope.data.change import LayerChange
from headscope.data.table import empty_tables, head_axes, tidy_table
from headscope.data.tally import Tally

__all__ = ["MODES", "Ablation"]

MODES = ["zero", "mean", "sink"]
COLUMNS = ("layer", "head", "mode", "effect", "change", "low", "high", "base")


@dataclass(frozen=True)
class Ablation:
    """The mean change of the model's answer by altering one head, in each way.

    The change of an example is paired with the answer of the model as it is, so the interval is
    that of the difference. `heads` (layer, head, from 0) are those to alter; None: all.
    """

    heads: tuple[tuple[int, int], ...] | None = None

    name: ClassVar[str] = "ablation"
    needs: ClassVar[frozenset[str]] = frozenset()
    watches: ClassVar[str] = "ablation"
    tables: ClassVar[dict[str, tuple[str, ...]]] = {"ablation": COLUMNS}

    def measure(self, change: LayerChange) -> Mapping[str, Tensor]:
        """Changes by example, head and mode, how many heads were altered, and the base once."""
        is_measured = change.is_measured.to(change.changes.dtype)
        values = {
            f"change/{change.effect}": change.changes,
            "measured": is_measured.expand(len(change.changes), -1),  # [example, head]
        }
        if change.layer == 0:
            values |= {"base": change.base, "examples": change.base.new_ones(len(change.base))}
        return values

    def summarize(self, tally: Tally) -> dict[str, pd.DataFrame]:
        """The mean change over examples, of every head that was asked for."""
        if not tally:
            return empty_tables(self.tables)
        effect = next(name.partition("/")[2] for name in tally if name.startswith("change/"))
        change = tally.ratio(f"change/{effect}", "measured")  # [layer, head, mode]
        n_layers, n_heads, _ = change.value.shape
        axes = {**head_axes(n_layers, n_heads), "mode": MODES, "effect": [effect]}
        parts = {"change": change.value, "low": change.low, "high": change.high}
        values: dict[str, object] = {name: part[..., None] for name, part in parts.items()}
        values["base"] = float(tally.ratio("base", "examples").value[0])
        table = tidy_table(axes, values)
        return {self.name: table.dropna(subset=["change"]).reset_index(drop=True)}
