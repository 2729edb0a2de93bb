"""Language models: which loss a model was trained on, and its value for every example."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    MODEL_FOR_PRETRAINING_MAPPING_NAMES,
)

from headscope.data.encoding import Batch, Encoding, TokenKind
from headscope.errors import ModelError
from headscope.models.loaded import LoadedModel

__all__ = ["Task", "build_task", "find_objective"]

SHARE, MASKED, RANDOM = 0.15, 0.8, 0.1  # BERT's masking; the rest of the chosen stays as it is
STREAM = 0x6D61736B  # so that masks and bootstrap weights of an example are drawn apart


def find_objective(architecture: str) -> str | None:
    """What a model class predicts: "masked" tokens, the "next" token, or None.

    >>> find_objective("BertForMaskedLM"), find_objective("GPT2LMHeadModel")
    ('masked', 'next')
    """
    if architecture in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values():
        return "next"
    masked = (MODEL_FOR_MASKED_LM_MAPPING_NAMES, MODEL_FOR_PRETRAINING_MAPPING_NAMES)
    is_masked = any(architecture in names.values() for names in masked)
    return "masked" if is_masked else None


@dataclass(frozen=True)
class Task:
    """Inputs and loss of a language model, example by example."""

    source: LoadedModel
    objective: str  # "masked" or "next"
    seed: int = 0

    def prepare(self, batch: Batch) -> tuple[dict[str, Tensor], Int[Tensor, "example token"]]:
        """What the model is called with, and the token each place should predict (-100: none)."""
        inputs, ids = dict(batch.inputs), batch.inputs["input_ids"]
        if self.objective == "next":
            return inputs, torch.cat([ids[:, 1:], torch.full_like(ids[:, :1], -100)], dim=1)
        masked, targets = ids.clone(), torch.full_like(ids, -100)
        for row, encoding in enumerate(batch.encodings):
            places, replaced = self._mask(encoding)
            targets[row, places] = ids[row, places]
            masked[row, places] = replaced.to(ids.device)
        return {**inputs, "input_ids": masked}, targets

    def losses(self, inputs: dict[str, Tensor], targets: Tensor) -> Float[Tensor, " example"]:
        """The mean loss of each example over the places that predict."""
        extra = {"use_cache": False} if self.objective == "next" else {}
        output = self.source.model(**inputs, **extra)
        logits = output.logits if "logits" in output else output.prediction_logits
        logits = logits.float() if logits.dtype.itemsize < 4 else logits  # half is too narrow
        losses = nn.functional.cross_entropy(
            logits.flatten(0, 1), targets.flatten(), reduction="none", ignore_index=-100
        ).view_as(targets)
        n_places = (targets != -100).sum(dim=1)
        return losses.sum(dim=1) / n_places.clamp(min=1)

    def _mask(self, encoding: Encoding) -> tuple[Tensor, Tensor]:
        """Chosen places and what stands there instead, by the seed and the example's id alone."""
        tokenizer = self.source.encoder.tokenizer
        key = [self.seed ^ STREAM, encoding.example.key]
        rng = np.random.Generator(np.random.Philox(key=key))
        text = np.flatnonzero(encoding.kinds == TokenKind.TEXT)
        n_chosen = max(1, round(SHARE * len(text)))
        places = rng.permutation(text)[:n_chosen]
        draw, random_ids = rng.random(n_chosen), rng.integers(len(tokenizer), size=n_chosen)
        own = encoding.inputs["input_ids"][places]
        replaced = np.where(draw < MASKED + RANDOM, random_ids, own)
        replaced = np.where(draw < MASKED, tokenizer.mask_token_id, replaced)
        return torch.from_numpy(places), torch.from_numpy(replaced)


def build_task(source: LoadedModel, seed: int = 0) -> Task:
    """The task of a model with a language-modelling head; an error for one without."""
    architecture = type(source.model).__name__
    objective = find_objective(architecture)
    if objective is None:
        raise ModelError(
            f"{source.name} ({architecture}) has no language-modelling head, so there is no loss "
            "to take gradients of. Expected a masked or causal language model."
        )
    if objective == "masked" and source.encoder.tokenizer.mask_token_id is None:
        raise ModelError(
            f"The tokenizer of {source.name} has no mask token, which its loss needs. Expected a "
            "masked language model with its own tokenizer."
        )
    return Task(source, objective, seed)
