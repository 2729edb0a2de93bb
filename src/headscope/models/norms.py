"""Norm-weighted attention (Kobayashi et al. 2020): weights times the norms of what they weigh.

A head's output at a query is the sum over keys of a[q,k] f(x[k]), where f takes a token's value
vector through the head's part of the output projection. ||a f(x)|| is what a token contributes:
attention to one whose vector is tiny does nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from headscope.errors import ModelError
from headscope.models.anatomy import is_close, run
from headscope.models.tap import TapOutput, observe_tap

__all__ = ["NormWeights", "find_projections"]

Projections = Mapping[nn.Module, Float[Tensor, "output input"]]  # by the module that attends


@dataclass(frozen=True)
class NormWeights:
    """Turns the weights of a model's layers into shares of norms; rows sum to 1 again."""

    projections: Projections = field(repr=False)
    _products: dict[nn.Module, Tensor] = field(default_factory=dict, repr=False)

    def compute(self, output: TapOutput) -> Float[Tensor, "example head query key"]:
        """`||a f(x)||` of every pair of tokens, over its sum along the row.

        A row that adds nothing at all keeps its weights.
        """
        assert output.module is not None  # of the tap, by which the projections were found
        assert output.values is not None
        norms = self._norms(output.module, output.values, output.weights.shape[1])
        weighted = output.weights * norms.to(output.weights.dtype)[:, :, None, :]
        total = weighted.sum(-1, keepdim=True)
        shares = weighted / total.clamp_min(torch.finfo(total.dtype).tiny)
        return torch.where(total > 0, shares, output.weights)

    def _norms(
        self, module: nn.Module, values: Tensor, n_heads: int
    ) -> Float[Tensor, "example head key"]:
        """||W v|| of every token and head, through W^T W: a product of a head's own small size."""
        values = values.float().repeat_interleave(n_heads // values.shape[1], dim=1)
        if module not in self._products:
            projection = self.projections[module].float()
            heads = projection.reshape(len(projection), n_heads, -1)  # [out, head, part]
            self._products[module] = torch.einsum("ohd,ohe->hde", heads, heads)
        squares = torch.einsum("ehkd,hdf,ehkf->ehk", values, self._products[module], values)
        return squares.clamp_min(0).sqrt()


def find_projections(model: PreTrainedModel, inputs: Mapping[str, Tensor]) -> Projections:
    """The output projection of each module that attends, found by running the model.

    It is the first linear layer to take what the heads give, as it is. Where something stands
    between them, as a gate or a norm, there is none, and what a token adds is not known.
    """
    attended: list[TapOutput] = []
    found: dict[nn.Module, Tensor] = {}

    def look(linear: Any, entering: tuple[Any, ...]) -> None:
        output = attended[-1] if attended else None
        if output is None or output.module is None or output.module in found or not entering:
            return
        assert output.output is not None
        expected = output.output.flatten(2)  # [example, query, input]
        if entering[0].numel() == expected.numel() and is_close(
            entering[0].reshape(expected.shape), expected, model.dtype
        ):
            weight = linear.weight.detach()
            is_transposed = isinstance(linear, Conv1D)  # as GPT-2 stores it
            found[output.module] = weight.T if is_transposed else weight

    linears = [module for module in model.modules() if isinstance(module, (nn.Linear, Conv1D))]
    hooks = [linear.register_forward_pre_hook(look) for linear in linears]
    try:
        run(observe_tap, model, inputs, attended.append)
    finally:
        for hook in hooks:
            hook.remove()
    missing = {type(o.module).__name__ for o in attended if o.module not in found}
    if missing:
        raise ModelError(
            f"--weights norm cannot be used with {type(model).__name__}: something stands between "
            f"the heads of {' and '.join(sorted(missing))} and their projection, such as a gate or "
            "a norm. Expected a linear layer that takes the heads' output; use --weights attention."
        )
    return found
