"""All numbers of a run without each bucket of documents: what intervals of differences need.

No analysis is asked how its numbers are made. Its tally without a bucket is summarized as the whole
one is, and the numbers are read off the tables. Where a bucket has nothing of a tally, the tables
of the whole are taken again. A number, without its interval, depends on nothing finer than folds,
so the buckets of a fold are added first: 8 sums are much quicker to summarize than 64.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
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
from headscope.stats.bucket import N_BUCKETS, add_folds
from headscope.stats.interval import ROUNDING
from headscope.stats.tally import PLAIN, Tally

__all__ = [
    "NTH", "Replicates", "by_fold", "find_estimates", "find_keys", "put_together",
    "read_replicates", "split_keys",
]  # fmt: skip

NTH = "nth"  # of rows with the same keys

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Replicates:
    """The estimates of one run's tables, each with its replicates; and the documents by pass."""

    tables: dict[str, pd.DataFrame]  # indexed by their keys, and NTH
    values: dict[tuple[str, str], Float[Array, "replicate row"]]  # by table and column
    documents: dict[str, frozenset[int]]  # by table: hashes of the documents it was measured on


def find_estimates(table: pd.DataFrame) -> list[str]:
    """The columns that have an interval: each stands before its `low` and `high`.

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
    first = find_estimates(table)
    most = names.index(first[0]) if first else len(names)
    for end in range(1, most + 1):
        if not table.duplicated(names[:end]).any():
            return names[:end]
    return names[:most]


def split_keys(keys: Iterable[object]) -> tuple[list[str], list[str]]:
    """The keys that name layers and heads, and the others.

    >>> split_keys(["layer", "head", "target"])
    (['layer', 'head'], ['target'])
    """
    names = [str(key) for key in keys]
    places = [name for name in names if {"layer", "head"} & set(name.split("_"))]
    return places, [name for name in names if name not in places]


def put_together(table: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Rows of the same thing one under the other, things in the order they came.

    >>> put_together(pd.DataFrame({"of": ["b", "a", "b"]}), ["of"])["of"].tolist()
    ['b', 'b', 'a']
    """
    things = table.groupby(list(columns), sort=False, dropna=False).ngroup()
    return table.iloc[np.argsort(things, kind="stable")].reset_index(drop=True)


def read_replicates(run: Run, without: frozenset[str] = frozenset()) -> Replicates | None:
    """The replicates of a finished run, but for some analyses; None if it has no sums to read."""
    store = RunFolder(run.folder) if run.folder else None
    passes = {
        key: {
            **one,
            "analyses": [name for name in one["analyses"] if name not in without],
            KIND: {
                kind: [name for name in names if name not in without]
                for kind, names in (one.get(KIND) or {}).items()
            },
        }
        for key, one in run.manifest.get("passes", {}).items()
        if one["repeats"] is None
    }
    results = _read_results(store, passes) if store else {}
    if not results:
        return None
    analyses = {
        name: restore_analysis(name, options)
        for name, options in run.manifest["analyses"].items()
        if any(name in one["analyses"] for one in passes.values())
    }
    tallies = {key: result.tallies for key, result in results.items()}
    n_documents = {key: len(result.documents) for key, result in results.items()}

    folded = _fold_where_equal(passes, analyses, tallies)
    made: dict[int, dict[str, pd.DataFrame]] = {
        id(tally): {} for of_pass in folded.values() for tally in of_pass.values()
    }

    def summarize(totals: Mapping[str, Mapping[str, Tally]]) -> Tables:
        tables, _ = summarize_passes(passes, analyses, totals, n_documents, partial(_make, made))
        return number_layers(tables, run.manifest["model"])

    whole = {name: table for name, table in summarize(folded).items() if len(table)}
    keys = {name: find_keys(table) for name, table in whole.items()}
    labels = {name: table[keys[name]] for name, table in whole.items()}
    indexed = {name: _index(table, keys[name]) for name, table in whole.items()}
    values = {
        (name, column): np.full((N_BUCKETS + 1, len(table)), np.nan)
        for name, table in indexed.items()
        for column in find_estimates(table)
    }
    for (name, column), array in values.items():
        array[0] = indexed[name][column].astype(float)
    used = _buckets_in_use(tallies)
    for bucket in used if len(used) > 1 else []:
        rest = summarize(_leave_out(tallies, folded, bucket))
        for name, table in rest.items():
            columns = [column for table_name, column in values if table_name == name]
            if not len(table) or not columns:
                continue
            if not table[keys[name]].equals(labels[name]):  # rows of the bucket alone are gone
                table = _index(table, keys[name]).reindex(indexed[name].index)
            for column in columns:
                values[name, column][bucket + 1] = table[column].astype(float)
    for array in values.values():
        is_same = np.abs(array[1:] - array[0]) <= ROUNDING * np.abs(array[0])
        array[1:][is_same] = np.nan  # nothing of it was in the bucket
    documents = {
        name: frozenset(
            document for key in _passes_of(name, passes, analyses) for document in
            results[key].documents
        )
        for name in indexed
    }  # fmt: skip
    return Replicates(indexed, values, documents)


