"""How much of the gold trees a probe finds, with intervals over documents."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray

from headscope.data.tree import ROOT
from headscope.kernels.spanning_tree import maximum_arborescence
from headscope.probes.batches import RowOf, Scorer, score_sentences
from headscope.probes.treebank import NO_HEAD, ProbeTreebank, Sentence
from headscope.stats.interval import Estimate, proportion
from headscope.stats.seeds import add_seeds, add_spread
from headscope.stats.tally import Tally
from headscope.stats.tests import Difference, compare

__all__ = [
    "SCORES", "Label", "ProbeScores", "compare_relations", "compare_uas", "decode_tree",
    "estimate_relations", "estimate_scores", "join_seeds", "score_probe",
]  # fmt: skip

SCORES = ("uas", "uas_with_punctuation", "uuas", "mst_uas", "las")
UAS = SCORES.index("uas")
ONE_ROOT = 1e6  # the cost of a child of ROOT: more than any word could gain by being one

Array = NDArray[np.float64]
Heads = Int[NDArray[np.int64], " word"]
Label = Callable[[int, Heads], list[str]]  # (place in the store, heads) -> the relation of each


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
    by_seed: Float[Array, "seed score"] = field(default_factory=lambda: np.zeros((0, len(SCORES))))

    @property
    def shares(self) -> Float[Array, " score"]:
        """The share of right answers; NaN where there is nothing to find."""
        correct, count = self.correct.sum(axis=0), self.count.sum(axis=0)
        shares: Array = np.divide(correct, count, out=np.full(len(count), np.nan), where=count > 0)
        return shares


def join_seeds(parts: Sequence[ProbeScores]) -> ProbeScores:
    """The mean over seeds, sentence by sentence, with the scores of each."""
    return replace(
        parts[0],
        correct=np.mean([part.correct for part in parts], axis=0),
        relation_correct=np.mean([part.relation_correct for part in parts], axis=0),
        by_seed=np.stack([part.shares for part in parts]),
    )


def score_probe(
    scorer: Scorer,
    treebank: ProbeTreebank,
    row_of: RowOf = lambda word: 0,
    label: Label | None = None,
) -> ProbeScores:
    """Every word's best candidate, and the best tree of a sentence, against the gold heads.

    `label` tells the relations of arcs, for LAS.
    """
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
        labels = label(int(treebank.stored_at[i]), best) if label else None
        for score, (is_correct, is_scored) in enumerate(_compare(sentence, best, tree, labels)):
            counts.correct[i, score] = (is_correct & is_scored).sum()
            counts.count[i, score] = is_scored.sum()
        has_head = sentence.heads > NO_HEAD
        columns = [column_of[relation] for relation in sentence.relations]
        np.add.at(counts.relation_correct[i], columns, has_head & (best == sentence.heads))
        np.add.at(counts.relation_count[i], columns, has_head)
    return counts


def _compare(
    sentence: Sentence, best: Heads, tree: Heads, labels: Sequence[str] | None
) -> list[tuple[Bool[NDArray[np.bool_], " word"], Bool[NDArray[np.bool_], " word"]]]:
    """For each score: which words are correct, and which are scored."""
    gold, words, is_word = sentence.heads, np.arange(len(sentence)), sentence.is_scored
    is_labelled = np.array([a == b for a, b in zip(labels or (), sentence.relations, strict=False)])
    is_linked = (tree == gold) | ((tree[gold] == words) & (gold >= 0))  # in either direction
    return [
        (best == gold, is_word),
        (best == gold, gold > NO_HEAD),
        (is_linked, is_word & (gold >= 0)),
        (tree == gold, is_word),
        ((best == gold) & is_labelled, is_word) if labels else (best != best, best != best),
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


def estimate_scores(scores: ProbeScores) -> Mapping[str, Estimate[float]]:
    """Each score with its 95 % interval: over documents, and over seeds where there are several."""
    parts = _estimate(scores.buckets, scores.correct, scores.count)
    estimates = {}
    for i, name in enumerate(SCORES):
        over_documents = Estimate(*(float(part[i]) for part in parts))
        estimates[name] = add_spread(over_documents, scores.by_seed[:, i], (0.0, 1.0))
    return estimates


def estimate_relations(scores: ProbeScores) -> Estimate[Array]:
    """The share found of each relation, with its 95 % interval."""
    return _estimate(scores.buckets, scores.relation_correct, scores.relation_count)


def compare_uas(scores: ProbeScores, others: ProbeScores) -> Difference:
    """The UAS of one probe minus that of another over the same words, paired by bucket; with the
    spread between the seeds of both."""
    (found, count), (other, _) = (
        _sum_by_bucket(one.buckets, one.correct, one.count) for one in (scores, others)
    )
    paired = compare(found[:, UAS], other[:, UAS], count[:, UAS])
    n_buckets = int((count[:, UAS] > 0).sum())
    return add_seeds(paired, n_buckets, scores.by_seed[:, UAS], others.by_seed[:, UAS])


def compare_relations(
    scores: ProbeScores, relation: int, found: Float[Array, " bucket"]
) -> Difference:
    """The share found of a relation minus that of another way to find it, paired by bucket."""
    own, count = _sum_by_bucket(scores.buckets, scores.relation_correct, scores.relation_count)
    return compare(own[:, relation], found, count[:, relation])


def _estimate(buckets: NDArray[np.int64], correct: Array, count: Array) -> Estimate[Array]:
    return Estimate(*proportion(*_sum_by_bucket(buckets, correct, count))[:3])


def _sum_by_bucket(
    buckets: NDArray[np.int64], correct: Array, count: Array
) -> tuple[Float[Array, "bucket ..."], Float[Array, "bucket ..."]]:
    tally = Tally()
    tally.add(buckets, {"correct": correct, "count": count})
    return tally.totals["correct"], tally.totals["count"]
