"""Labelled sums: what an analysis measured, added up by bucket of documents, with named axes.

An analysis declares the axes of its sums, `{"nats": "layer head rows", "segments": "rows"}`. Layers
and heads count from 1; other axes have the labels that it declares. An axis that begins with `*`
has its labels from the data, such as relations: there is one array for each label, and it comes
first. Arithmetic on the arrays goes by the names of axes (xarray).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from headscope.stats.bucket import leave_one_out
from headscope.stats.interval import ANY, Estimate, share
from headscope.stats.tally import Tally

__all__ = ["BUCKET", "OPEN", "REPLICATE", "Sums", "SumsOf", "key_of", "mean_of", "on_replicates"]

BUCKET, REPLICATE = "bucket", "replicate"
OPEN = "*"  # begins the name of an axis whose labels come from the data

Labels = Mapping[str, Sequence[Any]]


class SumsOf(Protocol):
    """What sums need to know of their analysis."""

    @property
    def sums(self) -> Mapping[str, str]: ...

    @property
    def labels(self) -> Labels: ...


def key_of(name: str, label: str | None = None) -> str:
    """The name of an array in a file: that of the sum, and of an open axis the label.

    >>> key_of("nats"), key_of("correct", "nsubj")
    ('nats', 'correct/nsubj')
    """
    return name if label is None else f"{name}/{label}"


@dataclass(frozen=True)
class Sums:
    """The sums of one analysis over a corpus."""

    tally: Tally
    axes: Mapping[str, str]  # of each sum, as declared
    axis_labels: Labels

    @classmethod
    def of(cls, analysis: SumsOf, tally: Tally) -> "Sums":
        """The sums as the analysis declares them."""
        return cls(tally, analysis.sums, analysis.labels)

    def __contains__(self, name: str) -> bool:
        return any(key.partition("/")[0] == name for key in self.tally)

    def labels(self, name: str) -> list[str]:
        """The labels of an open axis that occur in the data, in the order of their appearance."""
        keys = (key.partition("/") for key in self.tally)
        return [label for first, slash, label in keys if first == name and slash]

    def values(self, name: str, label: str | None = None) -> NDArray[np.float64]:
        """A sum as a plain array `[bucket, ...]`; of an open axis that of one label."""
        return self.tally.totals[key_of(name, label)]

    def __call__(self, name: str, label: str | None = None) -> xr.DataArray:
        """A sum by bucket and its axes."""
        values = self.values(name, label)
        dims = [axis for axis in self.axes[name].split() if not axis.startswith(OPEN)]
        coords: dict[str, Any] = {}
        for axis, size in zip(dims, values.shape[1:], strict=True):
            if axis in ("layer", "head"):
                coords[axis] = np.arange(1, size + 1)
            elif axis in self.axis_labels:  # of a learned sink, say, there may be none
                coords[axis] = list(self.axis_labels[axis])[:size]
        return xr.DataArray(values, coords, (BUCKET, *dims))

    def mean(self, name: str, per: str, label: str | None = None) -> xr.DataArray:
        """One sum over another: on all data, then without each bucket (axis `replicate`).

        NaN for 0 / 0, and without a bucket that has none of what the mean is over.
        """
        return mean_of(self(name, label), self(per, label))

    def ratio(self, name: str, per: str, label: str | None = None) -> xr.DataArray:
        """One sum over another on all data; NaN for 0 / 0."""
        above, below = (self(part, label).sum(BUCKET) for part in (name, per))
        return above / below.where(below != 0)

    def estimate(
        self, name: str, per: str, within: tuple[float, float] = ANY
    ) -> Estimate[NDArray[np.float64]]:
        """One sum over another with its interval, of too many numbers to replicate all at once."""
        return self.tally.ratio(name, per, within)


def mean_of(above: xr.DataArray, below: xr.DataArray) -> xr.DataArray:
    """One sum by bucket over another: on all data, then without each bucket (`Sums.mean`)."""
    above, below = on_replicates(above), on_replicates(below)
    missing = {dim: below.sizes[dim] for dim in below.dims if dim not in above.dims}
    above = above.expand_dims(missing, axis=-1) if missing else above
    wide = below.broadcast_like(above).transpose(*above.dims)
    return above.copy(data=share(above.values, wide.values))


def on_replicates(sums: xr.DataArray) -> xr.DataArray:
    """Sums by bucket as sums over all data, then without each bucket."""
    others = [dim for dim in sums.dims if dim != BUCKET]
    values = leave_one_out(sums.transpose(BUCKET, *others).values)
    coords = {dim: sums.coords[dim] for dim in others if dim in sums.coords}
    return xr.DataArray(values, coords, (REPLICATE, *others))
