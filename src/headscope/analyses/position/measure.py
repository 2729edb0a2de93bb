"""Attention to the previous, the same and the next token (paper, section 3.1)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from headscope.contracts import Analysis
from headscope.data.attention import Readings
from headscope.data.reading import SUMS, AnyReading
from headscope.stats.estimates import SHARE, Estimates, Number
from headscope.stats.ranking import Values
from headscope.stats.sums import Sums

__all__ = ["Position"]

TARGETS = ("previous", "self", "next")  # as the diagonals of SUMS


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
    reads: ClassVar[tuple[AnyReading, ...]] = (SUMS,)
    sums: ClassVar[dict[str, str]] = {"weight": "layer head target", "segments": ""}
    labels: ClassVar[dict[str, tuple[str, ...]]] = {"target": TARGETS}
    tables: ClassVar[dict[str, tuple[str, ...]]] = {
        "position": ("layer", "head", "target", "weight", "low", "high")
    }

    def measure(self, seen: Readings) -> Mapping[str, Tensor]:
        """The means of the three diagonals of each example."""
        weight = seen[SUMS].diagonals / seen.n_queries  # [example, layer, head, target]
        return {"weight": weight, "segments": seen.ones()}

    def rank(self, values: Mapping[str, Values]) -> dict[str, Values]:
        """The weight itself: the more attention goes there, the better an example shows it."""
        return {target: values["weight"][..., i] for i, target in enumerate(TARGETS)}

    def summarize(self, sums: Sums) -> Mapping[str, Estimates]:
        """Mean over segments, by head and target."""
        weight = sums.mean("weight", "segments")
        return {self.name: Estimates({"weight": Number(weight, SHARE)})}
