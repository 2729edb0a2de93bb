"""Questions about mentions, and what attention answers: which word is the antecedent?"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from headscope.analyses.antecedent_rules import SYSTEMS
from headscope.data.attention import LayerAttention
from headscope.data.encoding import Batch
from headscope.data.example import Example
from headscope.data.mention import Mention
from headscope.data.words import pool_words, word_weights

__all__ = ["CANDIDATES", "DIRECTIONS", "Asked", "Questions", "build_questions", "measure_groups"]

CANDIDATES = ["mentions", "words"]
DIRECTIONS = ["mention-to-antecedent", "antecedent-to-mention"]


class Asked(NamedTuple):
    """A mention to resolve, what it may refer back to (nearest first), and what is right."""

    mention: Mention
    candidates: Sequence[Mention]
    answers: frozenset[int]  # head words
    groups: Sequence[str]  # what the question counts for


class Questions(NamedTuple):
    """The questions of a batch; examples with fewer than the most have some that count nowhere."""

    words: Int[Tensor, "example question"]  # the head word that asks
    may_be: Bool[Tensor, "example candidates question word"]  # what competes, by CANDIDATES
    is_right: Bool[Tensor, "example question word"]
    counts_for: Float[Tensor, "example question group"]
    baselines: Float[Tensor, "example group system"]  # right answers of SYSTEMS


Ask = Callable[[Example, Bool[NDArray[np.bool_], " word"]], Iterable[Asked]]


def build_questions(batch: Batch, ask: Ask, groups: Sequence[str]) -> Questions:
    """The questions that `ask` puts to each example, given which of its words have tokens."""
    has_tokens = pool_words(batch).has_tokens.cpu().numpy()
    n_examples, n_words = has_tokens.shape
    asked = [list(ask(e.example, has_tokens[i])) for i, e in enumerate(batch.encodings)]
    shape = (n_examples, max(map(len, asked)))
    words = np.zeros(shape, np.int64)
    may_be = np.zeros((n_examples, len(CANDIDATES), shape[1], n_words), bool)
    is_right = np.zeros((*shape, n_words), bool)
    counts_for = np.zeros((*shape, len(groups)))
    baselines = np.zeros((n_examples, len(groups), len(SYSTEMS)))
    for i, questions in enumerate(asked):
        forms = batch.encodings[i].example.words or ()
        for j, (mention, candidates, answers, names) in enumerate(questions):
            words[i, j] = mention.head
            may_be[i, 0, j, [candidate.head for candidate in candidates]] = True
            may_be[i, 1, j] = has_tokens[i] & (np.arange(n_words) != mention.head)
            is_right[i, j, list(answers)] = True
            counts_for[i, j, [groups.index(name) for name in names]] = 1
            picked = [pick(mention, candidates, forms) for pick in SYSTEMS.values()]
            right = np.array([found is not None and found.head in answers for found in picked])
            baselines[i] += counts_for[i, j][:, None] * right
    arrays = (words, may_be, is_right, counts_for, baselines)
    return Questions(*(torch.from_numpy(array).to(batch.device) for array in arrays))


def score_heads(
    attention: LayerAttention, questions: Questions, query_pieces: str
) -> Float[Tensor, "example group head direction candidates"]:
    """How many questions of each group a head answers: its most attended candidate is right.

    No attention to any candidate is no answer; ties go to the first.
    """
    weights = word_weights(attention, query_pieces)  # [example, head, word, other]
    n_heads, n_words = weights.shape[1], weights.shape[-1]
    asking = questions.words[:, None, :, None].expand(-1, n_heads, -1, n_words)
    rows = weights.gather(2, asking)  # [example, head, question, word]
    columns = weights.gather(3, asking.transpose(2, 3)).transpose(2, 3)
    scores = torch.stack([rows, columns], dim=2)[:, :, :, None]  # [..., direction, 1, question, w]
    best = scores.where(questions.may_be[:, None, None], 0).max(dim=-1)
    is_right = questions.is_right[:, None, None, None].expand(*best.indices.shape, n_words)
    found = is_right.gather(-1, best.indices[..., None])[..., 0] & (best.values > 0)
    counts_for = questions.counts_for.to(weights.dtype)
    return torch.einsum("ehdcq,eqg->eghdc", found.to(weights.dtype), counts_for)


def measure_groups(
    attention: LayerAttention, questions: Questions, groups: Sequence[str], query_pieces: str
) -> dict[str, Tensor]:
    """What heads find of each group; with the first layer also counts and what rules find."""
    correct = score_heads(attention, questions, query_pieces)
    values = {f"correct/{group}": correct[:, i] for i, group in enumerate(groups)}
    if attention.layer == 0:
        counts = questions.counts_for.sum(dim=1)[:, :, None]  # [example, group, 1]
        values |= {f"count/{group}": counts[:, i] for i, group in enumerate(groups)}
        values |= {f"baseline/{g}": questions.baselines[:, i] for i, g in enumerate(groups)}
    return values
