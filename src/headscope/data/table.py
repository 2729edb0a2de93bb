"""Arrays with named axes as tidy tables: one row per cell."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

__all__ = ["Tables", "empty_tables", "head_axes", "tidy_table"]

Tables = Mapping[str, pd.DataFrame]  # of a run, by name


def head_axes(n_layers: int, n_heads: int) -> dict[str, Sequence[int]]:
    """The layer and head columns of a table, 1-based as people read them."""
    return {"layer": range(1, n_layers + 1), "head": range(1, n_heads + 1)}


def tidy_table(axes: Mapping[str, Sequence[Any]], values: Mapping[str, Any]) -> pd.DataFrame:
    """One row per combination of axis labels; each value array is indexed by the axes in order.

    >>> tidy_table({"layer": [1, 2], "rows": ["all"]}, {"nats": np.array([[0.5], [0.7]])})
       layer rows  nats
    0      1  all   0.5
    1      2  all   0.7
    """
    shape = tuple(len(labels) for labels in axes.values())
    table = pd.DataFrame(list(product(*axes.values())), columns=list(axes))
    for name, array in values.items():
        table[name] = np.broadcast_to(array, shape).ravel()
    return table


def empty_tables(columns: Mapping[str, Sequence[str]]) -> dict[str, pd.DataFrame]:
    """Tables with these columns and no rows: what an analysis says of no examples."""
    return {name: pd.DataFrame(columns=list(names)) for name, names in columns.items()}
