"""What several analyses share that switch sets of heads off: the best heads, and random others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import xarray as xr
from jaxtyping import Bool
from numpy.typing import NDArray

from headscope.data.attention import head_name
from headscope.stats.sums import BUCKET, Sums

__all__ = ["BEST", "NONE", "RANDOM", "SHARE_OF_HEADS", "choose_sets", "name_sets", "set_names"]

NONE, BEST, RANDOM = "none", "best", "random"
SHARE_OF_HEADS = 0.03  # of all heads: 8 of 270

Sets = Bool[NDArray[np.bool_], "set layer head"]


def set_names(n_draws: int) -> list[str]:
    """What the sets are called.

    >>> set_names(2)
    ['none', 'best', 'random 1', 'random 2']
    """
    return [NONE, BEST, *(f"{RANDOM} {draw}" for draw in range(1, n_draws + 1))]


def choose_sets(
    table: pd.DataFrame, column: str, n_heads: int | None, n_draws: int, seed: int
) -> Sets:
    """No head; the best by a column; and draws of as many random other heads of the same layers.

    Without a number, 3 % of all heads. At most half of the heads of a layer are among the best, so
    that there are others to draw.
    """
    scores = table.pivot(index="layer", columns="head", values=column).to_numpy(float)
    n_in_layer = scores.shape[1]
    wanted = n_heads or max(1, round(SHARE_OF_HEADS * scores.size))
    sets = np.zeros((2 + n_draws, *scores.shape), bool)
    best = sets[1]
    for place in np.argsort(-np.nan_to_num(scores, nan=-np.inf), axis=None, kind="stable"):
        layer, head = np.unravel_index(place, scores.shape)
        if best.sum() < wanted and best[layer].sum() < n_in_layer // 2:
            best[layer, head] = True
    rng = np.random.default_rng(seed)
    for drawn in sets[2:]:
        for layer, chosen in enumerate(best):
            others = np.flatnonzero(~chosen)
            drawn[layer, rng.choice(others, int(chosen.sum()), replace=False)] = True
    return sets


def name_sets(sums: Sums, names: Sequence[str], layer_axis: str = "member") -> xr.DataArray:
    """The heads of each set, by the sum that counts its members."""
    members = sums(layer_axis).sum(BUCKET).values > 0  # [set, layer, head]
    listed = [" ".join(head_name(*place) for place in np.argwhere(chosen)) for chosen in members]
    return xr.DataArray(np.array(listed, object), {"heads": list(names)}, ("heads",))
