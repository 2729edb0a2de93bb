"""Attention to special tokens and punctuation, and from special tokens (paper, section 3.2)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import pandas as pd
import torch
from torch import Tensor

from headscope.analyses.special_tokens import classes
from headscope.contracts import Watch
from headscope.data.attention import LayerAttention
from headscope.data.encoding import TokenKind
from headscope.data.table import empty_tables, head_axes, tidy_table
from headscope.stats.ranking import Values
from headscope.stats.tally import Tally

__all__ = ["SpecialTokens"]

SOURCES = ["all", "sep", "other"]


@dataclass(frozen=True)
class SpecialTokens:
    """Mean attention by class of the attended token, from all rows, from `sep` and from the rest.

    "cls" and "sep" are the special tokens that open and close the model's input, whatever they are
    called; "first" is the first token where it is an ordinary one; "punctuation" is "." and ",", as
    in the paper. `token_classes` adds the user's own (name -> tokens as text); they come before
    punctuation, so that every token has one class and the weights of a source sum to 1. Per
    segment the mean over its rows; then over segments that have such rows.
    """

    token_classes: classes.TokenClasses = classes.token_classes_option()

    name: ClassVar[str] = "special-tokens"
    watches: ClassVar[Watch] = Watch.ATTENTION
    needs: ClassVar[frozenset[str]] = frozenset()
    measures_cross: ClassVar[bool] = True
    tables: ClassVar[dict[str, tuple[str, ...]]] = {
        "special-tokens": ("layer", "head", "source", "target", "weight", "low", "high")
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
        return {
            "weight": mass / n_rows.clamp(min=1)[:, None, :, None],
            "segments": (n_rows > 0).to(weights.dtype)[:, None, :],  # [example, 1, source]
        }

    def rank(self, values: Mapping[str, Values]) -> dict[str, Values]:
        """The weight from all rows, by class."""
        targets = classes.class_names(self.token_classes)
        return {target: values["weight"][..., 0, i] for i, target in enumerate(targets)}

    def summarize(self, tally: Tally) -> dict[str, pd.DataFrame]:
        """Mean over segments, by head, source and target."""
        if not tally:
            return empty_tables(self.tables)
        weight = tally.ratio("weight", "segments")  # [layer, head, source, target]
        heads = head_axes(*weight.value.shape[:2])
        axes = {**heads, "source": SOURCES, "target": classes.class_names(self.token_classes)}
        values = {"weight": weight.value, "low": weight.low, "high": weight.high}
        return {self.name: tidy_table(axes, values)}
