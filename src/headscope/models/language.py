"""What a model predicts, example by example: its own training loss, or its hidden states."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers.models.auto import modeling_auto as auto

from headscope.data.attention import Predictions
from headscope.data.encoding import Batch, Encoding, TokenKind
from headscope.errors import ModelError
from headscope.models.anatomy import eval_mode
from headscope.models.loaded import LoadedModel
from headscope.models.tap import at_least_float32, using_attention

__all__ = [
    "PREDICTED_TOKENS", "HiddenStateOutcome", "LossOutcome", "Outcome", "Task", "build_task",
    "find_objective",
]  # fmt: skip

Inputs = Mapping[str, Tensor]

SHARE, MASKED, RANDOM = 0.15, 0.8, 0.1  # BERT's masking; the rest of the chosen stays as it is
PREDICTED_TOKENS = 1024  # at a time, each with a logit for every word of the vocabulary
STREAM = 0x6D61736B  # so that masks and sampled rows of an example are drawn apart


def find_objective(architecture: str) -> str | None:
    """What a model class predicts: "masked" tokens, the "next" token, or None.

    >>> find_objective("BertForMaskedLM"), find_objective("GPT2LMHeadModel")
    ('masked', 'next')
    """
    if architecture in auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values():
        return "next"
    masked = (auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES, auto.MODEL_FOR_PRETRAINING_MAPPING_NAMES)
    return "masked" if any(architecture in names.values() for names in masked) else None


@dataclass(frozen=True)
class Task:
    """Inputs and loss of a language model, example by example."""

    source: LoadedModel
    objective: str  # "masked" or "next"
    seed: int = 0

    def prepare(self, batch: Batch) -> tuple[dict[str, Tensor], Int[Tensor, "example token"]]:
        """What the model is called with, and the token to predict at each position (-100: none)."""
        inputs, ids = dict(batch.inputs), batch.inputs["input_ids"]
        if self.objective == "next":
            return inputs, torch.cat([ids[:, 1:], torch.full_like(ids[:, :1], -100)], dim=1)
        masked, targets = ids.clone(), torch.full_like(ids, -100)
        for row, encoding in enumerate(batch.encodings):
            positions, replaced = self._mask(encoding)
            targets[row, positions] = ids[row, positions]
            masked[row, positions] = replaced.to(ids.device)
        return {**inputs, "input_ids": masked}, targets

    def explain_unusable(self, encoding: Encoding) -> str:
        """Why an example has no loss; empty: it has one."""
        is_next = self.objective == "next"
        n_predicted = len(encoding) - 1 if is_next else (encoding.kinds == TokenKind.TEXT).sum()
        return "" if n_predicted > 0 else "no token to predict"

    def losses(self, inputs: Inputs, targets: Tensor) -> Float[Tensor, " example"]:
        """The mean loss of each example over the positions that predict; NaN where none does."""
        extra = {"use_cache": False} if self.objective == "next" else {}
        output = self.source.model(**inputs, **extra)
        logits = at_least_float32(output.logits if "logits" in output else output.prediction_logits)
        losses = nn.functional.cross_entropy(
            logits.flatten(0, 1), targets.flatten(), reduction="none", ignore_index=-100
        ).view_as(targets)
        return losses.sum(dim=1) / (targets != -100).sum(dim=1)

    def predict(self, batch: Batch) -> Predictions:
        """The loss of every token but the first, of a model that predicts the next one.

        A few examples at a time: there is a number for each word of the vocabulary.
        """
        model = self.source.model
        with using_attention(model, "eager"), eval_mode(model), torch.inference_mode():
            return self.predict_inputs(batch.inputs)

    def predict_inputs(self, inputs: Inputs) -> Predictions:
        """The same of the model as it is called now."""
        parts: list[Predictions] = []
        n_examples, n_tokens = inputs["input_ids"].shape
        n_together = max(1, PREDICTED_TOKENS // n_tokens)
        for start in range(0, n_examples, n_together):
            some = {name: value[start : start + n_together] for name, value in inputs.items()}
            logits = self.source.model(**some, use_cache=False).logits[:, :-1]
            targets = some["input_ids"][:, 1:]
            losses = nn.functional.cross_entropy(
                at_least_float32(logits).transpose(1, 2), targets, reduction="none"
            )
            pair = (losses, logits.argmax(-1) == targets)
            parts.append(Predictions(*(nn.functional.pad(part, (1, 0)) for part in pair)))
        return Predictions(*(torch.cat(part) for part in zip(*parts, strict=True)))

    def _mask(self, encoding: Encoding) -> tuple[Tensor, Tensor]:
        tokenizer = self.source.encoder.tokenizer
        key = [self.seed ^ STREAM, encoding.example.key]
        rng = np.random.Generator(np.random.Philox(key=key))
        text = np.flatnonzero(encoding.kinds == TokenKind.TEXT)
        n_chosen = max(1, round(SHARE * len(text)))
        positions = rng.permutation(text)[:n_chosen]
        draw, random_ids = rng.random(n_chosen), rng.integers(len(tokenizer), size=n_chosen)
        replaced = np.where(
            draw < MASKED + RANDOM, random_ids, encoding.inputs["input_ids"][positions]
        )
        replaced = np.where(draw < MASKED, tokenizer.mask_token_id, replaced)
        return torch.from_numpy(positions), torch.from_numpy(replaced)


def build_task(source: LoadedModel, seed: int = 0) -> Task:
    """The task of a model with a language-modelling head; an error for one without."""
    architecture = type(source.model).__name__
    objective = find_objective(architecture)
    if objective is None:
        raise ModelError(
            f"{source.name} ({architecture}) has no language-modelling head. Expected a masked "
            "or causal language model; choose one, or leave the analysis out."
        )
    if objective == "masked" and source.encoder.tokenizer.mask_token_id is None:
        raise ModelError(
            f"The tokenizer of {source.name} has no mask token, which its loss needs. Expected a "
            "masked language model with its own tokenizer; save both in one folder."
        )
    return Task(source, objective, seed)


@dataclass(frozen=True)
class LossOutcome:
    """The loss of a language model: a difference above 0 is a worse prediction."""

    task: Task
    effect: str = "loss"  # the name of what is compared

    @property
    def source(self) -> LoadedModel:
        return self.task.source

    def explain_unusable(self, encoding: Encoding) -> str:
        """Why an example has no outcome; empty: it has one."""
        return self.task.explain_unusable(encoding)

    def prepare(self, batch: Batch) -> dict[str, Tensor]:
        """What the outcome is computed from, each array by example."""
        inputs, targets = self.task.prepare(batch)
        return {**inputs, "targets": targets}

    def evaluate(self, inputs: Inputs) -> Float[Tensor, " example"]:
        """The outcome: the mean loss of each example."""
        given = {name: value for name, value in inputs.items() if name != "targets"}
        return self.task.losses(given, inputs["targets"])

    def difference(self, before: Tensor, after: Tensor) -> Float[Tensor, " example"]:
        """How far the second outcome of each example is from the first: how much the loss grows."""
        return after - before

    def magnitude(self, outcome: Tensor) -> Float[Tensor, " example"]:
        """The outcome as a number, to compare differences with."""
        return outcome


@dataclass(frozen=True)
class HiddenStateOutcome:
    """The final hidden states of a model without a head, with the methods of `LossOutcome`."""

    source: LoadedModel
    effect: str = "cosine"

    def explain_unusable(self, encoding: Encoding) -> str:
        return ""

    def prepare(self, batch: Batch) -> dict[str, Tensor]:
        return dict(batch.inputs)

    def evaluate(self, inputs: Inputs) -> Float[Tensor, "example token hidden"]:
        return at_least_float32(self.source.model(**inputs).last_hidden_state)

    def difference(self, before: Tensor, after: Tensor) -> Float[Tensor, " example"]:
        """1 - cosine, the mean over tokens."""
        return (1 - nn.functional.cosine_similarity(before, after, dim=-1)).mean(-1)

    def magnitude(self, outcome: Tensor) -> Float[Tensor, " example"]:
        """1: the cosine of hidden states with themselves."""
        return torch.ones(len(outcome), device=outcome.device)


Outcome = LossOutcome | HiddenStateOutcome
