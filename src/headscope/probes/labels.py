"""The relation of an arc from the attention between its words: a second convex probe, for LAS.

A softmax over relations, linear in the attention of all heads from the word to its head and back
(to the opening and closing tokens where the head is ROOT), with a constant for words and for ROOT.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from scipy import optimize
from torch import Tensor

from headscope.data.example import ROOT
from headscope.probes.batches import SentenceBatch
from headscope.probes.treebank import NO_HEAD, ProbeTreebank

__all__ = ["LabelProbe", "arc_features", "fit_labels", "label_loss"]

N_SENTENCES = 2000  # that it learns from, at most
PENALTY = 1e-4  # of half the squared weights
MOST_ITERATIONS = 200

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LabelProbe:
    """The weights of each relation."""

    relations: list[str]
    weights: Float[Tensor, "feature relation"]

    def label(
        self, batch: SentenceBatch, heads: Int[NDArray[np.int64], "seed sentence word"]
    ) -> NDArray[np.str_]:
        """The relation of each word to the head that each seed chose."""
        assert batch.maps is not None
        names = np.array(self.relations)
        best = [
            (arc_features(batch.maps, of_seed) @ self.weights).argmax(-1).numpy()
            for of_seed in heads
        ]
        return np.stack([names[numbers] for numbers in best])


def arc_features(
    maps: Float[Tensor, "sentence word other map"],
    heads: Int[NDArray[np.int64], "sentence word"],
) -> Float[Tensor, "sentence word feature"]:
    """Attention between each word and its head; of ROOT, to the two special tokens."""
    n = maps.shape[1]
    sentences, words = torch.arange(len(maps))[:, None], torch.arange(n)
    places = torch.from_numpy(heads)
    is_root = (places == ROOT)[..., None]
    other = places.clamp(min=0)
    ahead = torch.where(is_root, maps[:, :, n], maps[sentences, words, other])
    back = torch.where(is_root, maps[:, :, n + 1], maps[sentences, other, words])
    return torch.cat([ahead, back, is_root, ~is_root], dim=-1)


def fit_labels(treebank: ProbeTreebank, seed: int = 0) -> LabelProbe:
    """The one optimum over the gold arcs of some sentences."""
    sample = treebank.choose(N_SENTENCES, seed)
    relations = sorted({relation for s in sample.sentences for relation in s.relations})
    features, gold = (torch.cat(part) for part in zip(*_arcs(sample, relations), strict=True))

    def evaluate(vector: Array) -> tuple[float, Array]:
        return label_loss(vector, features, gold)

    minimum = optimize.minimize(
        evaluate,
        np.zeros(features.shape[1] * len(relations)),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": MOST_ITERATIONS, "ftol": 1e-7, "gtol": 1e-5},
    )
    weights = torch.from_numpy(minimum.x).float().reshape(features.shape[1], -1)
    return LabelProbe(relations, weights)


def _arcs(treebank: ProbeTreebank, relations: list[str]) -> Iterator[tuple[Tensor, Tensor]]:
    """The features and relations of the arcs of each sentence."""
    number_of = {relation: number for number, relation in enumerate(relations)}
    for index, sentence in zip(treebank.stored_at, treebank.sentences, strict=True):
        is_arc = torch.from_numpy(sentence.heads > NO_HEAD)
        maps = treebank.maps.sentence(int(index)).float()
        features = arc_features(maps[None], sentence.heads[None])[0]
        gold = torch.tensor([number_of[relation] for relation in sentence.relations])
        yield features[is_arc], gold[is_arc]


def label_loss(
    vector: Array, features: Float[Tensor, "arc feature"], gold: Int[Tensor, " arc"]
) -> tuple[float, Array]:
    """The mean of -ln p(relation) with the penalty, and its gradient."""
    weights = torch.from_numpy(vector).to(features).reshape(features.shape[1], -1)
    chances = (features @ weights).log_softmax(1)
    loss = -chances.gather(1, gold[:, None]).mean() + PENALTY / 2 * weights.square().sum()
    slopes = chances.exp()
    slopes[torch.arange(len(gold)), gold] -= 1
    gradient = features.T @ slopes / len(gold) + PENALTY * weights
    return float(loss), gradient.flatten().double().numpy()
