"""What a combination of heads has to beat: fixed offsets, single heads, and words alone."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from headscope.data.tree import ROOT
from headscope.probes.batches import NeuralScorer, Scores, SentenceBatch, mask_scores
from headscope.probes.treebank import NO_HEAD, ProbeTreebank, is_punctuation
from headscope.probes.vectors import WordEmbedding, WordVectors

__all__ = [
    "ALL_WORDS", "OFFSETS", "FixedOffset", "HeadCounts", "SingleHead", "WordMLP", "choose_heads",
    "choose_offset", "count_correct",
]  # fmt: skip

OFFSETS = [offset for offset in range(-10, 11) if offset != 0]
ALL_WORDS = ""  # stands for all words but punctuation: no relation has this name
N_HIDDEN = 256
NEAR = 3  # distances that have a feature of their own
N_DISTANCE_FEATURES = 2 * (NEAR + 1) + 1

HeadCounts = Mapping[str, Int[NDArray[np.int64], "map direction"]]  # by relation


@dataclass(frozen=True)
class FixedOffset:
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
class SingleHead:
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
    """How many words of each relation every head finds, in both directions."""
    n_maps = treebank.maps.n_maps
    counts: dict[str, NDArray[np.int64]] = {ALL_WORDS: np.zeros((n_maps, 2), dtype=np.int64)}
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
            counts.setdefault(relation, np.zeros((n_maps, 2), dtype=np.int64))
            counts[relation] += is_correct[word]
            if not is_punctuation(relation):
                counts[ALL_WORDS] += is_correct[word]
    return counts


def choose_heads(counts: HeadCounts) -> dict[str, SingleHead]:
    """The head and direction that find most words of each relation; of equals the first."""
    best = {relation: divmod(int(correct.argmax()), 2) for relation, correct in counts.items()}
    return {relation: SingleHead(head, direction) for relation, (head, direction) in best.items()}


class WordMLP(NeuralScorer):
    """One hidden layer over the vectors of dependent and candidate, and optionally the distance.

    The distance has indicators for the nearest words and its logarithm, ahead and behind apart;
    ROOT has an indicator of its own and no distance.
    """

    uses_maps = False

    def __init__(self, vectors: WordVectors, has_distances: bool, seed: int = 0) -> None:
        super().__init__()
        self.has_distances = has_distances
        self.embedding = WordEmbedding(vectors, seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.dependent = nn.Linear(vectors.dimension, N_HIDDEN)
            self.candidate = nn.Linear(vectors.dimension, N_HIDDEN, bias=False)
            if has_distances:
                self.distance = nn.Linear(N_DISTANCE_FEATURES, N_HIDDEN, bias=False)
            self.out = nn.Linear(N_HIDDEN, 1)

    def forward(self, batch: SentenceBatch) -> Scores:
        """The scores of every candidate, ROOT last."""
        words = self.embedding(batch.rows)  # [sentence, word, dimension]
        root = self.embedding.root.expand(len(words), 1, -1)
        candidates = self.candidate(torch.cat([words, root], dim=1))
        hidden = self.dependent(words)[:, :, None] + candidates[:, None]
        if self.has_distances:
            hidden = hidden + self.distance(distance_features(batch.n_words))
        return mask_scores(self.out(hidden.relu())[..., 0], batch)


def distance_features(n_words: int) -> Float[Tensor, "word candidate feature"]:
    """Indicators of near words and log distance, behind and ahead; last whether it is ROOT."""
    words = torch.arange(n_words)
    offset = words - words[:, None]  # [word, other]
    features = torch.zeros(n_words, n_words + 1, N_DISTANCE_FEATURES)
    for side, distance in enumerate((-offset, offset)):
        first = side * (NEAR + 1)
        for near in range(NEAR):
            features[:, :-1, first + near] = (distance == near + 1).float()
        features[:, :-1, first + NEAR] = distance.clamp(min=1).float().log()
    features[:, -1, -1] = 1.0
    return features
