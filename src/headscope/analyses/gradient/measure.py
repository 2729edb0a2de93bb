"""Does attention to special tokens matter? Gradients of the loss by weights (paper, figure 3)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from headscope.analyses.special_tokens import classes
from headscope.analyses.special_tokens.measure import STEP_COLUMNS, step_rows
from headscope.contracts import Analysis, Watch
from headscope.data.attention import LayerGradient
from headscope.data.depth import like_paper
from headscope.data.table import empty_tables, head_axes, tidy_table
from headscope.stats.contrast import over_layers, ratio_estimate
from headscope.stats.tally import Tally

__all__ = ["UPPER", "Gradient"]

UPPER = "5-12 of 12"  # layers, scaled to the depth of the model
LAYERS = ["all", UPPER]
RATIO = ("ratio", "low", "high")

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Gradient(Analysis):
    """Mean |d loss / d weight| over all pairs of tokens, by class of the attended token.

    The loss is that of the model's own training: masked tokens, or the next token. A weight that
    could change without changing the loss does nothing. Pairs that a query cannot see have no
    weight, and do not count.
    """

    token_classes: classes.TokenClasses = classes.token_classes_option()

    name: ClassVar[str] = "gradient"
    watches: ClassVar[Watch] = Watch.GRADIENT
    weighs_documents: ClassVar[bool] = True
    tables: ClassVar[dict[str, tuple[str, ...]]] = {
        "gradient": ("layer", "head", "target", "gradient", "low", "high"),
        "gradient-layers": ("layers", "target", "gradient", *RATIO),
        "gradient-steps": STEP_COLUMNS,
    }

    def __post_init__(self) -> None:
        classes.check_classes(self.token_classes)

    def measure(self, gradient: LayerGradient) -> Mapping[str, Tensor]:
        """Sums of gradients' sizes by example, head and target, and how many pairs there are."""
        sizes = gradient.column_sums()  # [example, head, key]
        # [example, key, target]
        targets = classes.classify(gradient.batch, self.token_classes).to(sizes.dtype)
        seen_by = torch.full_like(targets[:, :, 0], gradient.sizes.shape[-2])  # [example, key]
        if gradient.is_visible is not None:
            seen_by = gradient.is_visible.sum(dim=0).to(targets).expand_as(seen_by)
        pairs = seen_by[:, None] @ targets  # [example, 1, target]
        return {"size": sizes @ targets, "pairs": pairs}  # size: [example, head, target]

    def summarize(self, tally: Tally) -> dict[str, pd.DataFrame]:
        """Mean over pairs, by head and target; then over heads, beside the other tokens' one.

        Last, for each target the layer from which on the gradients are smaller.
        """
        if not tally:
            return empty_tables(self.tables)
        mean = tally.ratio("size", "pairs", (0, float("inf")))  # [layer, head, target]
        targets = classes.class_names(self.token_classes)
        axes = {**head_axes(*mean.value.shape[:2]), "target": targets}
        values = dict(zip(("gradient", "low", "high"), mean, strict=True))
        by_layer = tally.replicates("size", "pairs").mean(axis=2)  # [replicate, layer, target]
        return {
            self.name: tidy_table(axes, values),
            "gradient-layers": _layer_table(by_layer, targets),
            "gradient-steps": step_rows(by_layer, targets, is_rise=False),
        }


def _layer_table(
    by_layer: Float[Array, "replicate layer target"], targets: Sequence[str]
) -> pd.DataFrame:
    """The mean over groups of layers, and beside that of other tokens."""
    groups = _over_groups(by_layer)  # [replicate, layers, target]
    other = np.broadcast_to(groups[..., targets.index("other"), None], groups.shape)
    values = (groups[0], *ratio_estimate(groups, other))
    columns = dict(zip(("gradient", *RATIO), values, strict=True))
    return tidy_table({"layers": LAYERS, "target": targets}, columns)


def _over_groups(
    by_layer: Float[Array, "replicate layer target"],
) -> Float[Array, "replicate layers target"]:
    upper = over_layers(by_layer, like_paper(5, 12, by_layer.shape[1]))
    return np.stack([by_layer.mean(axis=1), upper], axis=1)
