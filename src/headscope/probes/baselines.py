"""What a parse looks like without attention: fixed offsets, and nets over words and distances."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from headscope.probes.batches import Batch, Scores, mask_scores
from headscope.probes.embedding import Embedding
from headscope.probes.treebank import ProbeTreebank, is_punctuation
from headscope.probes.vectors import WordVectors

__all__ = ["OFFSETS", "FixedOffset", "WordNet", "choose_offset"]

OFFSETS = [offset for offset in range(-10, 11) if offset != 0]
N_HIDDEN = 256
NEAR = 3  # distances that have a feature of their own
N_DISTANCE_FEATURES = 2 * (NEAR + 1) + 1


@dataclass(frozen=True)
class FixedOffset:
    """Every word hangs on the one at a fixed distance; on ROOT where the sentence ends before."""

    offset: int
    n_parameters: int = 0
    uses_maps: bool = False

    def __call__(self, batch: Batch) -> Scores:
        """1 for the word's one candidate, 0 for the others."""
        n = batch.n_words
        target = torch.arange(n) + self.offset
        is_inside = (target >= 0) & (target < batch.sizes[:, None])  # [sentence, word]
        chosen = torch.where(is_inside, target, n)
        return mask_scores(nn.functional.one_hot(chosen, n + 1).float(), batch)


def choose_offset(treebank: ProbeTreebank) -> FixedOffset:
    """The offset that finds most heads of a treebank, punctuation left out."""
    found = dict.fromkeys(OFFSETS, 0)
    for sentence in treebank.sentences:
        place = np.arange(len(sentence))
        counts = np.array([not is_punctuation(relation) for relation in sentence.relations])
        for offset in OFFSETS:
            target = place + offset
            target[(target < 0) | (target >= len(sentence))] = -1
            found[offset] += int(((target == sentence.heads) & counts).sum())
    return FixedOffset(max(OFFSETS, key=lambda offset: found[offset]), n_parameters=1)


class WordNet(nn.Module):
    """One hidden layer over the vectors of dependent and candidate, and perhaps their distance.

    The distance has indicators for the nearest places and its logarithm, ahead and behind apart;
    ROOT has an indicator of its own and no distance.
    """

    uses_maps = False

    def __init__(self, vectors: WordVectors, has_distances: bool, seed: int = 0) -> None:
        super().__init__()
        self.has_distances = has_distances
        self.embedding = Embedding(vectors, seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.dependent = nn.Linear(vectors.dimension, N_HIDDEN)
            self.candidate = nn.Linear(vectors.dimension, N_HIDDEN, bias=False)
            if has_distances:
                self.distance = nn.Linear(N_DISTANCE_FEATURES, N_HIDDEN, bias=False)
            self.out = nn.Linear(N_HIDDEN, 1)

    @property
    def n_parameters(self) -> int:
        return sum(weight.numel() for weight in self.parameters())

    def forward(self, batch: Batch) -> Scores:
        """The scores of every candidate, ROOT last."""
        words = self.embedding(batch.rows)  # [sentence, word, dimension]
        root = self.embedding.root.expand(len(words), 1, -1)
        candidates = self.candidate(torch.cat([words, root], dim=1))
        hidden = self.dependent(words)[:, :, None] + candidates[:, None]
        if self.has_distances:
            hidden = hidden + self.distance(distance_features(batch.n_words))
        return mask_scores(self.out(hidden.relu())[..., 0], batch)


def distance_features(n_words: int) -> Float[Tensor, "word candidate feature"]:
    """Indicators of near places and log distance, behind and ahead; last whether it is ROOT."""
    place = torch.arange(n_words)
    offset = place - place[:, None]  # [word, other]
    features = torch.zeros(n_words, n_words + 1, N_DISTANCE_FEATURES)
    for side, distance in enumerate((-offset, offset)):
        first = side * (NEAR + 1)
        for near in range(NEAR):
            features[:, :-1, first + near] = (distance == near + 1).float()
        features[:, :-1, first + NEAR] = distance.clamp(min=1).float().log()
    features[:, -1, -1] = 1.0
    return features
