"""Scores, trees and baselines against loops and known answers."""

from dataclasses import replace
from math import log
from operator import itemgetter
from pathlib import Path

import numpy as np
import pytest
import torch

from headscope.data.example import ROOT, Example, Tree
from headscope.kernels.spanning_tree import best_trees
from headscope.probes.attention_only import AttentionOnly
from headscope.probes.baselines import (
    ALL_WORDS,
    FixedOffset,
    SingleHead,
    choose_heads,
    choose_offset,
    count_correct,
)
from headscope.probes.batches import Scorer, mask_scores, score_sentences
from headscope.probes.scores import (
    SCORES,
    compare_uas,
    estimate_scores,
    score_probe,
)
from headscope.probes.suite import ProbeResult
from headscope.probes.tables import difference_table
from headscope.probes.treebank import is_punctuation
from headscope.probes.word_nets import WordNet, offset_features
from tests.making import N_HEADS, N_LAYERS, MadeSource
from tests.probes.made import PLANTED_TREE, SYNTAX, made_vectors, make_examples, store
from tests.references.probes import attachment_counts, best_tree_score, uas_difference

N_MAPS = N_LAYERS * N_HEADS


def random_probe() -> AttentionOnly:
    return AttentionOnly(3 * np.random.default_rng(0).standard_normal((4, N_MAPS)), 0.5)


def test_attachment_scores_equal_plain_loops(tmp_path: Path) -> None:
    source = MadeSource(pieces=lambda word, place: 0 if word == "boat" else 1)
    treebank, probe = store(tmp_path, make_examples(30), source), random_probe()
    found = score_probe(probe, treebank)
    for place, scores in score_sentences(probe, treebank):
        expected = attachment_counts(treebank.sentences[place], scores)
        assert (found.correct[place, 0], found.count[place, 0]) == expected[:2]
        assert (found.correct[place, 1], found.count[place, 1]) == expected[2:]
    assert found.relation_correct.sum() == found.correct[:, 1].sum()
    assert found.relation_count.sum() == found.count[:, 1].sum() == treebank.n_arcs


def test_decoded_trees_are_the_best_with_one_root() -> None:
    rng = np.random.default_rng(0)
    for n in (1, 2, 3, 4, 4, 4):
        scores = 4 * rng.standard_normal((n, n + 1))
        scores[np.arange(n), np.arange(n)] = -np.inf
        scores[:, n] += 3  # ROOT tempts several words
        (heads,) = best_trees(scores[None], np.array([n]))
        assert (heads == ROOT).sum() == 1
        total = sum(scores[word, n if head == ROOT else head] for word, head in enumerate(heads))
        assert total == pytest.approx(best_tree_score(scores))


def test_a_perfect_probe_finds_all_and_a_turned_one_all_without_direction(tmp_path: Path) -> None:
    class Gold(Scorer):
        """Scores 1 for the gold head, or for the gold dependent of the word."""

        uses_maps, n_parameters = False, 0

        def __init__(self, turned: bool) -> None:
            self.turned = turned

        def __call__(self, batch):  # type: ignore[no-untyped-def]
            gold = torch.nn.functional.one_hot(
                batch.targets.clamp(min=0), batch.n_words + 1
            ).float()
            if self.turned:
                words = gold[..., :-1].transpose(1, 2)
                gold = torch.cat([words, 0 * gold[..., -1:]], dim=-1)
            return mask_scores(gold, batch)

    chain = Example("chain", words=tuple("abcd"), tree=Tree((1, 2, 3, ROOT), ("x",) * 4))
    treebank = store(tmp_path, [chain])
    right, turned = (score_probe(Gold(is_turned), treebank) for is_turned in (False, True))
    assert dict(zip(SCORES, right.count[0], strict=True)) == {
        "uas": 4, "uas_with_punctuation": 4, "uuas": 3, "mst_uas": 4, "las": 0,
    }  # fmt: skip
    assert (right.correct == right.count).all()
    assert turned.correct[0, 2:4].tolist() == [3, 0]


def test_intervals_hold_the_estimate_and_one_document_has_none(tmp_path: Path) -> None:
    found = score_probe(random_probe(), store(tmp_path, make_examples(30)))
    for name, place in (("uas", 0), ("mst_uas", 3)):
        value, low, high = estimate_scores(found)[name]
        assert value == found.correct[:, place].sum() / found.count[:, place].sum()
        assert low < value < high
    alone = replace(found, buckets=np.zeros_like(found.buckets))
    assert np.isnan(estimate_scores(alone)["uas"].low)


def in_documents(n_sentences: int) -> list[Example]:
    """Examples of which two make a document."""
    examples = make_examples(n_sentences)
    return [replace(one, document=f"d{i // 2}") for i, one in enumerate(examples)]


