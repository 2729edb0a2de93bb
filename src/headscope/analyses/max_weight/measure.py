"""How much a head puts on one token at most: the largest weight of a row (paper, section 3.3)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from headscope.contracts import Analysis
from headscope.data.attention import Readings
from headscope.data.reading import AnyReading, RowReading
from headscope.stats.estimates import SHARE, Estimates, Number
from headscope.stats.sums import Sums

__all__ = ["MaxWeight"]

TENTH = 0.1


class LargestWeight(RowReading):
    """The largest weight of each row."""

    def of_rows(self, weights: Tensor, rows: slice) -> Tensor:
        return weights.amax(-1)


LARGEST = LargestWeight()


@dataclass(frozen=True)
class MaxWeight(Analysis):
    """Mean largest weight of a row: per segment over all its rows, then over segments.

    `flat_rows` is the share of rows with at most a tenth on any token, of those that may look at
    ten tokens or more.
    """

    name: ClassVar[str] = "max-weight"
    weighs_documents: ClassVar[bool] = True
    measures_cross: ClassVar[bool] = True
    reads: ClassVar[tuple[AnyReading, ...]] = (LARGEST,)
    sums: ClassVar[dict[str, str]] = {
        "weight": "layer head", "segments": "", "flat": "layer head", "rows": "layer",
    }  # fmt: skip
    tables: ClassVar[dict[str, tuple[str, ...]]] = {
        "max-weight": (
            *("layer", "head", "weight", "low", "high"),
            *("flat_rows", "flat_low", "flat_high"),
        )
    }

    def measure(self, seen: Readings) -> Mapping[str, Tensor]:
        """The mean over rows, and how many rows are flat, of those that can be."""
        largest = seen[LARGEST]  # [example, layer, head, query]
        can_be_flat = (seen.visible * TENTH >= 1).to(largest.dtype)  # [layer, query]
        is_flat = (largest <= TENTH).to(largest.dtype)
        return {
            "weight": largest.mean(-1),
            "segments": seen.ones(),
            "flat": (is_flat * can_be_flat[:, None]).sum(-1),
            "rows": can_be_flat.sum(-1).expand(len(seen), -1),
        }

    def summarize(self, sums: Sums) -> Mapping[str, Estimates]:
        """Mean over segments, by head."""
        weight, flat = sums.mean("weight", "segments"), sums.mean("flat", "rows")
        columns = {"weight": Number(weight, SHARE), "flat_rows": Number(flat, SHARE, ends="flat")}
        return {self.name: Estimates(columns)}
