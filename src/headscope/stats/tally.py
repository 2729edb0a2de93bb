"""Totals over examples, by fold and bootstrap replicate: the only state a run has, and it adds."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray

__all__ = ["Estimate", "Tally", "estimate", "share"]

Array = NDArray[np.float64]
T = TypeVar("T")


class Estimate(NamedTuple, Generic[T]):
    """A number (or an array of numbers) with its 95 % interval; NaN where there is none."""

    value: T
    low: T
    high: T


@dataclass(frozen=True)
class Tally:
    """Named totals, each `[fold, replicate, layer, ...]`. A name that is absent stands for zero."""

    totals: dict[str, Array] = field(default_factory=dict)

    def add(
        self,
        weights: Float[Array, "fold replicate example"],
        values: Mapping[str, Float[NDArray[np.floating[Any]], "example layer ..."]],
    ) -> None:
        """Add `weights @ values`: every example's values, as often as each replicate counts it."""
        for name, value in values.items():
            if name not in self.totals:
                self.totals[name] = np.zeros((*weights.shape[:-1], *value.shape[1:]))
            for fold, in_fold in enumerate(weights):
                chosen = in_fold.any(axis=0)  # an example weighs in its own fold alone
                part = torch.from_numpy(value[chosen]).double().flatten(1)  # [example, column]
                # torch's product, as NumPy's threads would fight with the model's
                sums = torch.from_numpy(in_fold[:, chosen]) @ part  # [replicate, column]
                self.totals[name][fold] += sums.numpy().reshape(self.totals[name].shape[1:])

    def __add__(self, other: "Tally") -> "Tally":
        total = Tally(dict(self.totals))
        for name, value in other.totals.items():
            total.totals[name] = total.totals[name] + value if name in total.totals else value
        return total

    def __bool__(self) -> bool:
        return bool(self.totals)

    def __iter__(self) -> Iterator[str]:
        return iter(self.totals)

    def ratio(self, numerator: str, denominator: str) -> Estimate[Array]:
        """Mean of `numerator` per `denominator` over both folds, with its interval; NaN for 0 / 0.

        The denominator's axes are the leading axes of the numerator's, of size 1 where it does not
        depend on them.
        """
        above = self.totals[numerator].sum(axis=0)  # [replicate, layer, ...]
        below = self.totals[denominator].sum(axis=0)
        below = below.reshape(below.shape + (1,) * (above.ndim - below.ndim))
        return estimate(share(above, below))


def share(above: Array, below: Array) -> Array:
    """One over the other; NaN for 0 / 0."""
    below = np.broadcast_to(below, above.shape)
    quotient: Array = np.divide(above, below, out=np.full(above.shape, np.nan), where=below != 0)
    return quotient


def estimate(replicates: Float[Array, "replicate ..."]) -> Estimate[Array]:
    """The point estimate (replicate 0) and the 2.5 % and 97.5 % points of the other replicates."""
    value, draws = np.asarray(replicates[0]), replicates[1:]
    low, high = np.full(value.shape, np.nan), np.full(value.shape, np.nan)
    if len(draws) == 0:
        return Estimate(value, low, high)
    # A replicate that happened to draw no example of a kind has no value; the others still do.
    n_missing = np.isnan(draws).sum(axis=0)
    is_whole, is_partly = n_missing == 0, (n_missing > 0) & (n_missing < len(draws))
    for chosen, quantile in ((is_whole, np.quantile), (is_partly, np.nanquantile)):
        if chosen.any():  # nanquantile is slow, and seldom needed
            low[chosen], high[chosen] = quantile(draws[:, chosen], [0.025, 0.975], axis=0)
    return Estimate(value, low, high)
