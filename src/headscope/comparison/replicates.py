"""The numbers of a run without each bucket of documents, which intervals of differences need.

An analysis may choose heads on some documents and score them on others, so a number without a
bucket is what the analysis makes of its sums without the bucket.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from numpy.typing import NDArray

from headscope.contracts import Analysis
from headscope.data.table import KIND, Tables
from headscope.engine.checkpoint import EarlierSumsError, read_checkpoint
from headscope.engine.measure import Result
from headscope.engine.resolve import restore_analysis
from headscope.runs.folder import RunFolder
from headscope.runs.run import Run
from headscope.runs.tables import make_tables, number_layers, summarize_passes
from headscope.stats.bucket import N_BUCKETS
from headscope.stats.interval import ROUNDING
from headscope.stats.sums import PLAIN, Tally

__all__ = [
    "NTH", "Replicates", "find_estimates", "find_keys", "put_together", "read_replicates",
    "split_keys",
]  # fmt: skip

NTH = "nth"  # of rows with the same keys

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Replicates:
    """The estimates of one run's tables, each with its replicates; and the documents by table."""

    tables: dict[str, pd.DataFrame]  # indexed by their keys, and NTH
    values: dict[tuple[str, str], Float[Array, "replicate row"]]  # by table and column
    documents: dict[str, frozenset[int]]  # hashes of those that a table was measured on


def find_estimates(table: pd.DataFrame) -> list[str]:
    """The columns with an interval: each stands before its `low` and `high`.

    >>> find_estimates(pd.DataFrame(columns=["layer", "nats", "low", "high", "uniform"]))
    ['nats']
    """
    names = [str(name) for name in table.columns]
    return [
        name
        for name, low, high in zip(names, names[1:], names[2:], strict=False)
        if low.split("_")[-1] == "low" and high == f"{low[:-3]}high"
    ]


def find_keys(table: pd.DataFrame) -> list[str]:
    """The leading columns that tell the rows of a table apart.

    >>> find_keys(pd.DataFrame({"layer": [1, 1], "head": [1, 2], "weight": [0.5, 0.5]}))
    ['layer', 'head']
    """
    names = [str(name) for name in table.columns]
    estimates = find_estimates(table)
    most = names.index(estimates[0]) if estimates else len(names)
    ends = (end for end in range(1, most) if not table.duplicated(names[:end]).any())
    return names[: next(ends, most)]


def split_keys(keys: Iterable[object]) -> tuple[list[str], list[str]]:
    """The keys that name layers and heads, and the others.

    >>> split_keys(["layer", "head", "target"])
    (['layer', 'head'], ['target'])
    """
    names = [str(key) for key in keys]
    of_heads = [name for name in names if {"layer", "head"} & set(name.split("_"))]
    return of_heads, [name for name in names if name not in of_heads]


