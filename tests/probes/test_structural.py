"""The structural probe: equal to plain loops, and finds a tree that is planted in vectors."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from headscope.data.example import ROOT
from headscope.errors import OutputError, StudyError
from headscope.probes.batches import make_batches, score_sentences
from headscope.probes.controls import give_control_heads
from headscope.probes.geometry import (
    GEOMETRY,
    chain_geometry,
    choose_layer,
    estimate_geometry,
    fit_layers,
    list_structures,
    probe_geometry,
)
from headscope.probes.scores import score_probe
from headscope.probes.store import open_store
from headscope.probes.structural import StructuralProbe, measure_scale, refuse_rank
from headscope.probes.suite import STRUCTURAL, STRUCTURAL_EMBEDDINGS, Suite
from headscope.probes.tables import structure_table
from headscope.probes.train import NoStateStore, TrainingOptions
from headscope.probes.treebank import ProbeTreebank
from tests.probes.made import DIMENSION, make_examples, store_vectors
from tests.references import structure as slow


@pytest.fixture(scope="module")
def treebank(tmp_path_factory: pytest.TempPathFactory) -> ProbeTreebank:
    return store_vectors(tmp_path_factory.mktemp("train"), make_examples(120))


@pytest.fixture(scope="module")
def test_set(tmp_path_factory: pytest.TempPathFactory) -> ProbeTreebank:
    return store_vectors(tmp_path_factory.mktemp("test"), make_examples(40, first=900))


@pytest.fixture(scope="module")
def suite(treebank: ProbeTreebank, test_set: ProbeTreebank) -> Suite:
    options = TrainingOptions(epochs=30, seeds=2)
    suite = Suite(treebank, test_set, None, options, lambda name: NoStateStore(), rank=8)
    suite.layer = 1
    return suite


@pytest.fixture(autouse=True)
def quick_learning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StructuralProbe, "rate", 0.05)


def random_probe(treebank: ProbeTreebank, seeds: tuple[int, ...] = (0, 1)) -> StructuralProbe:
    return StructuralProbe(1, measure_scale(treebank, 1), 5, seeds)


def predictions(
    probe: StructuralProbe, seed: int, treebank: ProbeTreebank
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    weights = [part.detach()[seed].double().numpy() for part in (probe.distance, probe.depth)]
    return [
        slow.structural_scores(
            treebank.maps.hidden(place, 1).double().numpy(), probe.scale.double().numpy(), *weights
        )
        for place in range(len(treebank))
    ]


def test_vectors_come_back_and_a_damaged_file_is_refused(tmp_path: Path) -> None:
    treebank = store_vectors(tmp_path, make_examples(9))
    maps = open_store(tmp_path / "both", treebank.maps.index.key)
    assert maps.hidden(3, 1).shape == (len(treebank.sentences[3]), DIMENSION)
    assert torch.equal(maps.cells(0, 9), treebank.maps.cells(0, 9))
    assert maps.cells(0, 0).shape == maps.cells(4, 4).shape == (0, maps.n_maps)
    file = tmp_path / "both" / "hidden-1.f16"
    content = bytearray(file.read_bytes())
    content[5] ^= 1
    file.write_bytes(content)
    with pytest.raises(OutputError, match=r"checksum of hidden-1\.f16 differs"):
        open_store(tmp_path / "both", treebank.maps.index.key)


def test_gold_depths_and_distances_equal_walks(test_set: ProbeTreebank) -> None:
    for sentence in test_set.sentences[:15]:
        for tree in (sentence, give_control_heads(sentence)):  # which has several roots
            for i in range(len(tree)):
                assert tree.depths[i] == slow.tree_distance(tree, i, ROOT) - 1
                for j in range(len(tree)):
                    assert tree.distances[i, j] == slow.tree_distance(tree, i, j)


def test_scores_and_losses_equal_plain_loops(test_set: ProbeTreebank) -> None:
    probe = random_probe(test_set)
    for seed in range(2):
        expected = predictions(probe, seed, test_set)
        with probe.only(seed):
            found = dict(score_sentences(probe, test_set))
        for place, scores in found.items():
            np.testing.assert_allclose(scores, expected[place][2], rtol=1e-3, atol=1e-3)
        for group, batch in make_batches(test_set, lambda word: 0, False, hidden_layer=1):
            losses, counts = probe.losses(batch)
            assert counts.tolist() == [1] * len(group)
            for i, place in enumerate(group):
                loss = slow.structural_loss(test_set.sentences[place], *expected[place][:2])
                assert float(losses[seed, i].detach()) == pytest.approx(loss, rel=1e-3)


def test_gradients_of_the_losses_equal_finite_differences(test_set: ProbeTreebank) -> None:
    probe, step = random_probe(test_set).double(), 1e-6
    _, batch = next(make_batches(test_set, lambda word: 0, False, hidden_layer=1))
    assert batch.hidden is not None
    batch = replace(batch, hidden=batch.hidden.double())
    by_sentence = torch.arange(1.0, 1 + len(batch.sizes))

    def loss() -> torch.Tensor:
        return (probe.losses(batch)[0] * by_sentence).sum()

    loss().backward()
    for weight in (probe.distance, probe.depth):
        direction = torch.randn(weight.shape, generator=torch.Generator().manual_seed(2))
        ends = []
        for sign in (1, -1):
            weight.data += sign * step * direction
            ends.append(float(loss().detach()))
            weight.data -= sign * step * direction
        assert weight.grad is not None
        slope = float((weight.grad * direction).sum())
        assert slope == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-4)


def test_measures_are_those_of_hewitt_and_manning(test_set: ProbeTreebank) -> None:
    probe = random_probe(test_set, (3,))
    distances, depths, _ = zip(*predictions(probe, 0, test_set), strict=True)
    expected = slow.hewitt_manning(test_set.sentences, distances, depths)
    found, *_ = probe_geometry(probe, test_set)
    assert {measure: found.value(measure) for measure in GEOMETRY} == pytest.approx(expected)
    n_words = [len(sentence) for sentence in test_set.sentences]
    chain = [np.abs(np.subtract.outer(np.arange(n), np.arange(n))) for n in n_words]
    places = [np.arange(n) for n in n_words]
    expected = slow.hewitt_manning(test_set.sentences, chain, places)
    found = chain_geometry(test_set)
    assert {measure: found.value(measure) for measure in GEOMETRY} == pytest.approx(expected)
    for measure in GEOMETRY:
        value, low, high = estimate_geometry([found], measure)
        assert low < value < high
        wider = estimate_geometry([found, probe_geometry(probe, test_set)[0]], measure)
        assert wider.high - wider.low > 0


def test_a_planted_tree_is_found_at_its_layer(suite: Suite) -> None:
    fits = fit_layers(suite)
    assert [fit.layer for fit in fits] == [0, 1]
    assert choose_layer(fits) == 1
    both = {"structural-probe": STRUCTURAL, "structural-probe-layer-0": STRUCTURAL_EMBEDDINGS}
    results = {name: suite.run(name, probe) for name, probe in both.items()}
    uas = {name: result.scores.shares[0] for name, result in results.items()}
    assert uas["structural-probe"] > 0.9
    assert uas["structural-probe-layer-0"] < 0.7
    assert results["structural-probe"].parameters == 2 * DIMENSION * 8
    assert results["structural-probe"].scores.by_seed.shape[0] == 2
    table = structure_table(list_structures(fits, dict.fromkeys(both, suite)))
    rows = table.set_index(["probe", "hidden"])
    assert rows.loc[("structural-probe", 1), "uuas"] > 0.95
    assert rows.loc[("structural-probe", 1), "depth_spearman"] > 0.9
    assert rows.loc[("each layer", 0), "uuas"] < 0.8
    assert table["probe"].iloc[-1] == "linear-chain"


def test_sentences_with_a_word_without_a_head_are_no_geometry(test_set: ProbeTreebank) -> None:
    broken = [replace(s, heads=np.where(s.heads == ROOT, -2, s.heads)) for s in test_set.sentences]
    lost = replace(test_set, sentences=broken)
    assert np.isnan(chain_geometry(lost).value("uuas"))
    _, batch = next(make_batches(lost, lambda word: 0, False, hidden_layer=1))
    losses, counts = random_probe(test_set).losses(batch)
    assert counts.sum() == losses.sum() == 0


def test_seeds_side_by_side_are_seeds_alone(suite: Suite) -> None:
    together = suite.train_structural(1)
    options = TrainingOptions(epochs=30, seeds=1)
    alone = suite.over(suite.train, suite.test, "alone-", options).train_structural(1)
    with together.only(0):
        first = score_probe(together, suite.test).correct
    np.testing.assert_array_equal(first, score_probe(alone, suite.test).correct)


def test_a_rank_beyond_the_vectors_is_refused() -> None:
    refuse_rank(8, 8)
    with pytest.raises(StudyError, match=r"rank=9 cannot be used: .* 8 dimensions"):
        refuse_rank(9, 8)
