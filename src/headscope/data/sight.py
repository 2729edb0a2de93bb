"""What one head does with one example: enough to draw it, small enough to keep."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

__all__ = ["Sight"]

FAINT = 0.005  # weights below it are not kept: nobody would see their lines


@dataclass(frozen=True, eq=False)
class Sight:
    """The attention of one head over one example, between tokens or between words."""

    example: str  # its id
    layer: int
    head: int
    units: tuple[str, ...]  # tokens, or words (with the special tokens that stand around them)
    is_special: tuple[bool, ...]
    weights: Float[NDArray[np.floating[Any]], "query key"]
    marked: tuple[tuple[int, int], ...] = ()  # pairs (from, to) to draw in red, as gold arcs are

    def __post_init__(self) -> None:
        n_units = len(self.units)
        if self.weights.shape != (n_units, n_units) or len(self.is_special) != n_units:
            raise ValueError(f"A sight of {n_units} units must have so many rows and columns.")
        if any(not 0 <= unit < n_units for pair in self.marked for unit in pair):
            raise ValueError("A marked pair lies outside the units.")

    def to_json(self) -> dict[str, Any]:
        """Plain values; the weights as [from, to, weight] in thousandths, faint ones left out."""
        rows, columns = np.nonzero(self.weights >= FAINT)
        kept = [
            [int(row), int(column), round(1000 * float(self.weights[row, column]))]
            for row, column in zip(rows, columns, strict=True)
        ]
        return {
            "example": self.example,
            "layer": self.layer,
            "head": self.head,
            "units": list(self.units),
            "is_special": [int(special) for special in self.is_special],
            "weights": kept,
            "marked": [list(pair) for pair in self.marked],
        }

    @staticmethod
    def from_json(values: dict[str, Any]) -> "Sight":
        """The sight that `to_json` wrote, but for what it left out."""
        n_units = len(values["units"])
        weights = np.zeros((n_units, n_units))
        for row, column, thousandths in values["weights"]:
            weights[row, column] = thousandths / 1000
        return Sight(
            values["example"],
            values["layer"],
            values["head"],
            tuple(values["units"]),
            tuple(map(bool, values["is_special"])),
            weights,
            tuple((start, end) for start, end in values["marked"]),
        )
