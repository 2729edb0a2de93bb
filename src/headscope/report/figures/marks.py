"""What marks carry: small, clean data, and what they say when pointed at."""

from collections.abc import Hashable, Sequence
from typing import Any

import altair as alt
import pandas as pd

from headscope.report.figures.figure import Drawing

__all__ = ["HEAD", "INTERVAL", "mark_data", "name_and_interval", "number", "rounded"]

HEAD = alt.Tooltip("name:N", title="head")
INTERVAL = alt.Tooltip("interval:N", title="95 % interval")


def mark_data(table: pd.DataFrame, columns: Sequence[str]) -> alt.InlineData:
    """These columns of the table, where it has them, as data of a chart.

    It stands in the chart as it is, whatever the reader has set up for Altair's own treatment of
    tables (which refuses more than 5000 rows).
    """
    kept = table[[name for name in dict.fromkeys(columns) if name in table]]
    return alt.InlineData(values=[_as_datum(row) for row in kept.to_dict("records")])


def rounded(value: Any) -> Any:
    """A value as JSON holds it shortly: none for what is missing, four digits for a fraction.

    >>> rounded(0.123456), rounded(0.0000123456), rounded(12.0), rounded(float("nan"))
    (0.1235, 1.235e-05, 12, None)
    """
    if isinstance(value, str):
        return value
    if pd.isna(value):
        return None
    return int(value) if float(value).is_integer() else float(f"{value:.4g}")


def name_and_interval(chart: Drawing, form: str = ".3~g") -> Drawing:
    """The chart with the head's name and the interval in its data, computed where it is drawn."""
    some = f"format(datum.low, '{form}') + ' to ' + format(datum.high, '{form}')"
    return chart.transform_calculate(
        name="datum.layer + '-' + datum.head",
        interval=f"isValid(datum.low) ? {some} : 'not measured'",
    )


def number(field: str, title: str, form: str = ".3~g") -> alt.Tooltip:
    """A line of a tooltip with a number in it."""
    return alt.Tooltip(f"{field}:Q", title=title, format=form)


def _as_datum(row: dict[Hashable, Any]) -> dict[str, Any]:
    return {str(name): rounded(value) for name, value in row.items()}
