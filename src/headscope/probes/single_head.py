"""The best single heads, chosen on the training sentences: what a combination has to beat."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray

from headscope.data.tree import ROOT
from headscope.probes.batches import Batch, Scores, mask_scores
from headscope.probes.treebank import NO_HEAD, ProbeTreebank, is_punctuation

__all__ = ["ALL", "SingleHead", "choose_heads", "count_found"]

ALL = ""  # stands for all words but punctuation: no relation has this name

Counts = Mapping[str, Int[NDArray[np.int64], "map direction"]]


@dataclass(frozen=True)
class SingleHead:
    """The word that one head attends to most, in one direction; never ROOT."""

    map: int
    direction: int  # 0: the dependent's row, 1: its column
    n_parameters: int = 1
    uses_maps: bool = True

    def __call__(self, batch: Batch) -> Scores:
        """Attention as the score; below all of it for ROOT."""
        assert batch.maps is not None
        words = batch.maps[:, :, : batch.n_words, self.map]
        words = words.transpose(1, 2) if self.direction else words
        return mask_scores(torch.cat([words, -torch.ones(*words.shape[:2], 1)], dim=-1), batch)


def count_found(treebank: ProbeTreebank) -> Counts:
    """How many words of each relation every head finds, in both directions."""
    n_maps = treebank.maps.n_maps
    counts: dict[str, NDArray[np.int64]] = {ALL: np.zeros((n_maps, 2), dtype=np.int64)}
    for place, sentence in zip(treebank.places, treebank.sentences, strict=True):
        n = len(sentence)
        maps = treebank.maps.sentence(int(place))[:, :n].float()  # [word, other, map]
        maps[torch.arange(n), torch.arange(n)] = -1.0
        found = np.stack([maps.argmax(1).numpy(), maps.argmax(0).numpy()], -1)
        if n == 1:
            found[:] = ROOT  # there is no other word
        is_found = found == sentence.heads[:, None, None]  # [word, map, direction]
        for word, relation in enumerate(sentence.relations):
            if sentence.heads[word] == NO_HEAD:
                continue
            counts.setdefault(relation, np.zeros((n_maps, 2), dtype=np.int64))
            counts[relation] += is_found[word]
            if not is_punctuation(relation):
                counts[ALL] += is_found[word]
    return counts


def choose_heads(counts: Counts) -> dict[str, SingleHead]:
    """The head and direction that find most words of each relation; of equals the first."""
    places = {name: divmod(int(found.argmax()), 2) for name, found in counts.items()}
    return {name: SingleHead(head, direction) for name, (head, direction) in places.items()}
