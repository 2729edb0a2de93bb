"""The attention-only probe: its loss, and its one optimum."""

from math import log
from pathlib import Path

import numpy as np
import pytest
import torch

from headscope.data.encoding import Encoding
from headscope.data.example import ROOT, Example, Tree
from headscope.probes.attention_only import (
    PENALTY,
    compute_hessian,
    fit_attention_only,
    loss_and_gradient,
)
from headscope.probes.scores import score_probe
from tests.making import N_HEADS, N_LAYERS, MadeSource
from tests.probes.made import PLANTED_TREE, SYNTAX, make_examples, store
from tests.references.probes import attention_only_loss

N_MAPS = N_LAYERS * N_HEADS
N_WEIGHTS = 4 * N_MAPS + 1


def drop_boats(word: str, place: int) -> int:
    """A tokenizer that knows no boats, and splits every second word."""
    return 0 if word == "boat" else 1 + place % 2


@pytest.mark.parametrize("pieces", [lambda word, place: 1, drop_boats])
def test_loss_and_gradient_equal_plain_loops(tmp_path: Path, pieces) -> None:  # type: ignore[no-untyped-def]
    treebank = store(tmp_path, make_examples(12), MadeSource(pieces=pieces))
    weights = np.random.default_rng(0).standard_normal(N_WEIGHTS)
    maps = [treebank.maps.sentence(i).double().numpy() for i in range(len(treebank))]
    loss, gradient = loss_and_gradient(treebank, weights)
    expected = attention_only_loss(maps, treebank.sentences, weights, PENALTY)
    assert loss == pytest.approx(expected[0], rel=1e-12)
    np.testing.assert_allclose(gradient, expected[1], rtol=1e-9, atol=1e-12)


def test_the_gradient_and_the_hessian_are_differences_of_the_loss(tmp_path: Path) -> None:
    treebank = store(tmp_path, make_examples(8))
    rng = np.random.default_rng(1)
    weights, direction = rng.standard_normal((2, N_WEIGHTS))
    step = 1e-5

    def at(distance: float) -> tuple[float, np.ndarray]:
        return loss_and_gradient(treebank, weights + distance * direction)

    slope = (at(step)[0] - at(-step)[0]) / (2 * step)
    assert at(0)[1] @ direction == pytest.approx(slope, rel=1e-6)
    bend = (at(step)[1] - at(-step)[1]) / (2 * step)
    np.testing.assert_allclose(compute_hessian(treebank, weights) @ direction, bend, atol=1e-8)


def test_the_optimum_does_not_depend_on_order_batches_or_seed(tmp_path: Path) -> None:
    examples = make_examples(60)
    shuffled = [examples[i] for i in np.random.default_rng(3).permutation(len(examples))]
    first, _ = fit_attention_only(store(tmp_path / "a", examples), 1e-9, seed=0)
    other = store(tmp_path / "b", shuffled, shard_examples=7, batch_tokens=64)
    second, _ = fit_attention_only(other, 1e-9, seed=5)
    np.testing.assert_allclose(first.weights, second.weights, rtol=1e-4, atol=1e-4)
    assert first.root == pytest.approx(second.root, abs=1e-4)


def test_the_optimum_of_a_small_case_is_known(tmp_path: Path) -> None:
    """Two words; the one that attends to the other hangs on it in 3 of 4 sentences.

    The odds are then 3 : 1 for the word that attends and 1 : 3 for the other, so the weights of
    the two directions are ln 3 and -ln 3, and ROOT's constant is 0.
    """
    examples = [
        Example(f"small:{i}", words=("a", "b"), tree=Tree(heads, ("x", "y")))
        for i, heads in enumerate([(1, ROOT), (1, ROOT), (1, ROOT), (ROOT, 0)])
    ]

    def look_ahead(encoding: Encoding) -> torch.Tensor:
        maps = torch.zeros(N_LAYERS, N_HEADS, len(encoding), len(encoding))
        maps[0, 2, 1, 2] = 1.0  # from a to b, and nowhere else
        return maps

    source = MadeSource(look_ahead, pieces=lambda word, place: 1)
    probe, minimum = fit_attention_only(store(tmp_path, examples, source), 1e-8)
    assert minimum.is_converged
    assert probe.weights[0, 2] == pytest.approx(log(3), abs=1e-4)
    assert probe.weights[1, 2] == pytest.approx(-log(3), abs=1e-4)
    assert probe.root == pytest.approx(0, abs=1e-4)
    assert np.abs(np.delete(probe.weights, 2, axis=1)).max() == pytest.approx(0, abs=1e-4)


def test_a_planted_head_is_weighed_up_and_found(tmp_path: Path) -> None:
    treebank = store(tmp_path, make_examples(150), PLANTED_TREE)
    probe, minimum = fit_attention_only(treebank)
    assert minimum.is_converged
    planted = SYNTAX[0] * N_HEADS + SYNTAX[1]
    assert probe.weights[0].argmax() == planted  # dependent-to-head
    assert probe.weights[2].argmax() == planted  # the root looks at the opening token
    test = store(tmp_path / "test", make_examples(50, first=1000), PLANTED_TREE)
    scores = score_probe(probe, test)
    assert scores.correct[:, 0].sum() / scores.count[:, 0].sum() > 0.9
