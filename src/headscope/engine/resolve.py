"""What a user gives, made into what a study needs: options and analyses.

Analyses of other packages are checked: whatever they do wrong becomes an error that names their
package.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from logging import getLogger
from typing import Any

import numpy as np
import pandas as pd

from headscope.arguments import fits
from headscope.contracts import Analysis, Watch
from headscope.errors import HeadscopeError, StudyError, shorten
from headscope.options import (
    ClusterOptions,
    ModelOptions,
    RunOptions,
    build_options,
    collect_options,
    refuse_unknown,
)
from headscope.registry import ANALYSES, warn_once

__all__ = [
    "PlugInError", "analysis_kinds", "blame_package", "build_analysis", "check_tables",
    "check_values", "choose_analyses", "read_names", "restore_analysis", "split_options",
]  # fmt: skip

log = getLogger("headscope")
INTERVAL = frozenset({"low", "high"})  # columns that may be empty: without documents no interval
TABLE_NAME = re.compile(r"[\w-]+")  # which is a file's name too


def read_names(names: Any) -> list[Any] | None:
    """The names of "a,b" or ["a", "b,c"]; what is no string stays as it is; None stays None.

    >>> read_names("position, entropy"), read_names(["a,b", "c"])
    (['position', 'entropy'], ['a', 'b', 'c'])
    """
    if names is None:
        return None
    items = list(names) if fits(names, Iterable[Any]) else [names]
    split = [item.split(",") if isinstance(item, str) else [item] for item in items]
    return _unique([x.strip() if isinstance(x, str) else x for parts in split for x in parts])


def analysis_kinds() -> dict[str, Any]:
    """The classes of all analyses; a plug-in that cannot be used is told and left out."""
    kinds: dict[str, Any] = {}
    for name, kind in ANALYSES.load_all():
        problem = _find_problem(name, kind, kinds.values())
        if problem:
            warn_once(problem)
        else:
            kinds[name] = kind
    return kinds


def split_options(
    options: Mapping[str, Any],
) -> tuple[RunOptions, ModelOptions, ClusterOptions, dict[str, Any]]:
    """The options of the run, of the model, of a cluster, and those of analyses; an error for an
    unknown one."""
    of_analyses = collect_options(*analysis_kinds().values())
    shared = (RunOptions, ModelOptions, ClusterOptions)
    refuse_unknown(options, [*collect_options(*shared), *of_analyses])
    run, model, cluster = (build_options(kind, options) for kind in shared)
    known = {name: value for name, value in options.items() if name in of_analyses}
    return run, model, cluster, known


def build_analysis(name: str, given: Mapping[str, Any] | None = None) -> Analysis:
    """The analysis of a registered name, with those of the given options that are its own."""
    kind = ANALYSES.find(name).load()
    others = [other for known, other in analysis_kinds().items() if known != name]
    problem = _find_problem(name, kind, others)
    if problem:
        raise StudyError(problem)
    analysis: Analysis = build_options(kind, given or {})
    return analysis


def restore_analysis(name: str, described: Mapping[str, Any]) -> Analysis:
    """The analysis as a manifest describes it: all its fields, options or not."""
    analysis: Analysis = ANALYSES.find(name).load()(**described)
    return analysis


def choose_analyses(
    only: Collection[str | Analysis] | None,
    also: Collection[str | Analysis],
    options: Mapping[str, Any],
    seed: int,
) -> list[Analysis]:
    """Those asked for; without a word all, but what costs more than a forward pass.

    An option that none of them has is refused: it would do nothing.
    """
    if only is None:
        kinds = analysis_kinds().items()
        by_default = (Watch.ATTENTION, Watch.CROSS_ATTENTION)
        names: list[Any] = [
            name for name, kind in kinds if kind.watches in by_default and not kind.on_request
        ]
    else:
        names = list(only)
    for name in (name for name in [*(only or ()), *also] if isinstance(name, str)):
        ANALYSES.find(name).load_presentation()  # what cannot be shown is refused before any work
    chosen: list[Any] = [
        build_analysis(item, options) if isinstance(item, str) else _check_object(item)
        for item in _unique([*names, *also])
    ]
    if not chosen:
        raise StudyError(
            "No analysis was chosen. Expected at least one; name it, or leave --only out to run "
            "all that the data allows."
        )
    _refuse_idle_options(options, chosen)
    # Those that draw random numbers when they summarize get the run's seed.
    return [
        replace(analysis, seed=seed)
        if any(f.name == "seed" for f in fields(analysis))
        else analysis
        for analysis in chosen
    ]


def _unique(items: Iterable[Any]) -> list[Any]:
    """Each name once; objects as they are."""
    items = list(items)
    return [x for i, x in enumerate(items) if not isinstance(x, str) or x not in items[:i]]


def _refuse_idle_options(options: Mapping[str, Any], analyses: Collection[Any]) -> None:
    known = collect_options(*(type(analysis) for analysis in analyses))
    for name, value in options.items():
        if name in known or value is None:
            continue
        takers = [n for n, kind in analysis_kinds().items() if name in collect_options(kind)]
        flag = collect_options(*analysis_kinds().values())[name].flag
        is_plain = isinstance(value, (str, int)) and not isinstance(value, bool)
        shown = f"{flag} {shorten(value)}" if is_plain else flag
        raise StudyError(
            f"{shown} does nothing: it is an option of {' and '.join(takers)}, which does "
            f"not run. Expected that analysis; add --also {takers[0]} (or --only {takers[0]}), or "
            f"leave {flag} out."
        )


def _find_problem(name: str, kind: Any, others: Iterable[Any]) -> str:
    """What keeps a plug-in's class from being used beside the others; "" if nothing does."""
    package = ANALYSES.find(name).package
    problem = _find_breach(name, kind, others) if package else ""
    if not problem:
        return ""
    return (
        f"The analysis {name!r} of the package {package!r} cannot be used: {problem}. Expected a "
        f"class that follows `headscope.contracts.Analysis`; check it with "
        f"`headscope.testing.check_analysis`. Update or uninstall the package."
    )


