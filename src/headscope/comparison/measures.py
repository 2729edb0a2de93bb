"""Numbers of several runs beside each other, from any table: measures, heads, depth.

A measure is a column with an interval, for one combination of a table's labels, such as the weight
on the target "previous". Where rows are heads or layers, it is taken over them: the mean, and the
largest head, held out. The first run is the one that others are compared with.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import inf
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from numpy.typing import NDArray

from headscope.comparison.replicates import NTH, Replicates, put_together, split_keys
from headscope.data.depth import thirds
from headscope.stats.difference import (
    Differences,
    best_of,
    paired_difference,
    unpaired_difference,
    widen,
)
from headscope.stats.interval import estimate
from headscope.stats.tests import holm

__all__ = ["IN_NATS", "MEAN", "SHARES", "VALUE", "compare_numbers"]

# The measures that are shares, by the names of their columns, and those in nats.
SHARES = frozenset({
    "weight", "share", "flat_rows", "accuracy", "heldout_accuracy", "split", "aer", "precision",
    "recall", "uas", "uas_with_punctuation", "uuas", "mst_uas", "las", "first", "is_sink", "beyond",
    "copied", "attended", "stretch", "of_all", "top_1", "top_10",
})  # fmt: skip
IN_NATS = frozenset({"nats", "divergence"})

LABELS = ("table", "measure", "of")
DIFFERENCE = ("difference", "difference_low", "difference_high", "p_raw", "p_value", "is_paired")
ESTIMATE = ("value", "low", "high")
MEASURES = (*LABELS, "statistic", "run", "layer", "head", *ESTIMATE, *DIFFERENCE)
HEADS = (*LABELS, "layer", "head", "run", "first_value", "value", *DIFFERENCE)
DEPTH = (*LABELS, "depth", "run", *ESTIMATE, *DIFFERENCE)
MEAN, BEST, VALUE = "mean", "largest head, held out", "value"
DEPTHS = ("first third", "middle third", "last third")
FEW_LAYERS = 3
HEAD = ("layer", "head")

Array = NDArray[np.float64]
Key = tuple[str, ...]  # table, column and labels ("target previous"); of a statistic also which


@dataclass(frozen=True)
class Measure:
    """A measure of one run by row, and the layer and head (or head word) of each row, if any."""

    replicates: Float[Array, "replicate row"]
    heads: dict[str, NDArray[Any]]

    @property
    def has_heads(self) -> bool:
        """Whether each row is a head."""
        return set(self.heads) == set(HEAD)


@dataclass(frozen=True)
class Statistic:
    """A number of one run with its replicates, and the head that it is of, if any.

    Of a largest head `too_high` is the largest on all data: intervals hold those of both.
    """

    replicates: Float[Array, " replicate"]
    too_high: Float[Array, " replicate"]
    head: tuple[Any, Any] = (pd.NA, pd.NA)


Measures = list[tuple[Key, Measure]]
Statistics = Iterator[tuple[str, Statistic]]


def compare_numbers(runs: Mapping[str, Replicates], first: str) -> dict[str, pd.DataFrame]:
    """Every measure of every run beside that of the first run: whole, by head, and by depth.

    Depth is the mean over each third of the layers, for models of any number of them.
    """
    measures = {name: list(_list_measures(run)) for name, run in runs.items()}
    return {
        "measures": _compare(runs, measures, first, MEASURES, _summarize),
        "heads": _compare_heads(runs, measures, first),
        "depth": _compare(runs, measures, first, DEPTH, _by_depth),
    }


def _list_measures(run: Replicates) -> Iterator[tuple[Key, Measure]]:
    """All measures of a run; of a table's rows those of the model (rules, all layers) apart."""
    for table, of_table in groupby(run.values.items(), key=lambda item: item[0][0]):
        keys = run.tables[table].index.to_frame(index=False).drop(columns=NTH)
        of_heads, labels = split_keys(keys)
        is_of_head = keys[of_heads].notna().all(axis=1).to_numpy()
        groups = keys.groupby(labels, sort=False, dropna=False) if labels else [("", keys)]
        parts = [part.index.to_numpy() for _, part in groups]
        for (_, column), values in of_table:
            for part in parts:
                of = ", ".join(f"{label} {keys[label].iloc[part[0]]}" for label in labels)
                rows, others = part[is_of_head[part]], part[~is_of_head[part]]
                if len(rows):
                    heads = {name: keys[name].to_numpy()[rows] for name in of_heads}
                    heads |= {name: heads[name].astype(int) for name in HEAD if name in heads}
                    yield (table, column, of), Measure(values[:, rows], heads)
                if len(others):
                    yield (table, column, of), Measure(values[:, others], {})


def _compare_heads(
    runs: Mapping[str, Replicates], measures: Mapping[str, Measures], first: str
) -> pd.DataFrame:
    """Every head of every run beside the head at the same place of the first one.

    Of models of one shape alone. p values are corrected over the heads of a measure.
    """
    of_heads = {
        name: {key: measure for key, measure in of_run if measure.has_heads}
        for name, of_run in measures.items()
    }
    shapes = {
        name: {pair for m in of_run.values() for pair in zip(*map(m.heads.get, HEAD), strict=True)}
        for name, of_run in of_heads.items()
    }
    parts = []
    for name in (n for n in runs if first in runs and n != first and shapes[n] == shapes[first]):
        for key, measure in of_heads[name].items():
            before = of_heads[first].get(key)
            if before is None or not all(
                np.array_equal(before.heads[axis], measure.heads[axis]) for axis in HEAD
            ):
                continue
            differences, is_paired = _subtract(
                runs[first], runs[name], key[0], measure.replicates, before.replicates
            )
            columns = dict(zip(LABELS, key, strict=True)) | {
                **before.heads,
                "run": name,
                "first_value": before.replicates[0],
                "value": measure.replicates[0],
            }
            numbers = (*differences, holm(differences.p_value), is_paired)
            columns |= dict(zip(DIFFERENCE, numbers, strict=True))
            parts.append(pd.DataFrame(columns)[list(HEADS)])
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(HEADS))


