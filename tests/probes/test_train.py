"""Training: the same after an interruption, stopped in time, and better than before."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from headscope.errors import OutputError, StudyError
from headscope.probes.baselines import WordNet
from headscope.probes.train import Epoch, NoCheckpoint, Plan, train
from headscope.runs.probe_files import FileCheckpoint
from tests.probes.made import made_vectors, make_examples, store


class Interrupted(Exception):
    pass


class FailingCheckpoint(FileCheckpoint):
    """Fails after the second save, as a killed run would."""

    def save(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        super().save(tensors, facts)
        if len(facts["epochs"]) == 2:
            raise Interrupted


def test_resuming_gives_the_weights_of_an_uninterrupted_run(tmp_path: Path) -> None:
    treebank, vectors = store(tmp_path, make_examples(60)), made_vectors()
    plan = Plan(epochs=5, patience=5)
    whole, resumed = (WordNet(vectors, has_distances=True) for _ in range(2))
    epochs = train(whole, treebank, vectors.row_of, plan, NoCheckpoint())
    path = tmp_path / "net.safetensors"
    with pytest.raises(Interrupted):
        train(resumed, treebank, vectors.row_of, plan, FailingCheckpoint(path))
    fresh = WordNet(vectors, has_distances=True, seed=7)  # what it starts from does not matter
    assert train(fresh, treebank, vectors.row_of, plan, FileCheckpoint(path)) == epochs
    for name, value in whole.state_dict().items():
        assert torch.equal(value, fresh.state_dict()[name]), name


def test_a_finished_training_is_not_repeated(tmp_path: Path) -> None:
    treebank, vectors = store(tmp_path, make_examples(40)), made_vectors()
    checkpoint = FileCheckpoint(tmp_path / "net.safetensors")
    first, second = (WordNet(vectors, has_distances=False) for _ in range(2))
    train(first, treebank, vectors.row_of, Plan(epochs=2), checkpoint)
    before = checkpoint.path.stat().st_mtime_ns
    train(second, treebank, vectors.row_of, Plan(epochs=2), checkpoint)
    assert checkpoint.path.stat().st_mtime_ns == before
    assert torch.equal(first.out.weight, second.out.weight)


def test_training_learns_and_stops_early_at_its_best(tmp_path: Path) -> None:
    treebank, vectors = store(tmp_path, make_examples(60)), made_vectors()
    net = WordNet(vectors, has_distances=True)
    seen: list[Epoch] = []
    epochs = train(
        net, treebank, vectors.row_of, Plan(epochs=500, patience=2), NoCheckpoint(), seen.append
    )
    assert seen == epochs
    assert 3 <= len(epochs) < 500
    best = max(epochs, key=lambda epoch: epoch.uas)
    assert best.number == len(epochs) - 2
    assert epochs[-1].loss < epochs[0].loss


def test_the_seed_decides_the_weights(tmp_path: Path) -> None:
    treebank, vectors = store(tmp_path, make_examples(30)), made_vectors()

    def weights(seed: int) -> Tensor:
        net = WordNet(vectors, has_distances=False, seed=seed)
        train(net, treebank, vectors.row_of, Plan(epochs=1, seed=seed), NoCheckpoint())
        return net.out.weight

    assert torch.equal(weights(1), weights(1))
    assert not torch.equal(weights(1), weights(2))


def test_a_tiny_training_set_is_refused(tmp_path: Path) -> None:
    treebank, vectors = store(tmp_path, make_examples(19)), made_vectors()
    with pytest.raises(StudyError, match="19 training sentences are too few"):
        train(WordNet(vectors, False), treebank, vectors.row_of, Plan(), NoCheckpoint())


def test_bad_plans_and_damaged_checkpoints_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="--epochs 0"):
        Plan(epochs=0)
    path = tmp_path / "net.safetensors"
    path.write_bytes(b"no state")
    with pytest.raises(OutputError, match="remove the file"):
        FileCheckpoint(path).load()