def _check_object(analysis: Any) -> Analysis:
    kind = type(analysis)
    breach = _find_breach(kind.name if isinstance(analysis, Analysis) else "", kind, ())
    if isinstance(analysis, type):
        breach = "it is a class, not an instance of one"
    if breach:
        raise StudyError(
            f"{shorten(analysis)} is not an analysis: {breach}. Expected a name, or an object of a "
            "class that follows `headscope.contracts.Analysis`; check it with "
            "`headscope.testing.check_analysis`."
        )
    checked: Analysis = analysis
    return checked


def _find_breach(name: str, kind: Any, others: Iterable[Any]) -> str:
    if not issubclass(kind, Analysis):
        return "it is not derived from `headscope.Analysis` (write `class Name(Analysis)`)"
    missing = [part for part in ("name", "tables") if part not in dir(kind)]
    missing += sorted(kind.__abstractmethods__)
    if missing:
        return f"it lacks {', '.join(missing)}"
    if "sums" not in dir(kind):
        return (
            "it is of an earlier contract: it lacks `sums`, the axes of what it measures, and its "
            "`measure` is now given the readings of all layers (see docs/extend.md)"
        )
    if kind.name != name:
        return f"it is named {kind.name!r}"
    if not isinstance(kind.watches, Watch):
        return f"`watches` is {kind.watches!r}, not a Watch"
    if bad := [table for table in kind.tables if not TABLE_NAME.fullmatch(table)]:
        return f"{shorten(bad[0])!r} cannot name a table (letters, digits and - can)"
    taken = [table for other in others for table in other.tables if table in kind.tables]
    if taken:
        return f"another analysis has a table named {taken[0]!r}"
    try:
        collect_options(RunOptions, ModelOptions, ClusterOptions, *others, kind)
    except StudyError as error:
        return str(error.args[0]).rstrip(".")
    return ""


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