def _compare(
    runs: Mapping[str, Replicates],
    measures: Mapping[str, Measures],
    first: str,
    columns: Sequence[str],
    summarize: Callable[[Measure], Statistics],
) -> pd.DataFrame:
    """The statistics of all measures in all runs, with differences from the first run."""
    statistics = {
        name: {
            (*key, what): statistic
            for key, measure in of_run
            for what, statistic in summarize(measure)
        }
        for name, of_run in measures.items()
    }
    rows: list[dict[str, Any]] = []
    for name, of_run in statistics.items():
        if not of_run:
            continue
        held_out, largest = map(estimate, _stack(of_run.values()))
        least, most = np.transpose([_range_of(key) for key in of_run])
        low = np.fmin(held_out.low, largest.low).clip(least, most)
        high = np.fmax(held_out.high, largest.high).clip(least, most)
        shared = [key for key in of_run if name != first and key in statistics.get(first, {})]
        differences = dict(_differences(runs, (first, name), shared, statistics))
        for i, (key, statistic) in enumerate(of_run.items()):
            numbers = (float(part[i]) for part in (held_out.value, low, high))
            rows.append(
                dict(zip(columns[:4], key, strict=True))
                | {"run": name, **dict(zip(HEAD, statistic.head, strict=True))}
                | dict(zip(ESTIMATE, numbers, strict=True))
                | dict(zip(DIFFERENCE, differences.get(key, [np.nan] * 6), strict=True))
            )
    if not rows:
        return pd.DataFrame(columns=list(columns))
    table = pd.DataFrame(rows)
    table["p_value"] = holm(table["p_raw"].to_numpy(float))
    table = put_together(table, columns[:4])
    return table.astype(dict.fromkeys(HEAD, "Int64"))[list(columns)]


def _range_of(key: Key) -> tuple[float, float]:
    """The least and the most that a measure can be; a difference of two is among its labels."""
    _, column, of, *_ = key
    least, most = (0.0, 1.0) if column in SHARES else (0.0 if column in IN_NATS else -inf, inf)
    return (-most, most) if " - " in of else (least, most)


def _differences(
    runs: Mapping[str, Replicates],
    pair: tuple[str, str],
    keys: Iterable[Key],
    statistics: Mapping[str, Mapping[Key, Statistic]],
) -> Iterator[tuple[Key, tuple[Any, ...]]]:
    """The differences of the second run from the first, by measure."""
    first, name = pair
    for table, of_table in groupby(keys, key=lambda key: key[0]):
        some = list(of_table)
        before, values = (_stack(statistics[run][key] for key in some) for run in pair)
        (held_out, is_paired), (largest, _) = (
            _subtract(runs[first], runs[name], table, value, other)
            for value, other in zip(values, before, strict=True)
        )
        for key, *numbers in zip(some, *widen(held_out, largest), strict=True):
            yield key, (*map(float, numbers), np.nan, is_paired)


def _stack(statistics: Iterable[Statistic]) -> list[Float[Array, "replicate number"]]:
    """The replicates of several numbers, and those that are too high."""
    pairs = [(statistic.replicates, statistic.too_high) for statistic in statistics]
    return [np.stack(part, axis=1) for part in zip(*pairs, strict=True)]


def _subtract(
    first: Replicates, other: Replicates, table: str, values: Array, before: Array
) -> tuple[Differences, bool]:
    """The other run minus the first, paired where both read the same documents."""
    is_paired = first.documents[table] == other.documents[table]
    subtract = paired_difference if is_paired else unpaired_difference
    return subtract(values, before), is_paired


def _summarize(measure: Measure) -> Statistics:
    """The number itself; of heads or layers the mean, and of heads the largest, held out."""
    known = ~np.isnan(measure.replicates[0])
    if not known.any():
        return
    values = measure.replicates[:, known]
    if not measure.heads:
        yield VALUE, Statistic(values[:, 0], values[:, 0])
        return
    mean = _mean(values)
    yield MEAN, Statistic(mean, mean)
    if measure.has_heads:
        best = best_of(values)
        layer, head = (int(measure.heads[name][known][best.place]) for name in HEAD)
        yield BEST, Statistic(best.held_out, best.largest, (layer, head))


def _by_depth(measure: Measure) -> Statistics:
    """The mean over each third of the layers."""
    if "layer" not in measure.heads or len(measure.heads) > 2:
        return
    layers = np.unique(measure.heads["layer"])
    if len(layers) < FEW_LAYERS:
        return
    for depth, third in zip(DEPTHS, thirds(len(layers)), strict=True):
        of_third = np.isin(measure.heads["layer"], [layers[number - 1] for number in third])
        rows = of_third & ~np.isnan(measure.replicates[0])
        if rows.any():
            mean = _mean(measure.replicates[:, rows])
            yield depth, Statistic(mean, mean)


def _mean(values: Float[Array, "replicate row"]) -> Float[Array, " replicate"]:
    """The mean over rows; where a bucket has nothing of some rows, these stay as they are."""
    is_empty = np.isnan(values).all(axis=1)
    filled = np.where(np.isnan(values), values[:1], values)
    return np.where(is_empty, np.nan, filled.mean(axis=1))
