"""How much of the gold trees a probe finds, with intervals over documents."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray

from headscope.data.tree import ROOT
from headscope.kernels.spanning_tree import maximum_arborescence
from headscope.probes.batches import RowOf, Scorer, score_sentences
from headscope.probes.treebank import NO_HEAD, ProbeTreebank, Sentence
from headscope.stats.interval import Estimate, proportion
from headscope.stats.tally import Tally
from headscope.stats.tests import Difference, compare

__all__ = [
    "SCORES", "ProbeScores", "compare_uas", "decode_tree", "estimate_relations", "estimate_scores",
    "score_probe",
]  # fmt: skip

SCORES = ("uas", "uas_with_punctuation", "uuas", "mst_uas")
UAS = SCORES.index("uas")
ONE_ROOT = 1e6  # the cost of a child of ROOT: more than any word could gain by being one

Array = NDArray[np.float64]
Heads = Int[NDArray[np.int64], " word"]


@dataclass(frozen=True, eq=False)
class ProbeScores:
    """Correct heads and heads to find, by sentence: for each score, and for each relation."""

    n_documents: int
    buckets: Int[NDArray[np.int64], " sentence"]
    correct: Float[Array, "sentence score"]
    count: Float[Array, "sentence score"]
    relations: list[str]
    relation_correct: Float[Array, "sentence relation"]
    relation_count: Float[Array, "sentence relation"]


def score_probe(
    scorer: Scorer, treebank: ProbeTreebank, row_of: RowOf = lambda word: 0
) -> ProbeScores:
    """Every word's best candidate, and the best tree of a sentence, against the gold heads."""
    relations = sorted({r for sentence in treebank.sentences for r in sentence.relations})
    column_of = {relation: column for column, relation in enumerate(relations)}
    buckets = np.array([sentence.bucket for sentence in treebank.sentences], np.int64)
    shape, by_relation = (len(buckets), len(SCORES)), (len(buckets), len(relations))
    zeros = np.zeros(shape), np.zeros(shape)
    n_documents = len({sentence.document for sentence in treebank.sentences})
    counts = ProbeScores(
        *(n_documents, buckets, *zeros),
        *(relations, np.zeros(by_relation), np.zeros(by_relation)),
    )
    for i, scores in score_sentences(scorer, treebank, row_of):
        sentence = treebank.sentences[i]
        best = _as_heads(scores.argmax(axis=1))
        tree = decode_tree(scores)
        for score, (is_correct, is_scored) in enumerate(_compare(sentence, best, tree)):
            counts.correct[i, score] = (is_correct & is_scored).sum()
            counts.count[i, score] = is_scored.sum()
        has_head = sentence.heads > NO_HEAD
        columns = [column_of[relation] for relation in sentence.relations]
        np.add.at(counts.relation_correct[i], columns, has_head & (best == sentence.heads))
        np.add.at(counts.relation_count[i], columns, has_head)
    return counts


def _compare(
    sentence: Sentence, best: Heads, tree: Heads
) -> list[tuple[Bool[NDArray[np.bool_], " word"], Bool[NDArray[np.bool_], " word"]]]:
    """For each score: which words are correct, and which are scored."""
    gold, words, is_word = sentence.heads, np.arange(len(sentence)), sentence.is_scored
    is_linked = (tree == gold) | ((tree[gold] == words) & (gold >= 0))  # in either direction
    return [
        (best == gold, is_word),
        (best == gold, gold > NO_HEAD),
        (is_linked, is_word & (gold >= 0)),
        (tree == gold, is_word),
    ]


def decode_tree(scores: Float[Array, "word candidate"]) -> Heads:
    """The heads of the best tree with exactly one child of ROOT, the last candidate."""
    n = len(scores)
    square = np.full((n + 1, n + 1), -ONE_ROOT)
    square[:n] = scores
    square[:n, n] -= ONE_ROOT
    return _as_heads(maximum_arborescence(square, n)[:n])


def _as_heads(candidates: Heads) -> Heads:
    """Candidates as heads: the last one, one more than there are words, is ROOT."""
    return np.where(candidates == len(candidates), ROOT, candidates)


def estimate_scores(scores: ProbeScores) -> Mapping[str, Estimate[Array]]:
    """Each score with its 95 % interval."""
    estimates = _estimate(scores.buckets, scores.correct, scores.count)
    return {name: Estimate(*(part[i] for part in estimates)) for i, name in enumerate(SCORES)}


def estimate_relations(scores: ProbeScores) -> Estimate[Array]:
    """The share found of each relation, with its 95 % interval."""
    return _estimate(scores.buckets, scores.relation_correct, scores.relation_count)


def compare_uas(scores: ProbeScores, others: ProbeScores) -> Difference:
    """The UAS of one probe minus that of another over the same words, paired by bucket."""
    (found, count), (other, _) = (
        _sum_by_bucket(one.buckets, one.correct, one.count) for one in (scores, others)
    )
    return compare(found[:, UAS], other[:, UAS], count[:, UAS])


def _estimate(buckets: NDArray[np.int64], correct: Array, count: Array) -> Estimate[Array]:
    return Estimate(*proportion(*_sum_by_bucket(buckets, correct, count))[:3])


def _sum_by_bucket(
    buckets: NDArray[np.int64], correct: Array, count: Array
) -> tuple[Float[Array, "bucket ..."], Float[Array, "bucket ..."]]:
    tally = Tally()
    tally.add(buckets, {"correct": correct, "count": count})
    return tally.totals["correct"], tally.totals["count"]
