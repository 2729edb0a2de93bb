"""What a language model predicts when sets of heads are switched off, each set at once."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool
from torch import Tensor

from headscope.contracts import Watch
from headscope.data.attention import HeadSetLosses
from headscope.data.encoding import Batch
from headscope.models.ablation import switched_off
from headscope.models.language import Task
from headscope.models.loaded import LoadedModel, ModelView

__all__ = ["HeadSetSource"]


@dataclass(frozen=True)
class HeadSetSource(ModelView):
    """A language model that shows the loss of every token without sets of heads (set to zero)."""

    emits: ClassVar[Watch] = Watch.HEAD_SETS
    task: Task
    sets: Bool[Tensor, "set layer head"]

    @property
    def model(self) -> LoadedModel:
        return self.task.source

    def attend(self, batch: Batch, observe: Callable[[HeadSetLosses], None]) -> None:
        """Run the model once for each set."""
        runs = []
        for members in self.sets:
            heads = [(layer, head) for layer, head in members.nonzero().tolist()]
            with switched_off(self.model, batch, heads, "zero"):
                runs.append(self.task.predict_inputs(batch.inputs))
        losses, is_best = (torch.stack(part, dim=1) for part in zip(*runs, strict=True))
        observe(HeadSetLosses(losses, is_best, self.sets, batch))
