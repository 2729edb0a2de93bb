"""Does attention to special tokens matter? Gradients of the loss by weights (paper, figure 3)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
import xarray as xr
from torch import Tensor

from headscope.analyses.special_tokens import classes
from headscope.analyses.special_tokens.measure import STEP_COLUMNS, step_rows
from headscope.contracts import Analysis, Watch
from headscope.data.attention import Gradients
from headscope.data.depth import like_paper
from headscope.stats.contrast import ratio_estimate
from headscope.stats.estimates import AT_LEAST_0, Estimates, Number, Summary, mean_over_layers
from headscope.stats.interval import Estimate
from headscope.stats.sums import REPLICATE, Sums

__all__ = ["UPPER", "Gradient"]

UPPER = "5-12 of 12"  # layers, scaled to the depth of the model


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
    sums: ClassVar[dict[str, str]] = {"size": "layer head target", "pairs": "layer target"}
    tables: ClassVar[dict[str, tuple[str, ...]]] = {
        "gradient": ("layer", "head", "target", "gradient", "low", "high"),
        "gradient-layers": ("layers", "target", "gradient", "ratio", "low", "high"),
        "gradient-steps": STEP_COLUMNS,
    }

    def __post_init__(self) -> None:
        classes.check_classes(self.token_classes)

    @property
    def labels(self) -> dict[str, Sequence[str]]:
        return {"target": classes.class_names(self.token_classes)}

    def measure(self, seen: Gradients) -> Mapping[str, Tensor]:
        """Sums of gradients' sizes by head and target, and how many pairs there are."""
        sizes = seen.sizes  # [example, layer, head, key]
        targets = classes.classify(seen.batch, self.token_classes).to(sizes.dtype)
        pairs = torch.einsum("lk,ekt->elt", seen.seen_by, targets)
        return {"size": sizes @ targets[:, None], "pairs": pairs}  # [example, layer, head, target]

    def summarize(self, sums: Sums) -> Mapping[str, Summary]:
        """Mean over pairs, by head and target; then over heads, beside the other tokens' one.

        Last, for each target the layer from which on the gradients are smaller.
        """
        size = sums.mean("size", "pairs")  # [replicate, layer, head, target]
        by_layer = size.mean("head", skipna=False)
        return {
            self.name: Estimates({"gradient": Number(size, AT_LEAST_0)}),
            "gradient-layers": _layer_table(by_layer),
            "gradient-steps": step_rows(
                by_layer.values, by_layer.target.values.tolist(), is_rise=False
            ),
        }


def _layer_table(by_layer: xr.DataArray) -> Estimates:
    """The mean over groups of layers, and beside that of other tokens."""
    n_layers = by_layer.sizes["layer"]
    named = {"all": range(1, n_layers + 1), UPPER: like_paper(5, 12, n_layers)}
    groups = mean_over_layers(by_layer, named)  # [replicate, layers, target]
    other = groups.sel(target="other").broadcast_like(groups).transpose(*groups.dims)
    first = groups.isel({REPLICATE: 0})
    ratio = (first.copy(data=part) for part in ratio_estimate(groups.values, other.values))
    return Estimates({"gradient": first, "ratio": Estimate(*ratio)})
