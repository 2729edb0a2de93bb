"""Estimates: labelled numbers with replicates, and the tables that follow from them.

What every analysis would otherwise write by hand is here: the columns of an interval, the rows of
all labels, and the columns that compare with the same model untrained.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pandas as pd
import xarray as xr

from headscope.data.table import tidy_table
from headscope.stats.difference import untrained_columns
from headscope.stats.interval import ANY, Estimate, align, estimate
from headscope.stats.sums import REPLICATE

__all__ = [
    "AT_LEAST_0", "FROM_0_TO_1", "FROM_MINUS_1_TO_1", "EstimateColumn", "Estimates", "Joined",
    "Number", "Summary", "add_difference", "as_frames", "estimate_array", "mean_over_layers",
]  # fmt: skip

FROM_0_TO_1, FROM_MINUS_1_TO_1, AT_LEAST_0 = (0.0, 1.0), (-1.0, 1.0), (0.0, np.inf)
Bounds = tuple[float | xr.DataArray, float]  # lowest and highest, by label where they differ
CHUNK = 50_000  # numbers whose intervals are made at a time: 64 replicates of each are in memory


@dataclass(frozen=True)
class Number:
    """A number for each label, on all data and without each bucket; it cannot pass its bounds."""

    replicates: xr.DataArray
    within: Bounds = ANY
    ends: str = ""  # begins the names of its bounds, where the column's own name does not

    @property
    def value(self) -> xr.DataArray:
        """The number on all data."""
        return self.replicates.isel({REPLICATE: 0})

    def estimate(self) -> Estimate[xr.DataArray]:
        """The number with its 95 % interval."""
        return estimate_array(self.replicates, self.within)


EstimateColumn = Number | Estimate[Any] | xr.DataArray


def estimate_array(replicates: xr.DataArray, within: Bounds = ANY) -> Estimate[xr.DataArray]:
    """The number on all data with its interval, each by the labels of the replicates."""
    dims = [dim for dim in replicates.dims if dim != REPLICATE]
    flat = replicates.transpose(REPLICATE, *dims).values
    shape, flat = flat.shape[1:], flat.reshape(len(flat), -1)
    parts = [
        estimate(flat[:, start : start + CHUNK]) for start in range(0, max(flat.shape[1], 1), CHUNK)
    ]
    like = replicates.isel({REPLICATE: 0}, drop=True).transpose(*dims)
    joined = (np.concatenate(part) for part in zip(*parts, strict=True))
    value, low, high = (like.copy(data=part.reshape(shape)) for part in joined)
    return Estimate(value, low.clip(*within), high.clip(*within))


@dataclass(frozen=True)
class Estimates:
    """The columns of a table: numbers over the same labels, with intervals or without.

    The bounds of the first number are called `low` and `high`, those of others begin with its name.
    Of the column `untrained` untrained models are shown too. Rows without the number `known` are
    left out.
    """

    columns: Mapping[str, EstimateColumn]
    untrained: str = ""
    known: str = ""
    axes: Sequence[str] = field(default=())  # in their order; those of the first column if empty

    def frame(self, draws: Sequence["Estimates"] = ()) -> pd.DataFrame:
        """The table; with estimates of untrained models also their mean and the difference."""
        columns = self._values()
        if self.untrained and draws:
            model, *others = (self._replicates(part) for part in (self, *draws))
            columns |= untrained_columns(model, others)
        first = self._axes_like()
        axes = {str(dim): first.coords[dim].values.tolist() for dim in first.dims}
        table = tidy_table(axes, columns)
        return table[table[self.known].notna()].reset_index(drop=True) if self.known else table

    def _values(self) -> dict[str, Any]:
        values: dict[str, Any] = {}
        like = self._axes_like()
        for name, column in self.columns.items():
            if isinstance(column, xr.DataArray):
                values[name] = _spread(column, like)
                continue
            ends = column.ends if isinstance(column, Number) else ""
            parts = column.estimate() if isinstance(column, Number) else column
            is_first = "low" not in values and not ends
            before = "" if is_first else f"{ends or name}_"
            values[name] = _spread(parts.value, like)
            values[f"{before}low"] = _spread(parts.low, like)
            values[f"{before}high"] = _spread(parts.high, like)
        return values

    def _axes_like(self) -> xr.DataArray:
        """An array with the axes of the table in their order."""
        arrays = [_array_of(column) for column in self.columns.values()]
        if self.axes:
            return xr.broadcast(*arrays)[0].transpose(*self.axes)
        return arrays[0]

    def _replicates(self, of: "Estimates") -> Any:
        number = of.columns[self.untrained]
        assert isinstance(number, Number)  # it was chosen so by the analysis
        dims = [dim for dim in self._axes_like().dims if dim in number.replicates.dims]
        return number.replicates.transpose(REPLICATE, *dims).values


def _array_of(column: EstimateColumn) -> xr.DataArray:
    array: xr.DataArray = column if isinstance(column, xr.DataArray) else column.value
    return array.drop_vars(REPLICATE, errors="ignore")


def _spread(array: Any, like: xr.DataArray) -> Any:
    """The numbers of an array in the order of the table's axes, repeated along those it lacks."""
    if not isinstance(array, xr.DataArray):
        return array
    return array.broadcast_like(like).transpose(*like.dims).values


