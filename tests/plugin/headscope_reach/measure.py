"""How far away heads look: the distance between a query and what it attends to."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from headscope import Analysis, Estimates, Number, Readings, RowReading, Sums, option
from headscope.data.depth import halves
from headscope.options import require
from headscope.stats.estimates import add_difference, mean_over_layers


@dataclass(frozen=True)
class Distance(RowReading):
    """The mean distance in tokens to what a row attends to; or the share that goes `far`."""

    far: int = 0

    def of_rows(self, weights: Tensor, rows: slice) -> Tensor:
        queries = torch.arange(rows.start, rows.stop, device=weights.device)
        keys = torch.arange(weights.shape[-1], device=weights.device)
        distance = (queries[:, None] - keys).abs()  # [row, key]
        return (weights * (distance >= self.far if self.far else distance)).sum(-1)


@dataclass(frozen=True)
class Reach(Analysis):
    """Mean distance of attention in tokens, and the share of it that goes far away."""

    name: ClassVar[str] = "reach"
    sums: ClassVar[dict[str, str]] = {"tokens": "layer head", "share": "layer head", "segments": ""}
    tables: ClassVar[dict[str, tuple[str, ...]]] = {
        "reach": ("layer", "head", "tokens", "low", "high", "share", "share_low", "share_high"),
        "reach-halves": ("layers", "tokens", "low", "high"),
    }

    far: int = option(10, "Distance in tokens from which on attention counts as far away.")

    def __post_init__(self) -> None:
        require(self.far > 0, "far", self.far, "at least 1")

    @property
    def reads(self) -> tuple[Distance, ...]:
        return Distance(), Distance(self.far)

    def measure(self, seen: Readings) -> Mapping[str, Tensor]:
        """Both, as means over the queries of an example, by head."""
        tokens, share = (seen[reading].mean(-1) for reading in self.reads)
        return {"tokens": tokens, "share": share, "segments": seen.ones()}

    def rank(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The share itself: the more attention goes far, the better an example shows it."""
        return {"far": values["share"]}

    def summarize(self, sums: Sums) -> dict[str, Estimates]:
        """Means over examples, by head; then over the lower and the upper layers."""
        tokens = sums.mean("tokens", "segments")
        columns = {
            "tokens": Number(tokens, (0, float("inf"))),
            "share": Number(sums.mean("share", "segments"), (0, 1)),
        }
        lower, upper = halves(tokens.sizes["layer"])
        by_half = mean_over_layers(tokens.mean("head"), {"lower": lower, "upper": upper})
        difference = add_difference(by_half, "layers", "upper", "lower")
        return {
            "reach": Estimates(columns),
            "reach-halves": Estimates({"tokens": Number(difference)}, known="tokens"),
        }
