"""Training a probe by Adam: seeded, stopped early, and able to go on where it was stopped."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from headscope.errors import StudyError
from headscope.probes.attention_words import AttentionAndWords
from headscope.probes.baselines import WordNet
from headscope.probes.batches import Batch, Scorer, make_batches, score_sentences
from headscope.probes.treebank import NO_HEAD, ProbeTreebank, is_punctuation

__all__ = [
    "LEAST_SENTENCES",
    "Checkpoint",
    "Epoch",
    "NoCheckpoint",
    "Plan",
    "TrainedProbe",
    "refuse_tiny",
    "train",
]

LEAST_SENTENCES = 20
TrainedProbe = AttentionAndWords | WordNet
HELD_OUT_SHARE, MOST_HELD_OUT = 0.1, 1000


@dataclass(frozen=True)
class Plan:
    """How a probe is trained."""

    epochs: int = 20
    patience: int = 3  # epochs without a better UAS on held-out sentences
    rate: float = 0.002
    seed: int = 0

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise StudyError(f"--epochs {self.epochs} cannot be used. Expected at least 1.")


@dataclass(frozen=True)
class Epoch:
    """What an epoch came to."""

    number: int  # from 1
    loss: float  # mean over the words learned from
    uas: float  # on held-out training sentences


class Checkpoint(Protocol):
    """Where the state of training is kept between epochs."""

    def load(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """The tensors and the facts last saved."""

    def save(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None: ...


class NoCheckpoint:
    """Nothing is kept."""

    def load(self) -> None:
        return None

    def save(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        pass


def train(
    model: TrainedProbe,
    treebank: ProbeTreebank,
    row_of: Callable[[str], int],
    plan: Plan,
    checkpoint: Checkpoint,
    report: Callable[[Epoch], None] = lambda epoch: None,
) -> list[Epoch]:
    """Train until held-out sentences gain no more, and leave the model at its best epoch."""
    refuse_tiny(len(treebank))
    n_held_out = min(int(np.ceil(HELD_OUT_SHARE * len(treebank))), MOST_HELD_OUT)
    learned, held_out = treebank.split(n_held_out, plan.seed)
    state = _State(model, torch.optim.Adam(model.parameters(), lr=plan.rate))
    state.restore(checkpoint.load())
    for epoch in state.epochs:
        report(epoch)
    while not state.is_done(plan):
        number = len(state.epochs) + 1
        rng = np.random.default_rng([plan.seed, number])  # an epoch's order is its own
        loss = _learn(state, learned, row_of, rng)
        epoch = Epoch(number, loss, held_out_uas(model, held_out, row_of))
        state.add(epoch)
        checkpoint.save(*state.describe())
        report(epoch)
    model.load_state_dict(state.best)
    return state.epochs


def refuse_tiny(n_sentences: int) -> None:
    """An error where there is too little to learn from and to hold out."""
    if n_sentences < LEAST_SENTENCES:
        raise StudyError(
            f"{n_sentences} training sentences are too few. Expected at least {LEAST_SENTENCES}, "
            "of which some are held out; give a larger --train, or raise --sentences."
        )


class _State:
    """The model, its optimizer, what the epochs came to, and the best weights so far."""

    def __init__(self, model: TrainedProbe, optimizer: torch.optim.Adam) -> None:
        self.model, self.optimizer = model, optimizer
        self.epochs: list[Epoch] = []
        self.best = self._copy()

    def _copy(self) -> dict[str, Tensor]:
        return {name: value.clone() for name, value in self.model.state_dict().items()}

    def add(self, epoch: Epoch) -> None:
        if all(epoch.uas > before.uas for before in self.epochs):
            self.best = self._copy()
        self.epochs.append(epoch)

    def is_done(self, plan: Plan) -> bool:
        if not self.epochs:
            return False
        best = max(self.epochs, key=lambda epoch: epoch.uas).number  # the first of equals
        return len(self.epochs) >= plan.epochs or len(self.epochs) - best >= plan.patience

    def describe(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors = {f"model/{name}": value for name, value in self.model.state_dict().items()}
        tensors |= {f"best/{name}": value for name, value in self.best.items()}
        for place, moments in self.optimizer.state_dict()["state"].items():
            tensors |= {f"adam/{place}/{name}": value for name, value in moments.items()}
        return tensors, {"epochs": [[e.number, e.loss, e.uas] for e in self.epochs]}

    def restore(self, saved: tuple[dict[str, Tensor], dict[str, Any]] | None) -> None:
        if saved is None:
            return
        tensors, facts = saved
        self.model.load_state_dict(_under("model/", tensors))
        self.best = _under("best/", tensors)
        moments: dict[int, dict[str, Tensor]] = {}
        for name, value in _under("adam/", tensors).items():
            place, _, moment = name.partition("/")
            moments.setdefault(int(place), {})[moment] = value
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": moments, "param_groups": groups})
        self.epochs = [Epoch(int(n), loss, uas) for n, loss, uas in facts["epochs"]]


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}


def _learn(
    state: _State,
    treebank: ProbeTreebank,
    row_of: Callable[[str], int],
    rng: np.random.Generator,
) -> float:
    """One pass over all sentences, a step a batch; the mean loss of a word on the way."""
    total, count = 0.0, 0
    for _, batch in make_batches(treebank, row_of, state.model.uses_maps, rng):
        n_arcs = int((batch.heads > NO_HEAD).sum())
        if n_arcs == 0:
            continue
        loss = arc_losses(state.model(batch), batch).sum()
        state.optimizer.zero_grad()
        (loss / n_arcs).backward()  # type: ignore[no-untyped-call]
        state.optimizer.step()
        total, count = total + float(loss.detach()), count + n_arcs
    return total / max(count, 1)


def arc_losses(scores: Tensor, batch: Batch) -> Tensor:
    """-ln p of the head of every word that has one."""
    is_arc = batch.heads > NO_HEAD
    return nn.functional.cross_entropy(scores[is_arc], batch.targets[is_arc], reduction="none")


def held_out_uas(scorer: Scorer, treebank: ProbeTreebank, row_of: Callable[[str], int]) -> float:
    """The share of heads found, punctuation left out, as one number to stop by."""
    found, count = 0, 0
    for place, scores in score_sentences(scorer, treebank, row_of):
        sentence = treebank.sentences[place]
        best = scores.argmax(axis=1)
        heads = np.where(best == len(sentence), -1, best)
        counts = np.array([not is_punctuation(relation) for relation in sentence.relations])
        counts &= sentence.heads > NO_HEAD
        found += int((heads == sentence.heads)[counts].sum())
        count += int(counts.sum())
    return found / max(count, 1)
