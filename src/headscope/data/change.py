"""What becomes of a model's answer when heads of one layer are altered, one at a time."""

from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor

from headscope.data.encoding import Batch

__all__ = ["LayerChange"]


@dataclass(frozen=True, eq=False)
class LayerChange:
    """The change of each example's answer by altering each head of a layer in each way.

    `effect` says what the answer is: the "loss" of a language model, or the "cosine" of the final
    hidden states with those of the model as it is (the change is then 1 - cosine).
    """

    layer: int
    changes: Float[Tensor, "example head mode"]  # 0 where a head was not asked for
    is_measured: Bool[Tensor, " head"]
    base: Float[Tensor, " example"]  # the answer of the model as it is
    effect: str
    batch: Batch

    @property
    def weights(self) -> Float[Tensor, "example head mode 1"]:
        """The changes in the shape of maps, which the engine checks for what is no number."""
        return self.changes[..., None]
