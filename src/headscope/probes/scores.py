"""How much of the gold trees a probe finds, with intervals over sentences."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray

from headscope.data.replicates import replicate_weights
from headscope.data.tally import Estimate, Tally
from headscope.kernels.spanning_tree import maximum_arborescence
from headscope.probes.batches import Scorer, score_sentences
from headscope.probes.treebank import NO_HEAD, ProbeTreebank, Sentence, is_punctuation

__all__ = ["SCORES", "Found", "decode_tree", "estimate_relations", "estimate_scores", "score_probe"]

SCORES = ("uas", "uas_with_punctuation", "uuas", "mst_uas")
ONE_ROOT = 1e6  # what hanging on ROOT costs in a tree: more than any word could gain by it

Array = NDArray[np.float64]
Heads = Int[NDArray[np.int64], " word"]


@dataclass(frozen=True, eq=False)
class Found:
    """Heads found and heads to find, by sentence: for each score, and for each relation."""

    keys: list[int]
    correct: Float[Array, "sentence score"]
    count: Float[Array, "sentence score"]
    relations: list[str]
    relation_correct: Float[Array, "sentence relation"]
    relation_count: Float[Array, "sentence relation"]


def score_probe(
    scorer: Scorer, treebank: ProbeTreebank, row_of: Callable[[str], int] = lambda word: 0
) -> Found:
    """Every word's best candidate, and the best tree of a sentence, against the gold heads."""
    relations = sorted({r for sentence in treebank.sentences for r in sentence.relations})
    place_of = {relation: place for place, relation in enumerate(relations)}
    n = len(treebank)
    found = Found(
        keys=[sentence.key for sentence in treebank.sentences],
        correct=np.zeros((n, len(SCORES))),
        count=np.zeros((n, len(SCORES))),
        relations=relations,
        relation_correct=np.zeros((n, len(relations))),
        relation_count=np.zeros((n, len(relations))),
    )
    for place, scores in score_sentences(scorer, treebank, row_of):
        sentence = treebank.sentences[place]
        best = _as_heads(scores.argmax(axis=1))
        tree = decode_tree(scores)
        for score, (is_found, counts) in enumerate(_compare(sentence, best, tree)):
            found.correct[place, score] = (is_found & counts).sum()
            found.count[place, score] = counts.sum()
        has_head = sentence.heads > NO_HEAD
        columns = [place_of[relation] for relation in sentence.relations]
        np.add.at(found.relation_correct[place], columns, has_head & (best == sentence.heads))
        np.add.at(found.relation_count[place], columns, has_head)
    return found


def _compare(
    sentence: Sentence, best: Heads, tree: Heads
) -> list[tuple[Bool[NDArray[np.bool_], " word"], Bool[NDArray[np.bool_], " word"]]]:
    """For each score: which words are found, and which count."""
    gold, place = sentence.heads, np.arange(len(sentence))
    has_head = gold > NO_HEAD
    is_word = np.array([not is_punctuation(relation) for relation in sentence.relations]) & has_head
    is_tied = (tree == gold) | ((tree[gold] == place) & (gold >= 0))  # in either direction
    return [
        (best == gold, is_word),
        (best == gold, has_head),
        (is_tied, is_word & (gold >= 0)),
        (tree == gold, is_word),
    ]


def decode_tree(scores: Float[Array, "word candidate"]) -> Heads:
    """The heads of the best tree in which one word hangs on ROOT, the last candidate."""
    n = len(scores)
    square = np.full((n + 1, n + 1), -ONE_ROOT)
    square[:n] = scores
    square[:n, n] -= ONE_ROOT
    return _as_heads(maximum_arborescence(square, n)[:n])


def _as_heads(candidates: Heads) -> Heads:
    """Candidates as heads: the last one, one more than there are words, is ROOT."""
    return np.where(candidates == len(candidates), -1, candidates)


def estimate_scores(found: Found, seed: int, n_replicates: int) -> Mapping[str, Estimate]:
    """Each score with its 95 % interval."""
    both = _estimate(found.keys, found.correct, found.count, seed, n_replicates)
    return {name: Estimate(*(part[i] for part in both)) for i, name in enumerate(SCORES)}


def estimate_relations(found: Found, seed: int, n_replicates: int) -> Estimate:
    """The share found of each relation, with its 95 % interval."""
    parts = found.relation_correct, found.relation_count
    return _estimate(found.keys, *parts, seed, n_replicates)


def _estimate(
    keys: list[int], correct: Array, count: Array, seed: int, n_replicates: int
) -> Estimate:
    tally = Tally()
    tally.add(replicate_weights(keys, seed, n_replicates), {"correct": correct, "count": count})
    return tally.ratio("correct", "count")
