"""Analyses of other packages: whatever they do wrong becomes an error that names their package."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from logging import getLogger
from typing import Any

import numpy as np
import pandas as pd

from headscope.errors import HeadscopeError, StudyError, shorten
from headscope.registry import ANALYSES

__all__ = ["PlugInError", "blame_package", "check_tables", "check_values"]

log = getLogger("headscope")
INTERVAL = frozenset({"low", "high"})  # columns that may be empty: without documents no interval


class PlugInError(StudyError):
    """An analysis of another package failed."""


@contextmanager
def blame_package(analysis: Any, step: str) -> Iterator[None]:
    """Turn what an analysis of another package raises into an error that names the package."""
    try:
        yield
    except HeadscopeError:
        raise
    except (Exception, SystemExit) as error:
        if not _find_package(analysis):
            raise
        reason = f"{type(error).__name__}: {shorten(error, 200)}"
        raise _make_error(analysis, f"`{step}` failed ({reason})") from error


def check_values(analysis: Any, values: Mapping[str, Any], n_examples: int) -> None:
    """An error for sums that are not one finite number or array for each example."""
    for name, value in values.items() if _find_package(analysis) else ():
        if len(value) != n_examples:
            what = f"for {len(value)} examples in a batch of {n_examples}"
        elif not np.isfinite(value).all():
            what = "with NaN or infinity"
        else:
            continue
        raise _make_error(analysis, f"`measure` gave {name!r} {what}")


def check_tables(analysis: Any, tables: Any) -> dict[str, pd.DataFrame]:
    """The tables that `summarize` gave, if they are those that the analysis declares."""
    if not _find_package(analysis):
        return dict(tables)
    is_tables = isinstance(tables, Mapping) and all(
        isinstance(table, pd.DataFrame) for table in tables.values()
    )
    if not is_tables or not set(tables) <= set(analysis.tables):
        expected = f"data frames named {', '.join(analysis.tables)}"
        raise _make_error(analysis, f"`summarize` gave {shorten(tables)} instead of {expected}")
    for name, table in tables.items():
        numbers = table.select_dtypes("number").drop(columns=list(INTERVAL), errors="ignore")
        if n_missing := int((~np.isfinite(numbers.to_numpy(float, na_value=np.nan))).sum()):
            log.warning(
                "Table %s of the package %s has %d numbers that are NaN or infinite.",
                name, _find_package(analysis), n_missing,
            )  # fmt: skip
    return dict(tables)


def _find_package(analysis: Any) -> str:
    """The package that an analysis comes from; "" for one of headscope."""
    entry = ANALYSES.entries().get(analysis.name)
    if entry is not None and entry.package:
        return entry.package
    module = type(analysis).__module__.partition(".")[0]
    return "" if module == "headscope" else module


def _make_error(analysis: Any, what: str) -> PlugInError:
    return PlugInError(
        f"The analysis {analysis.name!r} of the package {_find_package(analysis)!r} cannot be "
        f"used: {what}. Expected an analysis that passes `headscope.testing.check_analysis`; "
        "update or uninstall the package, or choose other analyses with --only."
    )
