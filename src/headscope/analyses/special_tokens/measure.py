"""Attention to special tokens and punctuation, and from special tokens (paper, section 3.2)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from headscope.analyses.special_tokens import classes
from headscope.contracts import Analysis
from headscope.data.attention import LayerAttention
from headscope.data.depth import like_paper, thirds
from headscope.data.encoding import TokenKind
from headscope.data.reading import SUMS, Reading
from headscope.data.table import Tables, empty_tables, head_axes, tidy_table
from headscope.stats.contrast import (
    find_step,
    over_layers,
    ratio_estimate,
    untrained_columns,
)
from headscope.stats.interval import align, estimate
from headscope.stats.ranking import Values
from headscope.stats.tally import SHARE, Tally

__all__ = ["MIDDLE", "STEP_COLUMNS", "THIRDS", "SpecialTokens", "step_rows"]

SOURCES = ["all", "sep", "other"]
SPECIAL = ("cls", "sep", "first", "punctuation")
MIDDLE = "6-10 of 12"  # layers, scaled to the depth of the model
THIRDS = ("first third", "middle third", "last third")
PAIRS = [(0, 1), (0, 2), (1, 2)]  # of thirds
LAYERS = ["all", MIDDLE, *THIRDS, *(f"{THIRDS[a]} - {THIRDS[b]}" for a, b in PAIRS)]
CONTRAST_SOURCES = [*SOURCES, "sep - other"]
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

    name: ClassVar[str] = "special-tokens"
    weighs_documents: ClassVar[bool] = True
    measures_cross: ClassVar[bool] = True
    reads: ClassVar[tuple[Reading, ...]] = (SUMS,)
    tables: ClassVar[dict[str, tuple[str, ...]]] = {
        "special-tokens": ("layer", "head", "source", "target", *WEIGHT),
        "token-frequency": ("token", *FREQUENCY, "rank"),
        "special-tokens-heads": ("layer", "head", *WEIGHT),
        "special-tokens-layers": ("layers", "source", "target", *WEIGHT),
        "special-tokens-steps": STEP_COLUMNS,
    }

    def __post_init__(self) -> None:
        classes.check_classes(self.token_classes)

    def measure(self, attention: LayerAttention) -> Mapping[str, Tensor]:
        """Mean attention by example, head, source and target, and which sources there are."""
        batch, columns = attention.batch, attention.column_sums()  # [example, head, kind, key]
        targets = classes.classify(attention.keys, self.token_classes).to(columns.dtype)
        is_sep = (batch.kinds == TokenKind.SEP).to(columns.dtype)  # [example, query]
        n_rows = torch.stack([torch.ones_like(is_sep), is_sep, 1 - is_sep], dim=1).sum(-1)
        from_all, from_sep = columns.sum(2), columns[:, :, TokenKind.SEP]
        from_rows = torch.stack([from_all, from_sep, from_all - from_sep], dim=2)
        mass = from_rows @ targets[:, None]  # [example, head, source, target]
        once = batch.remember("token counts", lambda: classes.count_tokens(batch))
        weight = mass / n_rows.clamp(min=1)[:, None, :, None]
        has_rows = (n_rows > 0).to(columns.dtype)[:, None, :]  # [example, 1, source]
        if attention.has_sink:
            missing = (has_rows - weight.sum(-1)).clamp_min(0)  # [example, head, source]
            weight = torch.cat([weight, missing[..., None]], dim=-1)
        once = once if attention.layer == 0 else {}
        return {**once, "weight": weight, "segments": has_rows}

    def rank(self, values: Mapping[str, Values]) -> dict[str, Values]:
        """The weight from all rows, by class."""
        targets = self._targets(values["weight"].shape[-1])
        return {target: values["weight"][..., 0, i] for i, target in enumerate(targets)}

    def summarize(self, tally: Tally) -> dict[str, pd.DataFrame]:
        """Mean over segments, by head, source and target; then what is derived of it,
        and how frequent periods and commas are.

        By head the sum over special tokens and punctuation; over groups of layers the mean of all
        heads, and differences of groups and sources; for each target the layer where it rises.
        """
        if not tally:
            return empty_tables(self.tables)
        weight = tally.ratio("weight", "segments", SHARE)  # [layer, head, source, target]
        targets = self._targets(weight.value.shape[-1])
        heads = head_axes(*weight.value.shape[:2])
        axes = {**heads, "source": SOURCES, "target": targets}
        replicates = tally.replicates("weight", "segments")
        special = replicates[..., 0, self._find_special(len(targets))].sum(axis=-1)
        by_layer = replicates[..., 0, :].mean(axis=2)  # [replicate, layer, target]
        return {
            self.name: tidy_table(axes, _named(weight)),
            "token-frequency": _frequency_table(tally),
            "special-tokens-heads": tidy_table(heads, _named(estimate(special, SHARE))),
            "special-tokens-layers": self._layer_table(replicates),
            "special-tokens-steps": step_rows(by_layer, targets, is_rise=True),
        }

    def add_untrained(
        self, tables: Tables, tally: Tally, untrained: Sequence[Tally]
    ) -> dict[str, pd.DataFrame]:
        """The means over layers of untrained models beside those of the model."""
        model, *draws = (
            _over_groups(one.replicates("weight", "segments")) for one in (tally, *untrained)
        )
        columns = untrained_columns(model, draws)
        table = tables["special-tokens-layers"].assign(**{n: v.ravel() for n, v in columns.items()})
        return {**tables, "special-tokens-layers": table}

    def _layer_table(self, replicates: Array) -> pd.DataFrame:
        groups = _over_groups(replicates)  # [replicate, layers, source, target]
        targets = self._targets(groups.shape[-1])
        axes = {"layers": LAYERS, "source": CONTRAST_SOURCES, "target": targets}
        table = tidy_table(axes, _named(estimate(groups, (-1, 1))))
        is_share = ~(table["layers"].str.contains(" - ") | table["source"].str.contains(" - "))
        return table.assign(low=table["low"].mask(is_share, table["low"].clip(lower=0)))

    def _targets(self, n: int) -> list[str]:
        """The names of the first `n` classes; a learned sink comes last, where there is one."""
        return [*classes.class_names(self.token_classes), classes.SINK][:n]

    def _find_special(self, n: int) -> list[int]:
        """Where the special tokens and punctuation are among the first `n` classes."""
        return [i for i, target in enumerate(self._targets(n)) if target in SPECIAL]


def _frequency_table(tally: Tally) -> pd.DataFrame:
    """The share of periods and of commas in all tokens of text, and their rank among tokens."""
    if "marks" not in tally.totals:
        return empty_tables(SpecialTokens.tables)["token-frequency"]
    marks = tally.ratio("marks", "tokens", SHARE)  # [1, mark]
    shares = np.concatenate([marks.value[0], tally.ratio("others", "tokens").value[0]])
    values = {name: part[0] for name, part in zip(FREQUENCY, marks, strict=True)}
    values["rank"] = 1 + (shares > marks.value[0][:, None]).sum(axis=1)
    return tidy_table({"token": list(classes.MARKS)}, values)


def _over_groups(
    replicates: Float[Array, "replicate layer head source target"],
) -> Float[Array, "replicate layers source target"]:
    """The mean of all heads over groups of layers, and the differences of groups and sources."""
    by_layer = replicates.mean(axis=2)  # [replicate, layer, source, target]
    own, rest = align(*(by_layer[:, :, SOURCES.index(name)] for name in ("sep", "other")))
    by_layer = np.concatenate([by_layer, (own - rest)[:, :, None]], axis=2)
    n_layers = by_layer.shape[1]
    none = np.full_like(by_layer[:, 0], np.nan)  # of a model with too few layers
    parts = [over_layers(by_layer, part) if part else none for part in thirds(n_layers)]
    groups = (
        by_layer.mean(axis=1),
        over_layers(by_layer, like_paper(6, 10, n_layers)),
        *parts,
        *(parts[a] - parts[b] for a, b in PAIRS),
    )
    return np.stack(groups, axis=1)


def _named(found: Any) -> dict[str, Any]:
    return dict(zip(WEIGHT, found, strict=True))


def step_rows(
    by_layer: Float[Array, "replicate layer target"], targets: Sequence[str], is_rise: bool
) -> pd.DataFrame:
    """For each target the layer from which on it is higher (or lower), and by how much.

    None of a target that there is not, and of a model of one layer.
    """
    rows = []
    for place, target in enumerate(targets):
        curve = by_layer[..., place]  # [replicate, layer]
        step = find_step(curve, is_rise) if curve[0].max() > 0 else None
        if step is not None:
            layers = range(1, curve.shape[1] + 1)
            sides = [[n for n in layers if (n >= step.layer) == side] for side in (False, True)]
            before, after = (over_layers(curve, side) for side in sides)
            ratio = map(float, ratio_estimate(after, before))
            rows.append((target, *step, float(before[0]), float(after[0]), *ratio))
    return pd.DataFrame(rows, columns=list(STEP_COLUMNS))
