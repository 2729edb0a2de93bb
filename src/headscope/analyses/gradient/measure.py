"""Does attention to special tokens matter? Gradients of the loss by weights (paper, figure 3)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import pandas as pd
import torch
from torch import Tensor

from headscope.analyses.special_tokens import classes
from headscope.contracts import Watch
from headscope.data.attention import LayerGradient
from headscope.data.table import empty_tables, head_axes, tidy_table
from headscope.stats.tally import Tally

__all__ = ["Gradient"]


@dataclass(frozen=True)
class Gradient:
    """Mean |d loss / d weight| over all pairs of tokens, by class of the attended token.

    The loss is that of the model's own training: masked tokens, or the next token. A weight that
    could change without changing the loss does nothing. Pairs that a query cannot see have no
    weight, and do not count.
    """

    token_classes: classes.TokenClasses = classes.token_classes_option()

    name: ClassVar[str] = "gradient"
    watches: ClassVar[Watch] = Watch.GRADIENT
    needs: ClassVar[frozenset[str]] = frozenset()
    tables: ClassVar[dict[str, tuple[str, ...]]] = {
        "gradient": ("layer", "head", "target", "gradient", "low", "high")
    }

    def __post_init__(self) -> None:
        classes.check_classes(self.token_classes)

    def measure(self, gradient: LayerGradient) -> Mapping[str, Tensor]:
        """Sums of gradients' sizes by example, head and target, and how many pairs there are."""
        sizes = gradient.sizes
        # [example, key, target]
        targets = classes.classify(gradient.batch, self.token_classes).to(sizes.dtype)
        seen_by = torch.full_like(targets[:, :, 0], sizes.shape[-2])  # [example, key]
        if gradient.is_visible is not None:
            seen_by = gradient.is_visible.sum(dim=0).to(targets).expand_as(seen_by)
        return {
            "size": sizes.sum(dim=2) @ targets,  # [example, head, target]
            "pairs": seen_by[:, None] @ targets,  # [example, 1, target]
        }

    def summarize(self, tally: Tally) -> dict[str, pd.DataFrame]:
        """Mean over pairs, by head and target."""
        if not tally:
            return empty_tables(self.tables)
        mean = tally.ratio("size", "pairs", within=(0, float("inf")))  # [layer, head, target]
        heads = head_axes(*mean.value.shape[:2])
        axes = {**heads, "target": classes.class_names(self.token_classes)}
        values = {"gradient": mean.value, "low": mean.low, "high": mean.high}
        return {self.name: tidy_table(axes, values)}
