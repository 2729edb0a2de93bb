"""Attention to special tokens and punctuation, and from special tokens (paper, section 3.2)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from headscope.analyses.special_tokens import classes
from headscope.contracts import Watch
from headscope.data.attention import LayerAttention
from headscope.data.encoding import TokenKind
from headscope.data.table import empty_tables, head_axes, tidy_table
from headscope.stats.ranking import Values
from headscope.stats.tally import SHARE, Tally, segment_means

__all__ = ["SpecialTokens"]

SOURCES = ["all", "sep", "other"]


@dataclass(frozen=True)
class SpecialTokens:
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
    watches: ClassVar[Watch] = Watch.ATTENTION
    needs: ClassVar[frozenset[str]] = frozenset()
    measures_cross: ClassVar[bool] = True
    tables: ClassVar[dict[str, tuple[str, ...]]] = {
        "special-tokens": (
            *("layer", "head", "source", "target", "weight", "low", "high", "effective"),
        ),
        "token-frequency": ("token", "share", "low", "high", "rank"),
    }

    def __post_init__(self) -> None:
        classes.check_classes(self.token_classes)

    def measure(self, attention: LayerAttention) -> Mapping[str, Tensor]:
        """Mean attention by example, head, source and target, and which sources there are."""
        weights, batch = attention.weights, attention.batch
        targets = classes.classify(attention.keys, self.token_classes).to(
            weights.dtype
        )  # [example, key, target]
        is_sep = (batch.kinds == TokenKind.SEP).to(weights.dtype)  # [example, query]
        rows = torch.stack([torch.ones_like(is_sep), is_sep, 1 - is_sep], dim=1)
        # rows: [example, source, query]; the first product reads the maps once and shrinks them
        from_rows = rows[:, None] @ weights  # [example, head, source, key]
        mass = from_rows @ targets[:, None]  # [example, head, source, target]
        n_rows = rows.sum(-1)  # [example, source]
        once = batch.remember("token counts", lambda: classes.count_tokens(batch))
        weight = mass / n_rows.clamp(min=1)[:, None, :, None]
        has_rows = (n_rows > 0).to(weights.dtype)[:, None, :]  # [example, 1, source]
        if attention.has_sink:
            missing = (has_rows - weight.sum(-1)).clamp_min(0)  # [example, head, source]
            weight = torch.cat([weight, missing[..., None]], dim=-1)
        counts = once if attention.layer == 0 else {}
        return {**counts, **segment_means("weight", weight), "segments": has_rows}

    def rank(self, values: Mapping[str, Values]) -> dict[str, Values]:
        """The weight from all rows, by class."""
        targets = self._targets(values["weight"].shape[-1])
        return {target: values["weight"][..., 0, i] for i, target in enumerate(targets)}

    def summarize(self, tally: Tally) -> dict[str, pd.DataFrame]:
        """Mean over segments, by head, source and target; how frequent periods and commas are."""
        if not tally:
            return empty_tables(self.tables)
        weight = tally.mean("weight", within=SHARE)  # [layer, head, source, target]
        heads = head_axes(*weight.value.shape[:2])
        axes = {**heads, "source": SOURCES, "target": self._targets(weight.value.shape[-1])}
        columns = dict(zip(self.tables[self.name][4:], weight, strict=True))
        return {self.name: tidy_table(axes, columns), "token-frequency": _frequency_table(tally)}

    def _targets(self, n: int) -> list[str]:
        """The names of the first `n` classes; a learned sink comes last, where there is one."""
        return [*classes.class_names(self.token_classes), classes.SINK][:n]


def _frequency_table(tally: Tally) -> pd.DataFrame:
    """The share of periods and of commas in all tokens of text, and their rank among tokens."""
    marks = tally.ratio("marks", "tokens", within=SHARE)  # [1, mark]
    shares = np.concatenate([marks.value[0], tally.ratio("others", "tokens").value[0]])
    values = {name: part[0] for name, part in zip(("share", "low", "high"), marks, strict=True)}
    values["rank"] = 1 + (shares > marks.value[0][:, None]).sum(axis=1)
    return tidy_table({"token": list(classes.MARKS)}, values)
