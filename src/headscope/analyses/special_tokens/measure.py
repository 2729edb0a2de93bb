"""Attention to special tokens and punctuation, and from special tokens (paper, section 3.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr
from jaxtyping import Float
from numpy.typing import NDArray

from headscope.analyses.special_tokens import classes
from headscope.contracts import Analysis
from headscope.data.attention import Readings
from headscope.data.depth import like_paper, thirds
from headscope.data.encoding import TokenKind
from headscope.data.reading import SUMS
from headscope.data.table import empty_tables, tidy_table
from headscope.lazy import Tensor, torch
from headscope.stats.difference import find_step, over_layers, ratio_estimate
from headscope.stats.estimates import (
    FROM_0_TO_1,
    Estimates,
    Number,
    Summary,
    add_difference,
    estimate_array,
    mean_over_layers,
)
from headscope.stats.ranking import Values
from headscope.stats.sums import REPLICATE, Sums

__all__ = ["MIDDLE", "STEP_COLUMNS", "THIRDS", "SpecialTokens", "step_rows"]

SOURCES = ("all", "sep", "other")
SPECIAL = ("cls", "sep", "first", "punctuation")
MIDDLE = "6-10 of 12"  # layers, scaled to the depth of the model
THIRDS = ("first third", "middle third", "last third")
PAIRS = [(0, 1), (0, 2), (1, 2)]  # of thirds
WEIGHT = ("weight", "low", "high")
FREQUENCY = ("share", "low", "high")
STEP_COLUMNS = (
    *("target", "layer", "low", "high", "before", "after"),
    *("ratio", "ratio_low", "ratio_high"),
)

Array = NDArray[np.float64]


@dataclass(frozen=True)
class SpecialTokens(Analysis):
    """Mean attention by class of the attended token, from all rows, from `sep` and from the rest.

    "cls" and "sep" are the special tokens that open and close the model's input, whatever they are
    called; "first" is the first token where it is an ordinary one; "punctuation" is "." and ",", as
    in the paper, and the periods and commas of other scripts. `token_classes` adds the user's own
    (name -> tokens as text); they come before punctuation, so that every token has one class and
    the weights of a source sum to 1. A model with a learned sink (gpt-oss) has the class "sink" for
    what goes to no token. Per segment the mean over its rows; then over segments that have such
    rows.
    """

    token_classes: classes.TokenClasses = classes.token_classes_option()

    name = "special-tokens"
    weighs_documents = True
    measures_cross = True
    reads = (SUMS,)
    sums = {
        "weight": "layer head source target", "segments": "source",
        "marks": "token", "others": "bin", "tokens": "",
    }  # fmt: skip
    tables = {
        "special-tokens": ("layer", "head", "source", "target", *WEIGHT),
        "token-frequency": ("token", *FREQUENCY, "rank"),
        "special-tokens-heads": ("layer", "head", *WEIGHT),
        "special-tokens-layers": ("layers", "source", "target", *WEIGHT),
        "special-tokens-steps": STEP_COLUMNS,
    }

    def __post_init__(self) -> None:
        classes.check_classes(self.token_classes)

    @property
    def labels(self) -> dict[str, Sequence[str]]:
        """A learned sink is the last target, where there is one."""
        targets = [*classes.class_names(self.token_classes), classes.SINK]
        return {"source": SOURCES, "target": targets, "token": list(classes.MARKS)}

    def measure(self, seen: Readings) -> Mapping[str, Tensor]:
        """Mean attention by head, source and target, and which sources there are."""
        batch, columns = seen.batch, seen[SUMS].columns  # [example, layer, head, kind, key]
        targets = classes.classify(seen.keys, self.token_classes).to(columns.dtype)
        is_sep = (batch.kinds == TokenKind.SEP).to(columns.dtype)  # [example, query]
        n_rows = torch.stack([torch.ones_like(is_sep), is_sep, 1 - is_sep], dim=1).sum(-1)
        from_all, from_sep = columns.sum(-2), columns[..., TokenKind.SEP, :]
        from_rows = torch.stack([from_all, from_sep, from_all - from_sep], dim=-2)
        mass = from_rows @ targets[:, None, None]  # [example, layer, head, source, target]
        weight = mass / n_rows.clamp(min=1)[:, None, None, :, None]
        has_rows = (n_rows > 0).to(columns.dtype)  # [example, source]
        if seen.has_sink:
            missing = (has_rows[:, None, None] - weight.sum(-1)).clamp_min(0)
            weight = torch.cat([weight, missing[..., None]], dim=-1)
        return {"weight": weight, "segments": has_rows, **classes.count_tokens(batch)}

    def rank(self, values: Mapping[str, Values]) -> dict[str, Values]:
        """The weight from all rows, by class."""
        weight = values["weight"]
        targets = self.labels["target"][: weight.shape[-1]]
        return {target: weight[..., 0, i] for i, target in enumerate(targets)}

    def summarize(self, sums: Sums) -> Mapping[str, Summary]:
        """Mean over segments, by head, source and target; then what is derived of it,
        and how frequent periods and commas are.

        By head the sum over special tokens and punctuation; over groups of layers the mean of all
        heads, and differences of groups and sources; for each target the layer where it rises.
        """
        weight = sums.mean("weight", "segments")  # [replicate, layer, head, source, target]
        from_all = weight.sel(source="all", drop=True)
        is_special = from_all.target.isin(SPECIAL)
        special = from_all.sel(target=is_special).sum("target", skipna=False)
        by_layer = from_all.mean("head", skipna=False)
        return {
            self.name: Estimates({"weight": Number(weight, FROM_0_TO_1)}),
            "token-frequency": _frequency_table(sums),
            "special-tokens-heads": Estimates({"weight": Number(special, FROM_0_TO_1)}),
            "special-tokens-layers": _layer_table(weight),
            "special-tokens-steps": step_rows(
                by_layer.values, by_layer.target.values.tolist(), is_rise=True
            ),
        }


def _frequency_table(sums: Sums) -> pd.DataFrame:
    """The share of periods and of commas in all tokens of text, and their rank among tokens."""
    marks = estimate_array(sums.mean("marks", "tokens"), FROM_0_TO_1)  # [token]
    if np.isnan(marks.value).all():
        return empty_tables(SpecialTokens.tables)["token-frequency"]
    others = sums.mean("others", "tokens").isel({REPLICATE: 0})
    shares = np.concatenate([marks.value, others])
    values = {name: part.values for name, part in zip(FREQUENCY, marks, strict=True)}
    values["rank"] = 1 + (shares > marks.value.values[:, None]).sum(axis=1)
    return tidy_table({"token": list(classes.MARKS)}, values)


def _layer_table(weight: xr.DataArray) -> Estimates:
    """The mean of all heads over groups of layers, and the differences of groups and sources."""
    by_layer = weight.mean("head", skipna=False)  # [replicate, layer, source, target]
    by_layer = add_difference(by_layer, "source", "sep", "other", is_aligned=True)
    n_layers = by_layer.sizes["layer"]
    groups = {"all": range(1, n_layers + 1), MIDDLE: like_paper(6, 10, n_layers)}
    groups |= dict(zip(THIRDS, thirds(n_layers), strict=True))
    layers = mean_over_layers(by_layer, groups)  # [replicate, layers, source, target]
    for above, below in PAIRS:
        layers = add_difference(layers, "layers", THIRDS[above], THIRDS[below])
    is_difference = _is_difference(layers.layers) | _is_difference(layers.source)
    return Estimates({"weight": Number(layers, (-1.0 * is_difference, 1.0))}, untrained="weight")


def _is_difference(labels: xr.DataArray) -> xr.DataArray:
    return labels.copy(data=[" - " in label for label in labels.values])


def step_rows(
    by_layer: Float[Array, "replicate layer target"], targets: Sequence[str], is_rise: bool
) -> pd.DataFrame:
    """For each target the layer from which on it is higher (or lower), and by how much.

    None of a target that there is not, and of a model of one layer.
    """
    rows = []
    for target, curve in zip(targets, np.moveaxis(by_layer, -1, 0), strict=True):
        step = find_step(curve, is_rise) if curve[0].max() > 0 else None
        if step is not None:
            layers = range(1, curve.shape[1] + 1)
            sides = [[n for n in layers if (n >= step.layer) == side] for side in (False, True)]
            before, after = (over_layers(curve, side) for side in sides)
            ratio = map(float, ratio_estimate(after, before))
            rows.append((target, *step, float(before[0]), float(after[0]), *ratio))
    return pd.DataFrame(rows, columns=list(STEP_COLUMNS))
