"""Training: the same after an interruption, at its best epoch, and better than before."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from headscope.engine.checkpoint import StateFile
from headscope.errors import OutputError, StudyError
from headscope.probes.train import Epoch, NoStateStore, TrainingOptions, train
from headscope.probes.word_nets import WordNet
from tests.probes.made import made_vectors, make_examples, store


class Interrupted(Exception):
    pass


class FailingStateFile(StateFile):
    """Fails after the second save, as a killed run would."""

    def save(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        super().save(tensors, facts)
        if len(facts["epochs"]) == 2:
            raise Interrupted


def test_resuming_gives_the_weights_of_an_uninterrupted_run(tmp_path: Path) -> None:
    treebank, vectors = store(tmp_path, make_examples(60)), made_vectors()
    options = TrainingOptions(epochs=5)
    whole, resumed = (WordNet(vectors, has_distances=True) for _ in range(2))
    epochs = train(whole, treebank, vectors.row_of, options, NoStateStore())
    path = tmp_path / "net.safetensors"
    with pytest.raises(Interrupted):
        train(resumed, treebank, vectors.row_of, options, FailingStateFile(path))
    fresh = WordNet(vectors, has_distances=True)
    torch.nn.init.zeros_(fresh.weights["out"])  # what it starts from does not matter
    assert train(fresh, treebank, vectors.row_of, options, StateFile(path)) == epochs
    for name, value in whole.state_dict().items():
        assert torch.equal(value, fresh.state_dict()[name]), name


def test_a_finished_training_is_not_repeated(tmp_path: Path) -> None:
    treebank, vectors = store(tmp_path, make_examples(40)), made_vectors()
    file = StateFile(tmp_path / "net.safetensors")
    first, second = (WordNet(vectors, has_distances=False) for _ in range(2))
    train(first, treebank, vectors.row_of, TrainingOptions(epochs=2), file)
    before = file.path.stat().st_mtime_ns
    train(second, treebank, vectors.row_of, TrainingOptions(epochs=2), file)
    assert file.path.stat().st_mtime_ns == before
    assert torch.equal(first.weights["out"], second.weights["out"])


def test_training_learns_and_every_seed_has_its_best_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    treebank, vectors = store(tmp_path, make_examples(60)), made_vectors()
    grades = {0: [0.5, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.6], 1: [0.2, 0.9] + [0.3] * 6}
    at_best: dict[int, Tensor] = {}

    def grade(model: WordNet, seed: int, *rest: object) -> float:
        found = grades[seed].pop(0)
        if found in (0.6, 0.9):  # the last epoch of one, the second of the other
            at_best[seed] = model.weights["out"][seed].detach().clone()
        return found

    monkeypatch.setattr("headscope.probes.train._grade", grade)
    net = WordNet(vectors, has_distances=True, seeds=(0, 1))
    seen: list[Epoch] = []
    options = TrainingOptions(epochs=8, seeds=2)
    epochs = train(net, treebank, vectors.row_of, options, NoStateStore(), seen.append)
    assert seen == epochs
    assert [epoch.number for epoch in epochs] == list(range(1, 9))
    assert epochs[-1].loss < epochs[0].loss
    assert not torch.equal(at_best[0], at_best[1])
    for seed, weights in at_best.items():
        assert torch.equal(net.weights["out"][seed], weights)


def test_the_rate_falls_evenly_over_all_epochs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates, step = list[float](), torch.optim.Adam.step

    def note(adam: torch.optim.Adam) -> None:
        rates.append(adam.param_groups[0]["lr"])
        step(adam)

    monkeypatch.setattr(torch.optim.Adam, "step", note)
    treebank, vectors = store(tmp_path, make_examples(150)), made_vectors()
    net = WordNet(vectors, has_distances=False)
    train(net, treebank, vectors.row_of, TrainingOptions(epochs=2), NoStateStore())
    assert rates[0] == net.rate
    assert rates == sorted(rates, reverse=True)
    assert rates[len(rates) // 2] == pytest.approx(net.rate / 2)
    assert 0 < rates[-1] < net.rate / 2


def test_the_seed_decides_the_weights(tmp_path: Path) -> None:
    treebank, vectors = store(tmp_path, make_examples(30)), made_vectors()

    def weights(seed: int) -> Tensor:
        net = WordNet(vectors, has_distances=False, seeds=(seed,))
        train(net, treebank, vectors.row_of, TrainingOptions(epochs=1, seed=seed), NoStateStore())
        return net.weights["out"]

    assert torch.equal(weights(1), weights(1))
    assert not torch.equal(weights(1), weights(2))


def test_a_tiny_training_set_is_refused(tmp_path: Path) -> None:
    treebank, vectors = store(tmp_path, make_examples(19)), made_vectors()
    with pytest.raises(StudyError, match="19 training sentences are too few"):
        train(WordNet(vectors, False), treebank, vectors.row_of, TrainingOptions(), NoStateStore())


def test_bad_options_and_damaged_state_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="epochs=0 cannot be used"):
        TrainingOptions(epochs=0)
    path = tmp_path / "net.safetensors"
    path.write_bytes(b"no state")
    with pytest.raises(OutputError, match="remove the file"):
        StateFile(path).load()