def put_together(table: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Rows with the same labels one under the other, labels in the order of their appearance.

    >>> put_together(pd.DataFrame({"of": ["b", "a", "b"]}), ["of"])["of"].tolist()
    ['b', 'b', 'a']
    """
    order = table.groupby(list(columns), sort=False, dropna=False).ngroup()
    return table.iloc[np.argsort(order, kind="stable")].reset_index(drop=True)


def read_replicates(run: Run, without: frozenset[str] = frozenset()) -> Replicates | None:
    """The replicates of a finished run, but for some analyses; None if it has no sums to read."""
    passes = {
        key: _leave_out_analyses(entry, without)
        for key, entry in run.manifest.get("passes", {}).items()
        if entry["repeats"] is None
    }
    results = _read_results(run, passes)
    if not results:
        return None
    measured = {name for entry in passes.values() for name in entry["analyses"]}
    options = run.manifest["analyses"]
    analyses = {name: restore_analysis(name, options[name]) for name in options if name in measured}
    tallies = {
        key: {n: t for n, t in result.tallies.items() if n.rpartition(":")[2] in analyses}
        for key, result in results.items()
    }
    n_documents = {key: len(result.documents) for key, result in results.items()}
    # The tables of sums that have nothing in a bucket are those of the whole, made once.
    made: dict[int, dict[str, pd.DataFrame]] = {
        id(tally): {} for of_pass in tallies.values() for tally in of_pass.values()
    }

    def make(analysis: Analysis, tally: Tally, _: Sequence[Tally]) -> dict[str, pd.DataFrame]:
        if id(tally) not in made:
            return make_tables(analysis, tally)
        made[id(tally)] = made[id(tally)] or make_tables(analysis, tally)
        return made[id(tally)]

    def summarize(totals: Mapping[str, Mapping[str, Tally]]) -> Tables:
        tables, _ = summarize_passes(passes, analyses, totals, n_documents, make)
        return number_layers(tables, run.manifest["model"])

    whole = {name: table for name, table in summarize(tallies).items() if len(table)}
    rest = ((b, summarize(totals)) for b, totals in _leave_out_buckets(tallies))
    keys = {name: find_keys(table) for name, table in whole.items()}
    documents = {}
    for name in whole:
        owners = {owner for owner, analysis in analyses.items() if name in analysis.tables}
        of_table = [key for key, entry in passes.items() if owners & set(entry["analyses"])]
        parts = (results[key].documents for key in of_table or passes)
        documents[name] = frozenset(hash for part in parts for hash in part)
    indexed = {name: _index(table, keys[name]) for name, table in whole.items()}
    return Replicates(indexed, _collect(whole, keys, rest), documents)


def _collect(
    whole: Tables, keys: Mapping[str, list[str]], rest: Iterable[tuple[int, Tables]]
) -> dict[tuple[str, str], Float[Array, "replicate row"]]:
    """The estimates on all data, and those of the tables without each bucket."""
    columns = {name: find_estimates(table) for name, table in whole.items()}
    values = {
        (name, column): np.full((N_BUCKETS + 1, len(table)), np.nan)
        for name, table in whole.items()
        for column in columns[name]
    }
    for bucket, tables in ((-1, whole), *rest):
        for name in (name for name in whole if columns[name] and len(tables[name])):
            table = tables[name]
            if not table[keys[name]].equals(whole[name][keys[name]]):  # some rows are gone
                index = _index(whole[name], keys[name]).index
                table = _index(table, keys[name]).reindex(index)
            for column in columns[name]:
                values[name, column][bucket + 1] = table[column].astype(float)
    for array in values.values():
        is_same = np.abs(array[1:] - array[0]) <= ROUNDING * np.abs(array[0])
        array[1:][is_same] = np.nan  # nothing of it was in the bucket
    return values


def _leave_out_analyses(entry: Mapping[str, Any], without: frozenset[str]) -> dict[str, Any]:
    """The description of a pass without some analyses."""

    def keep(names: Iterable[str]) -> list[str]:
        return [name for name in names if name not in without]

    kinds = {kind: keep(names) for kind, names in (entry.get(KIND) or {}).items()}
    return {**entry, "analyses": keep(entry["analyses"]), KIND: kinds}


def _read_results(run: Run, passes: Iterable[str]) -> dict[str, Result]:
    """The sums of all passes; none where some are gone, or of another version."""
    if run.folder is None:
        return {}
    paths = {key: RunFolder(run.folder).tally_path(key) for key in passes}
    try:
        has_all = all(path.exists() for path in paths.values())
        return {key: read_checkpoint(path).result for key, path in paths.items() if has_all}
    except EarlierSumsError:
        return {}


def _index(table: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """The table by its keys, and by the number of the row where several have the same."""
    nth = table.groupby(keys, dropna=False, sort=False).cumcount() if keys else range(len(table))
    return table.assign(**{NTH: nth}).set_index([*keys, NTH])


def _leave_out_buckets(
    tallies: Mapping[str, Mapping[str, Tally]],
) -> Iterator[tuple[int, dict[str, dict[str, Tally]]]]:
    """The sums without each bucket that has some; none if there is but one."""
    every = [tally for of_pass in tallies.values() for tally in of_pass.values()]
    used = [bucket for bucket in range(N_BUCKETS) if any(_has(t, bucket) for t in every)]
    for bucket in used if len(used) > 1 else []:
        yield (
            bucket,
            {
                key: {name: _leave_out(tally, bucket) for name, tally in of_pass.items()}
                for key, of_pass in tallies.items()
            },
        )


def _has(tally: Tally, bucket: int) -> bool:
    return any(
        bool(total[bucket].any())
        for name, total in tally.totals.items()
        if not name.startswith(PLAIN)
    )


def _leave_out(tally: Tally, bucket: int) -> Tally:
    """The sums without a bucket: the same object if it has none there, empty if no others have."""
    if not _has(tally, bucket):
        return tally
    if not any(_has(tally, other) for other in range(N_BUCKETS) if other != bucket):
        return Tally()
    totals = dict(tally.totals)
    for name in totals:
        if not name.startswith(PLAIN):
            totals[name] = totals[name].copy()
            totals[name][bucket] = 0
    return Tally(totals)
