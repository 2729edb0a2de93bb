"""Norm-weighted attention (Kobayashi et al. 2020): weights times the norms of what they weigh.

A head's output at a query is the sum over keys of a[q,k] f(x[k]), where f takes a token's value
vector through the head's part of the output projection. ||a f(x)|| is what a token contributes:
attention to one whose vector is tiny does nothing.
"""

from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from headscope.errors import ModelError
from headscope.models.tap import TapOutput

__all__ = ["NormWeights"]

PROJECTIONS = ("o_proj", "out_proj", "c_proj", "out_lin", "Wo", "wo", "o", "dense", "proj")


@dataclass(frozen=True)
class NormWeights:
    """Turns the weights of a model's layers into shares of norms; rows sum to 1 again."""

    model: nn.Module
    _products: dict[nn.Module, Tensor] = field(default_factory=dict, repr=False)

    def compute(self, output: TapOutput) -> Float[Tensor, "example head query key"]:
        """`||a f(x)||` of every pair of tokens, over its sum along the row."""
        if output.module is None or output.values is None:
            raise ModelError(
                f"{type(self.model).__name__} does not show its value vectors. Expected a model "
                "whose attention goes through transformers' AttentionInterface; measure this one "
                "with --weights attention."
            )
        norms = self._norms(output.module, output.values, output.weights.shape[1])
        weighted = output.weights * norms.to(output.weights.dtype)[:, :, None, :]
        total = weighted.sum(-1, keepdim=True)
        return weighted / total.clamp_min(torch.finfo(total.dtype).tiny)

    def _norms(
        self, module: nn.Module, values: Tensor, n_heads: int
    ) -> Float[Tensor, "example head key"]:
        """||W v|| of every token and head, through W^T W: a product of a head's own small size."""
        values = values.float().repeat_interleave(n_heads // values.shape[1], dim=1)
        if module not in self._products:
            projection = find_projection(self.model, module, n_heads * values.shape[-1])
            heads = projection.float().reshape(len(projection), n_heads, -1)  # [out, head, part]
            self._products[module] = torch.einsum("ohd,ohe->hde", heads, heads)
        squares = torch.einsum("ehkd,hdf,ehkf->ehk", values, self._products[module], values)
        return squares.clamp_min(0).sqrt()


def find_projection(
    model: nn.Module, module: nn.Module, n_inputs: int
) -> Float[Tensor, "output input"]:
    """The output projection of an attention module: a child of it by one of the usual names, or
    `output.dense` beside it, as in BERT and its kin."""
    paths = {child: path for path, child in model.named_modules()}
    parent = model.get_submodule(paths.get(module, "").rpartition(".")[0])
    beside = getattr(getattr(parent, "output", None), "dense", None)
    for child in (*(getattr(module, name, None) for name in PROJECTIONS), beside):
        if isinstance(child, Conv1D) and child.weight.shape[0] == n_inputs:
            return child.weight.detach().T  # GPT-2 stores it the other way round
        if isinstance(child, nn.Linear) and child.in_features == n_inputs:
            return child.weight.detach()
    raise ModelError(
        f"The output projection of {type(module).__name__} cannot be found. Expected a linear "
        f"layer with {n_inputs} inputs named {', '.join(PROJECTIONS)}, or output.dense beside it; "
        "measure the model with --weights attention."
    )
