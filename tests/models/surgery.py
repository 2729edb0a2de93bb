"""A model's output projections by name, apart from how headscope finds them."""

from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

__all__ = ["find_projection"]

PROJECTIONS = ("o_proj", "out_proj", "c_proj", "out_lin", "Wo", "wo", "o", "dense", "proj")


def find_projection(model: nn.Module, module: nn.Module, n_inputs: int) -> Tensor:
    """The output projection `[output, input]` of an attention module: a child of it by one of the
    usual names, or `output.dense` beside it, as in BERT and its kin."""
    paths = {child: path for path, child in model.named_modules()}
    parent = model.get_submodule(paths.get(module, "").rpartition(".")[0])
    beside = getattr(getattr(parent, "output", None), "dense", None)
    for child in (*(getattr(module, name, None) for name in PROJECTIONS), beside):
        if isinstance(child, Conv1D) and child.weight.shape[0] == n_inputs:
            return child.weight.detach().T  # GPT-2 stores it the other way round
        if isinstance(child, nn.Linear) and child.in_features == n_inputs:
            return child.weight.detach()
    raise LookupError(f"{type(module).__name__} has no projection of {n_inputs} inputs")
