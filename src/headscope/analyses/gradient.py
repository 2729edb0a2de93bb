"""Does attention to special tokens matter? Gradients of the loss by weights (paper, figure 3)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import pandas as pd
import torch
from torch import Tensor

from headscope.analyses.token_classes import Classes, check_classes, class_names, classify
from headscope.data.attention import LayerAttention
from headscope.data.table import empty_tables, head_axes, tidy_table
from headscope.data.tally import Tally

__all__ = ["Gradient"]


@dataclass(frozen=True)
class Gradient:
    """Mean |d loss / d weight| over all pairs of tokens, by class of the attended token.

    The loss is that of the model's own training: masked tokens, or the next token. A weight that
    could change without changing the loss does nothing. Pairs that a query cannot see have no
    weight, and do not count.
    """

    classes: Classes = field(default_factory=dict)

    name: ClassVar[str] = "gradient"
    needs: ClassVar[frozenset[str]] = frozenset()
    watches: ClassVar[str] = "gradients"
    tables: ClassVar[dict[str, tuple[str, ...]]] = {
        "gradient": ("layer", "head", "target", "gradient", "low", "high")
    }

    def __post_init__(self) -> None:
        check_classes(self.classes)

    def measure(self, attention: LayerAttention) -> Mapping[str, Tensor]:
        """Sums of gradients' sizes by example, head and target, and how many pairs there are."""
        sizes = attention.weights
        targets = classify(attention.batch, self.classes).to(sizes.dtype)  # [example, key, target]
        seen_by = torch.full_like(targets[:, :, 0], sizes.shape[-2])  # [example, key]
        if attention.is_visible is not None:
            seen_by = attention.is_visible.sum(dim=0).to(targets).expand_as(seen_by)
        return {
            "size": sizes.sum(dim=2) @ targets,  # [example, head, target]
            "pairs": (seen_by[:, None] @ targets),  # [example, 1, target]
        }

    def summarize(self, tally: Tally) -> dict[str, pd.DataFrame]:
        """Mean over pairs, by head and target."""
        if not tally:
            return empty_tables(self.tables)
        mean = tally.ratio("size", "pairs")  # [layer, head, target]
        n_layers, n_heads, _ = mean.value.shape
        axes = {**head_axes(n_layers, n_heads), "target": class_names(self.classes)}
        return {
            self.name: tidy_table(
                axes, {"gradient": mean.value, "low": mean.low, "high": mean.high}
            )
        }
