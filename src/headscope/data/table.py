"""Arrays with named axes as tidy tables: one row per cell."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from headscope.arguments import checked
from headscope.contracts import AttentionKind

__all__ = [
    "KIND", "Tables", "empty_tables", "head_axes", "join_kinds", "rows_where", "split_kinds",
    "tidy_table", "to_csv",
]  # fmt: skip

Tables = Mapping[str, pd.DataFrame]  # of a run, by name
FORMULA_MARKS = ("=", "+", "-", "@", "\t", "\r")
KIND = "attention"  # the column that tells the kinds of an encoder-decoder's attention apart


@checked
def head_axes(n_layers: int, n_heads: int) -> dict[str, Sequence[int]]:
    """The layer and head columns of a table, 1-based as people read them."""
    return {"layer": range(1, n_layers + 1), "head": range(1, n_heads + 1)}


@checked
def tidy_table(axes: Mapping[str, Sequence[Any]], values: Mapping[str, Any]) -> pd.DataFrame:
    """One row per combination of axis labels; each value array is indexed by the axes in order.

    >>> tidy_table({"layer": [1, 2], "rows": ["all"]}, {"nats": np.array([[0.5], [0.7]])})
       layer rows  nats
    0      1  all   0.5
    1      2  all   0.7
    """
    shape = tuple(len(labels) for labels in axes.values())
    rows = list(product(*axes.values()))
    labels: dict[str, Any] = {n: [row[i] for row in rows] for i, n in enumerate(axes)}
    if not rows:
        labels = {name: np.empty(0, dtype=object) for name in axes}
    numbers = {name: np.broadcast_to(array, shape).ravel() for name, array in values.items()}
    return pd.DataFrame({**labels, **numbers})


def rows_where(table: pd.DataFrame, **labels: Any) -> pd.DataFrame:
    """The rows with these labels.

    >>> rows_where(pd.DataFrame({"layer": [1, 1, 2], "head": [1, 2, 1]}), layer=1, head=2)
       layer  head
    1      1     2
    """
    parts = [np.asarray(table[name].array == label, bool) for name, label in labels.items()]
    return table[np.logical_and.reduce(parts)]


@checked
def empty_tables(columns: Mapping[str, Sequence[str]]) -> dict[str, pd.DataFrame]:
    """Tables with these columns and no rows: the result without examples."""
    return {name: pd.DataFrame(columns=list(names)) for name, names in columns.items()}


def to_csv(table: pd.DataFrame) -> str:
    """The table as CSV, numbers with six significant digits.

    A text that a spreadsheet would run as a formula begins with a quote mark.

    >>> print(to_csv(pd.DataFrame({"word": ["=1+1", "sea"], "difference": [-0.5, 1]})), end="")
    word,difference
    '=1+1,-0.5
    sea,1
    """
    texts = table.select_dtypes(exclude="number")
    harmless = {
        name: texts[name].map(_quote_formula)
        for name in texts.columns
        if any(map(_is_formula, texts[name].unique()))
    }
    return table.assign(**harmless).to_csv(index=False, float_format=_six_digits)


def _six_digits(number: Any) -> str:
    """Six significant digits; a whole number keeps all."""
    return f"{number:.0f}" if number.is_integer() and abs(number) < 1e15 else f"{number:.6g}"


def _is_formula(value: Any) -> bool:
    return isinstance(value, str) and value.startswith(FORMULA_MARKS)


def _quote_formula(value: Any) -> Any:
    return f"'{value}" if _is_formula(value) else value


def join_kinds(parts: Mapping[str, Tables]) -> dict[str, pd.DataFrame]:
    """The tables of each kind of attention one under the other, told apart by a first column."""
    names = dict.fromkeys(name for tables in parts.values() for name in tables)
    joined = {}
    for name in names:
        of_kind = {kind: tables[name] for kind, tables in parts.items() if name in tables}
        kinds = [kind for kind, table in of_kind.items() for _ in range(len(table))]
        joined[name] = pd.concat(of_kind.values(), ignore_index=True)
        joined[name].insert(0, KIND, pd.Series(kinds, dtype=object))
    return joined


def split_kinds(tables: Tables) -> dict[str, Tables]:
    """The tables of each kind of attention, without the column; of other models all, under "".

    A table without the column is about the first kind, the encoder.
    """
    columns = [table[KIND] for table in tables.values() if KIND in table.columns]
    found = {kind for column in columns for kind in column}
    kinds = [kind for kind in AttentionKind if kind in found]
    if not kinds:
        return {"": tables}
    parts: dict[str, Tables] = {}
    for kind in kinds:
        parts[kind] = {
            name: table[table[KIND] == kind].drop(columns=KIND) if KIND in table.columns else table
            for name, table in tables.items()
            if KIND in table.columns or kind is AttentionKind.ENCODER
        }
    return parts
