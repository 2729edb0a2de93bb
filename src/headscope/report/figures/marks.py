"""What marks carry: small, clean data, and what they say when pointed at."""

import re
from collections.abc import Hashable, Sequence
from typing import Any

import altair as alt
import pandas as pd

__all__ = ["HEAD", "INTERVAL", "clean_label", "mark_data", "name_and_interval", "number", "rounded"]

DIGITS = 4
# Neither XML nor UTF-8 can hold these; one of them in a label would spoil a whole SVG.
UNPRINTABLE = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

HEAD = alt.Tooltip("name:N", title="head")
INTERVAL = alt.Tooltip("interval:N", title="95 % interval")


def mark_data(table: pd.DataFrame, columns: Sequence[str]) -> alt.InlineData:
    """These columns of the table, where it has them, as data of a chart.

    It stands in the chart as it is, whatever the reader has set up for Altair's own treatment of
    tables (which refuses more than 5000 rows).
    """
    kept = table[[name for name in dict.fromkeys(columns) if name in table]]
    return alt.InlineData(values=[_as_datum(row) for row in kept.to_dict("records")])


def clean_label(label: str) -> str:
    """The label with what no picture file can hold replaced.

    >>> clean_label("obj" + chr(0))
    'obj\ufffd'
    """
    return UNPRINTABLE.sub("\ufffd", label)


def rounded(value: Any) -> Any:
    """A value as JSON holds it shortly: none for what is missing, four digits for a fraction."""
    if isinstance(value, str):
        return clean_label(value)
    if pd.isna(value):
        return None
    return int(value) if float(value).is_integer() else round(float(value), DIGITS)


def name_and_interval(chart: Any) -> Any:
    """The chart with the head's name and the interval in its data, computed where it is drawn."""
    some = "format(datum.low, '.3f') + ' to ' + format(datum.high, '.3f')"
    return chart.transform_calculate(
        name="datum.layer + '-' + datum.head",
        interval=f"isValid(datum.low) ? {some} : 'not measured'",
    )


def number(field: str, title: str, form: str = ".3f") -> alt.Tooltip:
    """A line of a tooltip with a number in it."""
    return alt.Tooltip(f"{field}:Q", title=title, format=form)


def _as_datum(row: dict[Hashable, Any]) -> dict[str, Any]:
    return {str(name): rounded(value) for name, value in row.items()}