def test_differences_of_probes_equal_plain_loops_over_documents(tmp_path: Path) -> None:
    source = MadeSource(pieces=lambda word, place: 0 if word == "boat" else 1)
    treebank = store(tmp_path, in_documents(60), source)
    probes = {"random": random_probe(), "next": FixedOffset(1), "previous": FixedOffset(-1)}
    results = {n: ProbeResult(score_probe(p, treebank), 0, 0) for n, p in probes.items()}
    by_sentence = {
        name: [scores for _, scores in sorted(score_sentences(probe, treebank), key=itemgetter(0))]
        for name, probe in probes.items()
    }
    pairs = [("next", "random"), ("previous", "random"), ("previous", "next")]  # later - earlier
    table = difference_table(results)
    expected = [
        uas_difference(treebank.sentences, by_sentence[name], by_sentence[other])
        for name, other in pairs
    ]
    found = table[["difference", "low", "high", "p_raw"]].to_numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert list(zip(table["probe"], table["other"], strict=True)) == pairs
    smallest, middle, largest = np.argsort(table["p_raw"])
    p, corrected = table["p_raw"], table["p_value"]  # Holm: 3 times the smallest, and so on
    assert corrected[smallest] == pytest.approx(min(1, 3 * p[smallest]))
    assert corrected[middle] == pytest.approx(min(1, max(3 * p[smallest], 2 * p[middle])))
    assert corrected[largest] == pytest.approx(max(corrected[middle], p[largest]))


def test_a_paired_difference_is_surer_than_two_intervals(tmp_path: Path) -> None:
    """Sentences differ much more from each other than the two probes do in each of them."""
    found = score_probe(random_probe(), store(tmp_path, make_examples(60)))
    count = np.full_like(found.count, 40)
    correct = np.tile(np.arange(60.0)[:, None] % 30, len(SCORES))
    one, other = (replace(found, count=count, correct=c) for c in (correct + 2, correct))
    other.correct[::7] -= 0.5  # or the difference would never vary
    high, low = estimate_scores(other)["uas"].high, estimate_scores(one)["uas"].low
    assert low < high
    assert compare_uas(one, other).low > 0.04


def test_one_document_or_equal_probes_have_a_difference_without_an_interval(tmp_path: Path) -> None:
    treebank = store(tmp_path, make_examples(20))
    one, other = (score_probe(p, treebank) for p in (random_probe(), FixedOffset(1)))
    same = compare_uas(one, one)
    assert same.value == 0
    assert np.isnan([same.low, same.p_value]).all()
    alone = compare_uas(*(replace(s, buckets=np.zeros_like(s.buckets)) for s in (one, other)))
    assert alone.value == compare_uas(one, other).value
    assert np.isnan([alone.low, alone.high, alone.p_value]).all()


def test_no_pairs_give_an_empty_table_with_its_columns() -> None:
    table = difference_table({})
    assert len(table) == 0
    assert {"probe", "difference", "p_value"} <= set(table.columns)


@pytest.mark.parametrize("offset", [1, -1, 3])
def test_fixed_offsets_equal_plain_loops(tmp_path: Path, offset: int) -> None:
    treebank = store(tmp_path, make_examples(30))
    expected = 0
    for sentence in treebank.sentences:
        for word, head in enumerate(sentence.heads):
            target = word + offset if 0 <= word + offset < len(sentence) else ROOT
            expected += target == head and not is_punctuation(sentence.relations[word])
    found = score_probe(FixedOffset(offset), treebank)
    assert found.correct[:, 0].sum() == expected


def test_the_best_offset_is_that_of_the_training_sentences(tmp_path: Path) -> None:
    chain = [
        Example(f"chain:{i}", words=tuple("abcdef"), tree=Tree((2, 3, 4, 5, ROOT, 4), ("x",) * 6))
        for i in range(3)
    ]
    assert choose_offset(store(tmp_path, chain)).offset == 2


def test_the_planted_head_is_the_best_single_head(tmp_path: Path) -> None:
    treebank = store(tmp_path, make_examples(60), PLANTED_TREE)
    counts = count_correct(treebank)
    best = choose_heads(counts)[ALL_WORDS]
    assert best == SingleHead(SYNTAX[0] * N_HEADS + SYNTAX[1], 0)
    found = score_probe(best, treebank)
    assert found.correct[:, 0].sum() == counts[ALL_WORDS][:, best.map, best.direction].sum()
    for place, relation in enumerate(found.relations):
        expected = counts[relation][:, best.map, best.direction].sum()
        assert found.relation_correct[:, place].sum() == expected


def test_distance_features_tell_near_places_and_sides_apart() -> None:
    features = offset_features(6).numpy()  # [offset, feature]: behind, ahead, ROOT
    assert features[6 - 1].tolist() == [1, 0, 0, 0, 0, 0, 0, 0, 0]
    assert features[6 + 2].tolist() == [0, 0, 0, 0, 0, 1, 0, pytest.approx(log(2)), 0]
    assert features[6 - 5].tolist() == [0, 0, 0, pytest.approx(log(5)), 0, 0, 0, 0, 0]
    assert features[-1].tolist() == [0] * 8 + [1]


def test_the_distance_baseline_has_the_papers_size() -> None:
    net = WordNet(made_vectors(100), has_distances=True, seeds=(0, 1))
    # without a constant that no choice depends on; with the vectors of ROOT and unknown words
    assert net.n_parameters == 54_016 + 2 * 100
    assert WordNet(made_vectors(100), has_distances=False).n_parameters == 54_216 - 9 * 256
