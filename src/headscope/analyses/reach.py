"""How far away do heads look? The mean distance, and the share that goes beyond a window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import xarray as xr
from jaxtyping import Float

from headscope.contracts import Analysis
from headscope.data.attention import LayerAttention, Readings
from headscope.data.reading import MapSlice, Reading
from headscope.data.table import Tables, empty_tables
from headscope.lazy import Tensor, torch
from headscope.options import option, require
from headscope.stats.estimates import AT_LEAST_0, FROM_0_TO_1, Estimates, Number, Summary
from headscope.stats.ranking import Values
from headscope.stats.sums import REPLICATE, Sums
from headscope.view.answer import Answer, AnswerMaker, Topic, write_percent
from headscope.view.facts import head_facts
from headscope.view.judge import name_head, top_row
from headscope.view.numbers import SHARE, WHOLE_PERCENT, Form, row_estimate
from headscope.view.presentation import LANGUAGE_MODELS, Presentation
from headscope.view.specs import (
    COLOURS,
    HOW_TO_READ,
    Behaviour,
    Grid,
    HeadMeasure,
    Hover,
    Kind,
    Threshold,
)

__all__ = ["Reach"]


COLUMNS = ("distance", "low", "high", "beyond", "beyond_low", "beyond_high")


class Distances(NamedTuple):
    """Sums over the rows of a map."""

    distance: Tensor  # [example, head]: of weight times distance
    square: Tensor  # of weight times distance squared
    beyond: Tensor  # of the weight beyond the first and the last tokens
    weight: Tensor  # of all weight on tokens


@dataclass(frozen=True)
class DistanceSums(Reading):
    """The distances of queries and keys, and the weight beyond the first and the last tokens."""

    first: int
    last: int

    def begin(self, layer: LayerAttention) -> Distances:
        shape, device = layer.weights.shape[:2], layer.batch.device
        zeros = (
            torch.zeros(shape, dtype=layer.weights.dtype, device=device) for _ in Distances._fields
        )
        return Distances(*zeros)

    def add(self, total: Distances, part: MapSlice) -> None:
        weights = part.weights
        shape = (part.first_row, *weights.shape[-2:])
        factors = _make_factors(self.first, self.last, *shape, weights.dtype, weights.device)
        sums = weights.flatten(2) @ factors  # [example, head, 4]: one walk through the slice
        for array, values in zip(total, sums.unbind(-1), strict=True):
            array[part.examples] += values


@lru_cache(maxsize=4)  # the slices of all layers are alike
def _make_factors(
    first: int, last: int, first_row: int, n_rows: int, n_keys: int, dtype: Any, device: Any
) -> Float[Tensor, "pair 4"]:
    """For each pair of a row and a key: the distance, its square, whether it is beyond, and 1."""
    keys = torch.arange(n_keys, device=device)
    rows = torch.arange(first_row, first_row + n_rows, device=device)
    distance = (rows[:, None] - keys).abs()
    is_beyond = (distance >= last) & (keys >= first)
    factors = torch.stack([distance, distance**2, is_beyond, torch.ones_like(distance)], dim=-1)
    return factors.to(dtype).flatten(0, 1)


@dataclass(frozen=True)
class Reach(Analysis):
    """Mean distance in tokens between a query and what it attends to; the share that is beyond.

    `variance` is that of the distance, over all queries and what they attend to.

    `beyond` is the share of attention that goes neither to the first 4 tokens of the input nor to
    the last 64 up to the query (in an encoder: nor to the 63 after it), so what a cache of these
    would lose. Attention to a learned sink has no distance and does not count. `sliding_window` is
    how many tokens a query may see at most in a layer that has one; empty where all examples fit
    into it. A `group` is the mean of the heads that share their keys.
    """

    reach_first: int = option(4, "First tokens that do not count as far away.")
    reach_last: int = option(64, "Distance in tokens from which on attention counts as far away.")

    name = "reach"
    weighs_documents = True
    sums = {
        "distance": "layer head", "square": "layer head", "beyond": "layer head", "examples": "",
        "span": "layer", "cut": "layer", "groups": "",
    }  # fmt: skip
    tables = {
        "reach": (
            "layer",
            "head",
            *COLUMNS,
            "variance",
            "variance_low",
            "variance_high",
            "sliding_window",
        ),
        "reach-groups": ("layer", "group", *COLUMNS),
        "reach-layers": ("layer", *COLUMNS, "sliding_window"),
    }

    def __post_init__(self) -> None:
        require(self.reach_first >= 0, "reach_first", self.reach_first, "0 or more")
        require(self.reach_last > 0, "reach_last", self.reach_last, "at least 1")

    @property
    def reads(self) -> tuple[DistanceSums]:
        """The sums for its options."""
        return (DistanceSums(self.reach_first, self.reach_last),)

    def measure(self, seen: Readings) -> Mapping[str, Tensor]:
        """All by layer and head, as means over the attention of an example."""
        distance, square, beyond, weight = seen[self.reads[0]]  # [example, layer, head]
        weight = weight.clamp(min=torch.finfo(weight.dtype).tiny)
        ones = seen.ones().to(distance.dtype)
        most = seen.visible.amax(-1).to(distance.dtype)  # [layer]
        is_cut = (most < seen.n_queries).to(distance.dtype)
        return {
            "distance": distance / weight,
            "square": square / weight,
            "beyond": beyond / weight,
            "examples": ones,
            "span": (most * is_cut).expand(len(ones), -1),
            "cut": is_cut.expand(len(ones), -1),
            "groups": ones * seen.n_groups,
        }

    def rank(self, values: Mapping[str, Values]) -> dict[str, Values]:
        """The more of its attention goes far, the better an example shows a head."""
        return {"far": values["beyond"]}

    def summarize(self, sums: Sums) -> Mapping[str, Summary]:
        """Means over examples, by head, by heads that share keys, and by layer."""
        heads = {name: sums.mean(name, "examples") for name in ("distance", "beyond")}
        layers = {name: array.mean("head", skipna=False) for name, array in heads.items()}
        variance = sums.mean("square", "examples") - heads["distance"] ** 2
        spread = {"variance": Number(variance, AT_LEAST_0)}
        window = sums.ratio("span", "cut")
        n_groups = round(float(sums.ratio("groups", "examples")))
        tables: dict[str, Summary] = {
            self.name: Estimates(
                {**_numbers(heads), **spread, "sliding_window": window}, untrained="distance"
            ),
            "reach-layers": Estimates({**_numbers(layers), "sliding_window": window}),
            "reach-groups": empty_tables(self.tables)["reach-groups"],
        }
        n_heads = heads["distance"].sizes["head"]
        if 0 < n_groups < n_heads:
            group = (heads["distance"]["head"] - 1) * n_groups // n_heads + 1
            by_group = {n: a.groupby(group.rename("group")).mean() for n, a in heads.items()}
            order = (REPLICATE, "layer", "group")
            groups = {name: array.transpose(*order) for name, array in by_group.items()}
            tables["reach-groups"] = Estimates(_numbers(groups))
        return tables


def _numbers(arrays: Mapping[str, xr.DataArray]) -> dict[str, Number]:
    bounds = {"distance": AT_LEAST_0, "beyond": FROM_0_TO_1}
    return {name: Number(array, bounds[name]) for name, array in arrays.items()}


TOKENS = Form(".1f", unit=" tokens")
KIND = Kind("far away", COLOURS[3], "triangle-up")
FAR = 0.5  # of its attention, for a head to be called far-sighted


def answer_reach(tables: Tables) -> list[Answer]:
    """The head that looks farthest, if that is far."""
    table = tables["reach"]
    row, mean = top_row(table, "beyond"), float(table["beyond"].mean())
    if not row["beyond"] > FAR:
        return []
    name = name_head(row)
    text = (
        f"Head {name} looks farthest: {WHOLE_PERCENT.row(row, 'beyond')} of its attention goes "
        f"beyond recent and first tokens (mean of all heads {write_percent(mean)})."
    )
    detail = f"{name} {SHARE.row(row, 'beyond')}, on average {TOKENS.row(row, 'distance')} away."
    return [
        Answer(
            *(text, 0.6, detail, (name,), "heads-reach", Topic.EXTREME),
            *(row_estimate(row, "beyond"), FAR),
        )
    ]


PRESENTATION = Presentation(LANGUAGE_MODELS, figure="heads-reach", show=[
    Grid(
        name="heads-reach", needs=("reach",), column="distance", axis="mean distance in tokens",
        hover=[Hover("beyond", "beyond the window", ".1%"), Hover("sliding_window", "window", "d")],
        title="How far heads look",
        caption=f"{HOW_TO_READ} The darker, the further away is what it attends to.",
    ),
    AnswerMaker(("reach",), answer_reach),
    HeadMeasure(
        "qk_distance", "Mean distance in tokens to what is attended to.", "reach", "distance"
    ),
    HeadMeasure(
        "qk_distance_variance", "Variance of the distance in tokens to what is attended to.",
        "reach", "variance",
    ),
    HeadMeasure(
        "beyond_window", "Share of attention to neither the first nor the recent tokens.",
        "reach", "beyond", for_cache="reach", window=("reach_first", "reach_last"),
    ),
    head_facts(
        "reach", "reach", "distance", form=TOKENS, value="{} on average", bar="largest",
        note=lambda row: f"{SHARE.number(row.beyond)} beyond the window of recent tokens",
    ),
    Behaviour(
        "far away", "looks far away ({})", KIND,
        Threshold("far_away", FAR, "Threshold for calling a head far-sighted."),
        needs="reach", column="beyond", ranking="far", short="far", also="long range distant",
        is_look=True,
    ),
])  # fmt: skip