def _read_results(store: RunFolder, passes: Iterable[str]) -> dict[str, Result]:
    """The sums of all passes; none where some are gone, or of another version."""
    paths = {key: store.tally_path(key) for key in passes}
    try:
        whole = all(path.exists() for path in paths.values())
        return {key: read_checkpoint(path).result for key, path in paths.items()} if whole else {}
    except EarlierSumsError:
        return {}


def _make(
    made: dict[int, dict[str, pd.DataFrame]], analysis: Analysis, tally: Tally, _: Sequence[Tally]
) -> dict[str, pd.DataFrame]:
    """The tables of a tally; those of the tallies in `made`, by id, are made once."""
    if id(tally) not in made:
        return make_tables(analysis, tally)
    made[id(tally)] = made[id(tally)] or make_tables(analysis, tally)
    return made[id(tally)]


def _index(table: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """The table by its keys, and by the number of the row where several have the same."""
    same = table.groupby(keys, dropna=False, sort=False) if keys else None
    nth = range(len(table)) if same is None else same.cumcount()
    return table.assign(**{NTH: nth}).set_index([*keys, NTH])


def _passes_of(
    table: str, passes: Mapping[str, Mapping[str, Any]], analyses: Mapping[str, Analysis]
) -> list[str]:
    """The passes that a table was made from: all where no analysis declares it."""
    owners = {name for name, analysis in analyses.items() if table in analysis.tables}
    own = [key for key, one in passes.items() if owners & set(one["analyses"])]
    return own or list(passes)


def _weighed_by_errors(
    passes: Mapping[str, Mapping[str, Any]], analyses: Mapping[str, Analysis]
) -> set[str]:
    """Analyses that join several passes: their means are weighted by errors, made of buckets."""
    return {
        name
        for name, analysis in analyses.items()
        if type(analysis).join_corpora is not Analysis.join_corpora
        and sum(name in one["analyses"] for one in passes.values()) > 1
    }


def _fold_where_equal(
    passes: Mapping[str, Mapping[str, Any]],
    analyses: Mapping[str, Analysis],
    tallies: Mapping[str, Mapping[str, Tally]],
) -> dict[str, dict[str, Tally]]:
    """Tallies of eight rows instead of 64 where that changes no estimate: less work a bucket."""
    weighed = _weighed_by_errors(passes, analyses)

    def fold(name: str, tally: Tally) -> Tally:
        can_fold = name not in weighed and not _needs_buckets(analyses[name], tally)
        return by_fold(tally) if can_fold else tally

    return {
        key: {n: fold(a, t) for n, t in own.items() if (a := n.rpartition(":")[2]) in analyses}
        for key, own in tallies.items()
    }


def _needs_buckets(analysis: Analysis, tally: Tally) -> bool:
    """Whether estimates of an analysis depend on more than sums, as those of held-out choices."""
    tables, folded = make_tables(analysis, tally), make_tables(analysis, by_fold(tally))
    return not all(
        np.allclose(table[column].astype(float), folded[name][column].astype(float), equal_nan=True)
        for name, table in tables.items()
        for column in find_estimates(table)
    )


def by_fold(tally: Tally) -> Tally:
    """The same sums, those of the buckets of a fold added."""
    return Tally(
        {
            name: total if name.startswith(PLAIN) else add_folds(total)
            for name, total in tally.totals.items()
        }
    )


def _leave_out(
    tallies: Mapping[str, Mapping[str, Tally]],
    folded: Mapping[str, Mapping[str, Tally]],
    bucket: int,
) -> dict[str, dict[str, Tally]]:
    """Like the folded tallies, without one bucket."""
    is_kept = np.arange(N_BUCKETS) != bucket

    def rest(tally: Tally, whole: Tally) -> Tally:
        by_bucket = {name: t for name, t in tally.totals.items() if not name.startswith(PLAIN)}
        if not any(total[bucket].any() for total in by_bucket.values()):
            return whole
        left = {
            name: total * is_kept.reshape(N_BUCKETS, *[1] * (total.ndim - 1))
            for name, total in by_bucket.items()
        }
        if not any(total.any() for total in left.values()):
            return Tally()
        made = Tally(tally.totals | left)
        return made if whole is tally else by_fold(made)

    return {
        key: {name: rest(tallies[key][name], whole) for name, whole in of_pass.items()}
        for key, of_pass in folded.items()
    }


def _buckets_in_use(tallies: Mapping[str, Mapping[str, Tally]]) -> list[int]:
    used = np.zeros(N_BUCKETS, bool)
    for of_pass in tallies.values():
        for tally in of_pass.values():
            for name, total in tally.totals.items():
                if not name.startswith(PLAIN):
                    used |= total.reshape(N_BUCKETS, -1).any(axis=1)
    return np.flatnonzero(used).tolist()