def add_difference(
    replicates: xr.DataArray, axis: str, above: str, below: str, is_aligned: bool = False
) -> xr.DataArray:
    """The array with one more label, `above - below`, the difference of two labels.

    If it `is_aligned`, a bucket counts if one of the two has it (`interval.align`).
    """
    first, second = (replicates.sel({axis: label}) for label in (above, below))
    if is_aligned:
        dims = first.transpose(REPLICATE, ...).dims
        parts = align(*(part.transpose(*dims).values for part in (first, second)))
        first, second = (first.transpose(*dims).copy(data=part) for part in parts)
    difference = (first.drop_vars(axis) - second.drop_vars(axis)).expand_dims(
        {axis: [f"{above} - {below}"]}
    )
    return xr.concat([replicates, difference], axis).transpose(*replicates.dims)


def mean_over_layers(replicates: xr.DataArray, groups: Mapping[str, Sequence[int]]) -> xr.DataArray:
    """The means over groups of layers, counted from 1, by an axis `layers`; NaN for no layer."""
    means = [
        replicates.sel(layer=list(layers)).mean("layer", skipna=False)
        if layers
        else replicates.isel(layer=0, drop=True) * np.nan
        for layers in groups.values()
    ]
    joined = xr.concat(means, "layers").assign_coords(layers=np.array(list(groups)))
    return joined.transpose(REPLICATE, "layers", ...)


class HasFrame(Protocol):
    """Something that is a table once the same of untrained models is known."""

    def frame(self, draws: Sequence[Any] = ()) -> pd.DataFrame:
        """The table, with columns from the same of untrained models, one for each draw."""


@dataclass(frozen=True)
class Joined:
    """Tables one under the other, such as those of the labels of an open axis."""

    parts: Sequence[HasFrame]

    def frame(self, draws: Sequence["Joined"] = ()) -> pd.DataFrame:
        """The rows of all parts."""
        frames = [
            part.frame([draw.parts[i] for draw in draws]) for i, part in enumerate(self.parts)
        ]
        return pd.concat(frames, ignore_index=True)


Summary = HasFrame | pd.DataFrame


def as_frames(
    tables: Mapping[str, Summary], untrained: Sequence[Mapping[str, Summary]] = ()
) -> dict[str, pd.DataFrame]:
    """The tables of an analysis, beside those of untrained models, one mapping for each draw."""
    return {
        name: table
        if isinstance(table, pd.DataFrame)
        else table.frame([draw[name] for draw in untrained if name in draw])
        for name, table in tables.items()
    }
