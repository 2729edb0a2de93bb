"""Numbers and intervals as people read them: one formatter for terminal, page and files."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from headscope.stats.interval import Estimate

__all__ = [
    "NATS", "PERCENT", "POINTS", "RATIO", "ROUND_PERCENT", "SHARE", "SMALL", "WHOLE",
    "WHOLE_PERCENT", "Form", "bounds", "held_out", "is_agreed", "name_specials", "p_value",
    "percent", "row_estimate", "say_held_out",
]  # fmt: skip

# The columns of intervals that do not have the name of their number.
BOUNDS = {
    "heldout_accuracy": "heldout", "heldout_difference": "difference", "flat_rows": "flat"
}  # fmt: skip
HALF_UP = 1 + 1e-12  # lifts a number over a tie, so that 40.5 becomes 41 and not the even 40


@dataclass(frozen=True)
class Form:
    """How a kind of number is written: its digits, scale and unit, and what joins two ends."""

    digits: str
    scale: float = 1.0
    unit: str = ""
    to: str = "-"

    def number(self, value: float) -> str:
        """The number with its unit, or a dash where there is none.

        >>> SHARE.number(0.3456), SHARE.number(float("nan")), WHOLE.number(0.405)
        ('34.6 %', '-', '41')
        """
        return "-" if pd.isna(value) else f"{self._plain(value)}{self.unit}"

    def ends(self, low: float, high: float) -> str:
        """The interval in brackets after a space; nothing where there is none."""
        return "" if pd.isna(low) else f" [{self.interval(low, high)}]"

    def interval(self, low: float, high: float) -> str:
        """The interval without brackets, or a dash."""
        return "-" if pd.isna(low) else f"{self._plain(low)}{self.to}{self._plain(high)}"

    def estimate(self, estimate: Estimate[float]) -> str:
        """The number with its interval.

        >>> PERCENT.estimate(Estimate(0.42, 0.406, 0.433))
        '42.0 [40.6-43.3]'
        """
        value, low, high = estimate
        return self.number(value) + ("" if pd.isna(value) else self.ends(low, high))

    def row(self, row: Any, column: str) -> str:
        """The number and interval of a row with `low` and `high`."""
        return self.estimate(row_estimate(row, column))

    def _plain(self, value: float) -> str:
        return format(self.scale * value * HALF_UP, self.digits)


PERCENT = Form(".1f", 100)  # under a heading that says %
SHARE = Form(".1f", 100, " %")
ROUND_PERCENT = Form(".0f", 100, "%")
WHOLE = Form(".0f", 100)
WHOLE_PERCENT = Form(".0f", 100, " %")
POINTS = Form("+.1f", 100, " points", " to ")
NATS = Form(".3f")
RATIO = Form(".2f")
SMALL = Form(".2g", to=" to ")


def percent(share: float) -> str:
    """A share in percent without the sign, or a dash.

    >>> percent(0.3456)
    '34.6'
    """
    return PERCENT.number(share)


def p_value(p: float) -> str:
    """A p-value with three digits.

    >>> p_value(0.0321), p_value(1e-9), p_value(float("nan"))
    ('0.032', '<.001', '-')
    """
    if pd.isna(p):
        return "-"
    return "<.001" if p < 0.001 else f"{p:.3f}"


def bounds(row: Any, column: str) -> tuple[str, str]:
    """The columns of a number's interval in a table or row, after the number's name.

    >>> bounds({"share_low": 0.1, "low": 1}, "share"), bounds({"low": 1}, "share")
    (('share_low', 'share_high'), ('low', 'high'))
    """
    stem = BOUNDS.get(column, column)
    has_own = hasattr(row, f"{stem}_low") if isinstance(row, tuple) else f"{stem}_low" in row
    return (f"{stem}_low", f"{stem}_high") if has_own else ("low", "high")


def row_estimate(row: Any, column: str) -> Estimate[float]:
    """The number of a row (a Series, a mapping or a named tuple) with its interval."""
    names = (column, *bounds(row, column))
    cells = [getattr(row, name) if isinstance(row, tuple) else row[name] for name in names]
    return Estimate(*(float("nan") if pd.isna(cell) else float(cell) for cell in cells))


def held_out(row: Any) -> Estimate[float]:
    """The held-out accuracy of a row of best heads, with its interval."""
    return row_estimate(row, "heldout_accuracy")


def name_specials(text: str, model: Mapping[str, Any] | None, kind: str = "") -> str:
    """The text with the model's names for [CLS] and [SEP]; where it has none, the paper's stay.

    `model` is what the manifest says of it, `kind` the kind of attention that the text is about.

    >>> model = {"special_tokens": {"closing": "</s>", "decoder opening": "<pad>"}}
    >>> name_specials("the opening token ([CLS])", model, "decoder")
    'the opening token (<pad>)'
    """
    names = (model or {}).get("special_tokens", {})
    opening = names.get("decoder opening" if kind == "decoder" else "opening")
    text = text.replace("[CLS]", opening or "[CLS]")
    return text.replace("[SEP]", names.get("closing") or "[SEP]")


def is_agreed(best: Any) -> Any:
    """Whether half of the folds or more chose the best head on all data, of a row or of each row.

    Otherwise its held-out score is mostly that of other heads, so it is not shown as its own. True
    where nothing was held out.

    >>> is_agreed({"chosen_in": 7, "folds": 8}), is_agreed({"chosen_in": 1, "folds": 6})
    (np.True_, np.False_)
    """
    chosen_in, folds = (
        np.asarray(best.get(name, 0), np.float64) for name in ("chosen_in", "folds")
    )
    return ~(2 * chosen_in < folds)


def say_held_out(row: Any, is_own: bool) -> str:
    """The held-out accuracy of a best head; where it is mostly that of others, that on all data."""
    if is_own:
        return f"{SHARE.estimate(held_out(row))} held out"
    few = f"only {row.chosen_in} of {row.folds} folds chose it"
    return f"{SHARE.row(row, 'accuracy')} on all data; {few}, so it has no held-out score"
