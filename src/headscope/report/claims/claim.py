"""What a claim is, what comes of checking it, and how its numbers are written and judged."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from headscope.report.cells import percent

__all__ = [
    "Claim",
    "Estimate",
    "Finding",
    "Outcome",
    "Tables",
    "Verdict",
    "judge",
    "name_head",
    "top_row",
]

Tables = Mapping[str, pd.DataFrame]
Verdict = Literal["holds", "does not hold", "not measured"]


@dataclass(frozen=True)
class Outcome:
    """What a check found: whether the claim holds (None: cannot be said), and the numbers."""

    holds: bool | None
    shows: str

    @property
    def verdict(self) -> Verdict:
        if self.holds is None:
            return "not measured"
        return "holds" if self.holds else "does not hold"


@dataclass(frozen=True)
class Claim:
    """A finding of the paper, and how to see whether it is true of another model."""

    name: str
    section: str
    says: str  # as it is checked; where the paper gives no figure, ours stands in brackets
    paper: str  # what the paper reports of BERT-base
    needs: tuple[str, ...]  # tables; all of them must be there
    made_by: str  # what to add to `headscope analyze MODEL` to have them
    check: Callable[[Tables], Outcome]
    figure: str | None = None  # the figure that shows it
    unless: str = ""  # of which models the tables cannot be made

    def missing(self, tables: Tables) -> list[str]:
        """The tables it needs that are not there or empty."""
        return [name for name in self.needs if not len(tables.get(name, ()))]


@dataclass(frozen=True)
class Finding:
    """A claim and what this model shows of it."""

    claim: Claim
    verdict: Verdict
    shows: str  # in a sentence with numbers; or why it was not measured, and what measures it


@dataclass(frozen=True)
class Estimate:
    """A number and the ends of its 95 % interval, which may be unknown (NaN)."""

    value: float
    low: float = float("nan")
    high: float = float("nan")

    @classmethod
    def mean_of(cls, rows: pd.DataFrame, column: str = "weight") -> "Estimate":
        """The mean over heads. Its interval is the mean of theirs, which is never too narrow:
        it takes them to err together."""
        return cls(*(float(rows[name].mean()) for name in (column, "low", "high")))

    @classmethod
    def from_row(cls, row: pd.Series, column: str = "accuracy") -> "Estimate":
        return cls(*(float(row[name]) for name in (column, "low", "high")))

    def __str__(self) -> str:
        """In percent.

        >>> str(Estimate(0.5, 0.4, 0.6)), str(Estimate(0.5))
        ('50.0 % [40.0-60.0]', '50.0 %')
        """
        ends = "" if pd.isna(self.low) else f" [{percent(self.low)}-{percent(self.high)}]"
        return f"{percent(self.value)} %{ends}"

    def as_points(self) -> str:
        """A difference, in points of percent.

        >>> Estimate(0.05, -0.01, 0.11).as_points()
        '+5.0 points [-1.0 to +11.0]'
        """
        ends = "" if pd.isna(self.low) else f" [{100 * self.low:+.1f} to {100 * self.high:+.1f}]"
        return f"{100 * self.value:+.1f} points{ends}"

    def straddles(self, threshold: float) -> bool:
        """Whether the interval leaves open on which side of the threshold the truth is."""
        return bool(self.low <= threshold <= self.high)  # never, where there is no interval


def judge(estimate: Estimate, threshold: float, shows: str) -> Outcome:
    """Holds if the number is above the threshold; says so where the interval has it inside."""
    if pd.isna(estimate.value):
        return Outcome(None, f"{shows} There is no number to judge by.")
    is_open = estimate.straddles(threshold)
    caveat = f" The interval includes {percent(threshold)} %: this may be chance." * is_open
    return Outcome(bool(estimate.value > threshold), shows + caveat)


def name_head(row: pd.Series) -> str:
    """A head as people name it, 8-10."""
    return f"{int(row['layer'])}-{int(row['head'])}"


def top_row(table: pd.DataFrame, column: str) -> pd.Series:
    """The row with the largest number; of equal ones the first."""
    return table.sort_values(column, ascending=False, kind="stable").iloc[0]
