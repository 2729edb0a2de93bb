"""Numbers of several runs beside each other, from any table: measures, heads, depth.

A measure is a column with an interval, for one combination of a table's labels, such as the weight
on the target "previous". Where rows are heads or layers, it is taken over them: the mean, and the
largest head, held out. The first run is the one that others are compared with.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

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

__all__ = ["BEST", "DEPTH", "HEADS", "MEAN", "MEASURES", "VALUE", "compare_numbers"]

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
Rows = NDArray[np.intp]
# The layer and head of each row, or its head word; empty where a number is one of the model.
Places = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Measure:
    """A measure of one run: its replicates by row, and the rows' places (layers, heads)."""

    table: str
    column: str
    of: str  # "target previous"
    places: Places
    replicates: Float[Array, "replicate row"]

    @property
    def key(self) -> tuple[str, str, str]:
        return self.table, self.column, self.of


class Number(NamedTuple):
    """A number of one run with its replicates, and the head that it is of, if any.

    Of a largest head `too_high` is the largest on all data: intervals hold those of both.
    """

    replicates: Float[Array, " replicate"]
    too_high: Float[Array, " replicate"]
    head: tuple[int, int] | None = None


PARTS = ("replicates", "too_high")
Numbers = dict[tuple[str, ...], dict[str, Number]]  # by measure and run


def list_measures(run: Replicates) -> Iterator[Measure]:
    """All measures of a run."""
    parts = {name: list(_split_rows(table)) for name, table in run.tables.items()}
    for (name, column), values in run.values.items():
        for of, rows, places in parts[name]:
            yield Measure(name, column, of, places, values[:, rows])


def _split_rows(table: pd.DataFrame) -> Iterator[tuple[str, Rows, Places]]:
    """The rows of each combination of labels; those of the model (rules, all layers) apart."""
    keys = table.index.to_frame(index=False).drop(columns=NTH)
    where, labels = split_keys(keys)
    is_placed = keys[where].notna().all(axis=1).to_numpy()
    values = {name: keys[name].to_numpy() for name in where}
    texts = [[f"{label} {value}" for value in keys[label]] for label in labels]
    for rows in _same_rows(keys[labels]):
        of = ", ".join(text[rows[0]] for text in texts)
        placed, others = rows[is_placed[rows]], rows[~is_placed[rows]]
        if len(placed):
            places = {name: own[placed] for name, own in values.items()}
            yield of, placed, {n: p.astype(int) if n in HEAD else p for n, p in places.items()}
        if len(others):
            yield of, others, {}


def _same_rows(labels: pd.DataFrame) -> list[Rows]:
    """The rows of each combination of labels, in the order in which combinations come."""
    if not len(labels.columns):
        return [np.arange(len(labels))]
    group = labels.groupby(list(labels), sort=False, dropna=False).ngroup().to_numpy()
    return np.split(np.argsort(group, kind="stable"), np.cumsum(np.bincount(group))[:-1])


def compare_numbers(runs: Mapping[str, Replicates], first: str) -> dict[str, pd.DataFrame]:
    """Every measure of every run beside that of the first run: whole, by head, and by depth.

    Depth is the mean over each third of the layers, for models of any number of them.
    """
    measures = {name: list(list_measures(run)) for name, run in runs.items()}
    return {
        "measures": _compare(runs, measures, first, "statistic", MEASURES, _summarize),
        "heads": _compare_heads(runs, measures, first),
        "depth": _compare(runs, measures, first, "depth", DEPTH, _by_depth),
    }


def _compare_heads(
    runs: Mapping[str, Replicates], measures: Mapping[str, Sequence[Measure]], first: str
) -> pd.DataFrame:
    """Every head of every run beside the head at the same place of the first one.

    Of models of one shape alone. p values are corrected over the heads of a measure.
    """
    of_heads = {name: {m.key: m for m in own if _has_heads(m)} for name, own in measures.items()}
    shapes = {name: _list_heads(own.values()) for name, own in of_heads.items()}
    parts = []
    for name in (n for n in runs if first in runs and n != first and shapes[n] == shapes[first]):
        for key, other in of_heads[name].items():
            one = of_heads[first].get(key)
            if one is None or not _same_places(one, other):
                continue
            found, is_paired = _difference(
                runs[first], runs[name], one.table, other.replicates, one.replicates
            )
            columns = dict(zip(LABELS, one.key, strict=True)) | {
                **one.places,
                "run": name,
                "first_value": one.replicates[0],
                "value": other.replicates[0],
            }
            numbers = (*found, holm(found.p_value), is_paired)
            columns |= dict(zip(DIFFERENCE, numbers, strict=True))
            parts.append(pd.DataFrame(columns)[list(HEADS)])
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(HEADS))


