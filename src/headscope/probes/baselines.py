"""What a combination of heads has to beat: fixed offsets and single heads."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import nn

from headscope.data.example import ROOT
from headscope.probes.batches import Scorer, Scores, SentenceBatch, mask_scores
from headscope.probes.treebank import NO_HEAD, ProbeTreebank, is_punctuation
from headscope.stats.bucket import N_BUCKETS

__all__ = [
    "ALL_WORDS", "OFFSETS", "FixedOffset", "HeadCounts", "SingleHead", "choose_heads",
    "choose_offset", "count_correct",
]  # fmt: skip

OFFSETS = [offset for offset in range(-10, 11) if offset != 0]
ALL_WORDS = ""  # stands for all words but punctuation: no relation has this name

HeadCounts = Mapping[str, Int[NDArray[np.int64], "bucket map direction"]]  # by relation


@dataclass(frozen=True)
class FixedOffset(Scorer):
    """The head of each word is the one at a fixed distance; ROOT where the sentence has none."""

    offset: int
    n_parameters: int = 0
    uses_maps: bool = False

    def __call__(self, batch: SentenceBatch) -> Scores:
        """1 for the word's one candidate, 0 for the others."""
        n = batch.n_words
        target = torch.arange(n) + self.offset
        is_inside = (target >= 0) & (target < batch.sizes[:, None])  # [sentence, word]
        chosen = torch.where(is_inside, target, n)
        return mask_scores(nn.functional.one_hot(chosen, n + 1).float(), batch)


def choose_offset(treebank: ProbeTreebank) -> FixedOffset:
    """The offset that finds most heads of a treebank, punctuation left out."""
    n_correct = dict.fromkeys(OFFSETS, 0)
    for sentence in treebank.sentences:
        words = np.arange(len(sentence))
        for offset in OFFSETS:
            target = words + offset
            target[(target < 0) | (target >= len(sentence))] = ROOT
            n_correct[offset] += int(((target == sentence.heads) & sentence.is_scored).sum())
    return FixedOffset(max(OFFSETS, key=lambda offset: n_correct[offset]), n_parameters=1)


@dataclass(frozen=True)
class SingleHead(Scorer):
    """The word that one head attends to most, in one direction; ROOT where there is no other that
    it attends to, as of the first word in a decoder."""

    map: int
    direction: int  # 0: the dependent's row, 1: its column
    n_parameters: int = 1
    uses_maps: bool = True

    def __call__(self, batch: SentenceBatch) -> Scores:
        """Attention as the score; below all of it for ROOT, and below that where there is none."""
        assert batch.maps is not None
        words = batch.maps[:, :, : batch.n_words, self.map]
        words = words.transpose(1, 2) if self.direction else words
        words = torch.where(words > 0, words, -2.0)
        return mask_scores(torch.cat([words, -torch.ones(*words.shape[:2], 1)], dim=-1), batch)


def count_correct(treebank: ProbeTreebank) -> HeadCounts:
    """How many words of each relation every head finds, in both directions, by bucket."""
    shape = (N_BUCKETS, treebank.maps.n_maps, 2)
    counts: dict[str, NDArray[np.int64]] = {ALL_WORDS: np.zeros(shape, dtype=np.int64)}
    for index, sentence in zip(treebank.stored_at, treebank.sentences, strict=True):
        n = len(sentence)
        maps = treebank.maps.sentence(int(index))[:, :n].float()  # [word, other, map]
        maps[torch.arange(n), torch.arange(n)] = -1.0
        best = [maps.max(1), maps.max(0)]  # [word, map] each
        chosen = torch.stack([part.indices.where(part.values > 0, ROOT) for part in best], dim=-1)
        is_correct = chosen.numpy() == sentence.heads[:, None, None]  # [word, map, direction]
        for word, relation in enumerate(sentence.relations):
            if sentence.heads[word] == NO_HEAD:
                continue
            if relation not in counts:
                counts[relation] = np.zeros(shape, dtype=np.int64)
            counts[relation][sentence.bucket] += is_correct[word]
            if not is_punctuation(relation):
                counts[ALL_WORDS][sentence.bucket] += is_correct[word]
    return counts


def choose_heads(counts: HeadCounts) -> dict[str, SingleHead]:
    """The head and direction that find most words of each relation; of equals the first."""
    best = {
        relation: divmod(int(correct.sum(axis=0).argmax()), 2)
        for relation, correct in counts.items()
    }
    return {relation: SingleHead(head, direction) for relation, (head, direction) in best.items()}
