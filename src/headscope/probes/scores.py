"""How much of the gold trees a probe finds, with intervals over documents."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray

from headscope.data.example import ROOT
from headscope.kernels.spanning_tree import best_trees
from headscope.probes.batches import NeuralScorer, RowOf, Scorer, SentenceBatch, make_batches
from headscope.probes.treebank import NO_HEAD, ProbeTreebank
from headscope.stats.interval import Estimate, proportion
from headscope.stats.sums import Tally
from headscope.stats.tests import Difference, add_seeds, add_spread, compare

__all__ = [
    "SCORES", "Label", "ProbeScores", "compare_relations", "compare_uas", "estimate_relations",
    "estimate_scores", "score_probe",
]  # fmt: skip

SCORES = ("uas", "uas_with_punctuation", "uuas", "mst_uas", "las")
UAS = SCORES.index("uas")

Array = NDArray[np.float64]
Heads = Int[NDArray[np.int64], "seed sentence word"]
Words = Bool[NDArray[np.bool_], "*seed sentence word"]
Label = Callable[[SentenceBatch, Heads], NDArray[np.str_]]  # the relation of each word to its head


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
        return _share(self.correct.sum(axis=0), self.count.sum(axis=0))


def score_probe(
    scorer: Scorer,
    treebank: ProbeTreebank,
    row_of: RowOf = lambda word: 0,
    label: Label | None = None,
) -> ProbeScores:
    """Every word's best candidate, and the best tree of a sentence, against the gold heads; of
    several seeds the mean.

    `label` tells the relations of arcs, for LAS.
    """
    relations = sorted({r for sentence in treebank.sentences for r in sentence.relations})
    number_of = {relation: number for number, relation in enumerate(relations)}
    n_sentences = len(treebank)
    n_seeds = len(scorer.seeds[scorer.chosen]) if isinstance(scorer, NeuralScorer) else 1
    correct = np.zeros((n_seeds, n_sentences, len(SCORES)))
    count = np.zeros((n_sentences, len(SCORES)))
    of_relations = np.zeros((n_seeds, n_sentences, len(relations)))
    to_find = np.zeros((n_sentences, len(relations)))
    for group, batch in _batches(scorer, treebank, row_of):
        gold = np.zeros(batch.heads.shape, np.int64)  # the number of each word's relation
        for i, sentence in enumerate(batch.sentences):
            gold[i, : len(sentence)] = [number_of[relation] for relation in sentence.relations]
        best, tree = _choose(scorer, batch)  # [seed, sentence, word]
        labels = label(batch, best) if label else None
        is_named = labels == np.array(relations)[gold] if labels is not None else None
        for score, (is_correct, is_scored) in enumerate(_compare(batch, best, tree, is_named)):
            correct[:, group, score] = (is_correct & is_scored).sum(-1)
            count[group, score] = is_scored.sum(-1)
        heads = batch.heads.numpy()
        places = group[:, None].repeat(heads.shape[1], axis=1)
        np.add.at(to_find, (places, gold), heads > NO_HEAD)
        for seed in range(n_seeds):
            np.add.at(of_relations[seed], (places, gold), (heads > NO_HEAD) & (best[seed] == heads))
    shares = (_share(of_seed.sum(axis=0), count.sum(axis=0)) for of_seed in correct)
    buckets = np.array([sentence.bucket for sentence in treebank.sentences], np.int64)
    means = (correct.mean(axis=0), count, relations, of_relations.mean(axis=0), to_find)
    return ProbeScores(treebank.n_documents, buckets, *means, by_seed=np.stack(list(shares)))


def _batches(
    scorer: Scorer, treebank: ProbeTreebank, row_of: RowOf
) -> Iterator[tuple[NDArray[np.int64], SentenceBatch]]:
    layer = scorer.hidden_layer
    with torch.inference_mode():
        yield from make_batches(treebank, row_of, scorer.uses_maps, hidden_layer=layer)


def _choose(scorer: Scorer, batch: SentenceBatch) -> tuple[Heads, Heads]:
    """The best candidate of each word, and the best tree, by seed."""
    scores = scorer(batch).double().numpy()
    scores = scores.reshape(-1, *scores.shape[-3:])  # [seed, sentence, word, candidate]
    best = scores.argmax(-1)
    sizes = np.tile(batch.sizes.numpy(), len(scores))
    tree = best_trees(scores.reshape(-1, *scores.shape[2:]), sizes)
    return np.where(best == batch.n_words, ROOT, best), tree.reshape(best.shape)


def _compare(
    batch: SentenceBatch, best: Heads, tree: Heads, is_named: Words | None
) -> list[tuple[Words, Words]]:
    """For each score: which words are correct, by seed, and which are scored."""
    gold, is_word = batch.heads.numpy(), batch.is_scored.numpy()
    head_of_gold = np.take_along_axis(tree, np.broadcast_to(gold.clip(0), tree.shape), -1)
    is_turned = (head_of_gold == np.arange(batch.n_words)) & (gold >= 0)
    is_right, none = best == gold, np.zeros_like(is_word)
    return [
        (is_right, is_word),
        (is_right, gold > NO_HEAD),
        ((tree == gold) | is_turned, is_word & (gold >= 0)),  # in either direction
        (tree == gold, is_word),
        (is_right, none) if is_named is None else (is_right & is_named, is_word),
    ]


def _share(correct: Array, count: Array) -> Array:
    share: Array = np.divide(correct, count, out=np.full(count.shape, np.nan), where=count > 0)
    return share


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
    paired, n_buckets = _compare_over_documents(scores, others)
    return add_seeds(paired, n_buckets, scores.by_seed[:, UAS], others.by_seed[:, UAS])


def _compare_over_documents(scores: ProbeScores, others: ProbeScores) -> tuple[Difference, int]:
    """The difference of two UAS, and how many buckets have words."""
    (correct, count), (other, _) = (
        _sum_by_bucket(part.buckets, part.correct, part.count) for part in (scores, others)
    )
    paired = compare(correct[:, UAS], other[:, UAS], count[:, UAS])
    return paired, int((count[:, UAS] > 0).sum())


def compare_relations(
    scores: ProbeScores, relation: int, found: Float[Array, " bucket"]
) -> Difference:
    """The share found of a relation minus that of another way to find it, paired by bucket."""
    of_probe, count = _sum_by_bucket(scores.buckets, scores.relation_correct, scores.relation_count)
    return compare(of_probe[:, relation], found, count[:, relation])


def _estimate(buckets: NDArray[np.int64], correct: Array, count: Array) -> Estimate[Array]:
    return proportion(*_sum_by_bucket(buckets, correct, count))


def _sum_by_bucket(
    buckets: NDArray[np.int64], correct: Array, count: Array
) -> tuple[Float[Array, "bucket ..."], Float[Array, "bucket ..."]]:
    tally = Tally()
    tally.add(buckets, {"correct": correct, "count": count})
    return tally.totals["correct"], tally.totals["count"]