def _compare(
    runs: Mapping[str, Replicates],
    measures: Mapping[str, Sequence[Measure]],
    first: str,
    statistic: str,
    columns: Sequence[str],
    summarize: Callable[[Measure], Iterator[tuple[str, Number]]],
) -> pd.DataFrame:
    """The statistics of all measures in all runs, with differences from the first run."""
    numbers: Numbers = {}
    for name, own in measures.items():
        for measure in own:
            for what, number in summarize(measure):
                numbers.setdefault((*measure.key, what), {})[name] = number
    if not numbers:
        return pd.DataFrame(columns=list(columns))
    rows: list[dict[str, Any]] = []
    for name in runs:
        keys = [key for key, by_run in numbers.items() if name in by_run]
        if not keys:
            continue
        held_out, largest = (estimate(_stack(numbers, keys, name, part)) for part in PARTS)
        ends = np.fmin(held_out.low, largest.low), np.fmax(held_out.high, largest.high)
        found = (held_out.value, *ends)
        both = [i for i, key in enumerate(keys) if name != first and first in numbers[key]]
        differences = _differences(runs, (first, name), keys, both, numbers)
        for i, key in enumerate(keys):
            head = numbers[key][name].head or (pd.NA, pd.NA)
            rows.append(
                dict(zip((*LABELS, statistic), key, strict=True))
                | {"run": name, "layer": head[0], "head": head[1]}
                | {c: float(part[i]) for c, part in zip(ESTIMATE, found, strict=True)}
                | differences.get(i, dict.fromkeys(DIFFERENCE, np.nan))
            )
    table = pd.DataFrame(rows)
    table["p_value"] = holm(table["p_raw"].to_numpy(float))
    table = put_together(table, [*LABELS, statistic])
    whole = {name: "Int64" for name in ("layer", "head") if name in columns}
    return table.astype(whole)[list(columns)]


def _differences(
    runs: Mapping[str, Replicates],
    pair: tuple[str, str],
    keys: Sequence[tuple[str, ...]],
    both: Sequence[int],
    numbers: Numbers,
) -> dict[int, dict[str, Any]]:
    """The differences of one run from the first, by the place of the number."""
    first, name = pair
    rows = {}
    for table in dict.fromkeys(keys[i][0] for i in both):
        places = [i for i in both if keys[i][0] == table]
        some = [keys[i] for i in places]
        (held_out, is_paired), (largest, _) = (
            _difference(
                *(runs[first], runs[name], table),
                *(_stack(numbers, some, run, part) for run in (name, first)),
            )
            for part in PARTS
        )
        for n, i in enumerate(places):
            parts = [float(part[n]) for part in widen(held_out, largest)]
            rows[i] = dict(zip(DIFFERENCE, (*parts, np.nan, is_paired), strict=True))
    return rows


def _stack(
    numbers: Numbers, keys: Sequence[tuple[str, ...]], run: str, part: str
) -> Float[Array, "replicate number"]:
    return np.stack([getattr(numbers[key][run], part) for key in keys], axis=1)


def _difference(
    first: Replicates, other: Replicates, table: str, values: Array, before: Array
) -> tuple[Differences, bool]:
    """The other run minus the first, paired where both read the same documents."""
    is_paired = first.documents[table] == other.documents[table]
    if is_paired:
        return paired_difference(values, before), True
    return unpaired_difference(values, before), False


def _summarize(measure: Measure) -> Iterator[tuple[str, Number]]:
    """The number itself; of heads or layers the mean, and of heads the largest, held out."""
    known = ~np.isnan(measure.replicates[0])
    if not known.any():
        return
    values = measure.replicates[:, known]
    if not measure.places:
        yield VALUE, Number(values[:, 0], values[:, 0])
        return
    mean = _mean(values)
    yield MEAN, Number(mean, mean)
    if _has_heads(measure):
        best = best_of(values)
        layer, head = (int(measure.places[name][known][best.place]) for name in HEAD)
        yield BEST, Number(best.held_out, best.largest, (layer, head))


def _by_depth(measure: Measure) -> Iterator[tuple[str, Number]]:
    if "layer" not in measure.places or len(measure.places) > 2:
        return
    layers = np.unique(measure.places["layer"])
    if len(layers) < FEW_LAYERS:
        return
    for depth, places in zip(DEPTHS, thirds(len(layers)), strict=True):
        own = [layers[place - 1] for place in places]
        rows = np.isin(measure.places["layer"], own) & ~np.isnan(measure.replicates[0])
        if rows.any():
            mean = _mean(measure.replicates[:, rows])
            yield depth, Number(mean, mean)


def _mean(values: Float[Array, "replicate row"]) -> Float[Array, " replicate"]:
    """The mean over rows; where a bucket has nothing of some rows, these stay as they are."""
    is_empty = np.isnan(values).all(axis=1)
    filled = np.where(np.isnan(values), values[:1], values)
    return np.where(is_empty, np.nan, filled.mean(axis=1))


def _list_heads(measures: Iterable[Measure]) -> set[tuple[int, int]]:
    """All heads that the measures of a run are about."""
    places = (m.places for m in measures)
    return {pair for p in places for pair in zip(p["layer"], p["head"], strict=True)}


def _same_places(one: Measure, other: Measure) -> bool:
    return all(np.array_equal(one.places[name], other.places[name]) for name in HEAD)


def _has_heads(measure: Measure) -> bool:
    return set(measure.places) == set(HEAD)
