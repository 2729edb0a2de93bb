"""What a model answers, example by example: its loss, or without a head its hidden states."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headscope.data.encoding import Batch
from headscope.models.language import Task
from headscope.models.loaded import LoadedModel

__all__ = ["Answers", "HiddenAnswers", "LossAnswers"]

Inputs = Mapping[str, Tensor]


class Answers(Protocol):
    """How to ask a model, and how far two answers are apart."""

    @property
    def source(self) -> LoadedModel: ...

    @property
    def effect(self) -> str:
        """The name of what is compared."""

    def ask(self, batch: Batch) -> dict[str, Tensor]:
        """What the answer needs, each array by example."""

    def answer(self, asked: Inputs) -> Tensor:
        """The model's answer; the first axis is the example."""

    def change(self, before: Tensor, after: Tensor) -> Float[Tensor, " example"]:
        """How far the second answer of each example is from the first."""

    def size(self, answer: Tensor) -> Float[Tensor, " example"]:
        """The answer in a number, to compare changes with."""


@dataclass(frozen=True)
class LossAnswers:
    """The loss of a language model: a change above 0 is a worse prediction."""

    task: Task
    effect: str = "loss"

    @property
    def source(self) -> LoadedModel:
        return self.task.source

    def ask(self, batch: Batch) -> dict[str, Tensor]:
        """Inputs, masked where the loss is that of masked tokens, and targets."""
        inputs, targets = self.task.prepare(batch)
        return {**inputs, "targets": targets}

    def answer(self, asked: Inputs) -> Float[Tensor, " example"]:
        """The mean loss of each example."""
        inputs = {name: value for name, value in asked.items() if name != "targets"}
        return self.task.losses(inputs, asked["targets"])

    def change(self, before: Tensor, after: Tensor) -> Float[Tensor, " example"]:
        """How much the loss grows."""
        return after - before

    def size(self, answer: Tensor) -> Float[Tensor, " example"]:
        """The loss itself."""
        return answer


@dataclass(frozen=True)
class HiddenAnswers:
    """The final hidden states of a model without a head."""

    source: LoadedModel
    effect: str = "cosine"

    def ask(self, batch: Batch) -> dict[str, Tensor]:
        """The inputs as they are."""
        return dict(batch.inputs)

    def answer(self, asked: Inputs) -> Float[Tensor, "example token hidden"]:
        """The hidden states of the last layer."""
        hidden: Tensor = self.source.model(**asked).last_hidden_state
        return hidden

    def change(self, before: Tensor, after: Tensor) -> Float[Tensor, " example"]:
        """1 - cosine, the mean over tokens."""
        return (1 - nn.functional.cosine_similarity(before, after, dim=-1)).mean(-1)

    def size(self, answer: Tensor) -> Float[Tensor, " example"]:
        """1: the cosine of hidden states with themselves."""
        return torch.ones(len(answer), device=answer.device)
