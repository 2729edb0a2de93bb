"""One figure of a benchmark, and the table of all of them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from operator import ge, le, lt
from typing import Any

__all__ = ["Benchmark", "Row", "Settings", "Target", "at_least", "at_most", "format_table", "under"]

COLUMNS = ("benchmark", "measured", "figure", "target", "met")
SIGNS: dict[str, Callable[[float, float], bool]] = {"<=": le, ">=": ge, "<": lt}


@dataclass(frozen=True)
class Settings:
    """How to measure: how many repeats to take the best of, on how many threads."""

    repeats: int = 5
    threads: int = 2


@dataclass(frozen=True)
class Target:
    """A bound, e.g. "<= 1.1"."""

    sign: str
    value: float

    def is_met_by(self, figure: float) -> bool:
        return SIGNS[self.sign](figure, self.value)


def at_most(value: float) -> Target:
    return Target("<=", value)


def at_least(value: float) -> Target:
    return Target(">=", value)


def under(value: float) -> Target:
    return Target("<", value)


@dataclass(frozen=True)
class Row:
    """What was measured, and its figure in a unit; without a target it only informs."""

    benchmark: str
    measured: str
    figure: float
    unit: str
    target: Target | None = None

    @property
    def is_met(self) -> bool | None:
        return None if self.target is None else self.target.is_met_by(self.figure)

    def cells(self) -> tuple[str, ...]:
        """The row as text, one cell per column of the table.

        >>> Row("speed", "analyze", 1.0713, "x", at_most(1.1)).cells()
        ('speed', 'analyze', '1.071 x', '<= 1.1 x', 'yes')
        """
        figure = f"{self.figure:.{3 if self.unit == 'x' else 1}f} {self.unit}"
        if self.target is None:
            return self.benchmark, self.measured, figure, "-", "-"
        target = f"{self.target.sign} {self.target.value:.4g} {self.unit}"
        return self.benchmark, self.measured, figure, target, "yes" if self.is_met else "no"

    def to_json(self) -> dict[str, Any]:
        """The row as a JSON object."""
        return {**asdict(self), "met": self.is_met}


Benchmark = Callable[[Settings], Iterator[Row]]


def format_table(rows: Sequence[Row]) -> str:
    """The rows under their headings, in columns as wide as their widest cell."""
    lines = [COLUMNS, *(row.cells() for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, tuple("-" * width for width in widths))
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
