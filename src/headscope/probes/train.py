"""Training a probe by Adam: seeded, stopped early, resumable."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from headscope.data.tree import ROOT
from headscope.errors import StudyError
from headscope.options import require
from headscope.probes.batches import (
    NeuralScorer,
    RowOf,
    Scorer,
    SentenceBatch,
    make_batches,
    score_sentences,
)
from headscope.probes.treebank import NO_HEAD, ProbeTreebank

__all__ = [
    "LEAST_SENTENCES", "Epoch", "NoStateStore", "StateStore", "TrainingOptions", "refuse_tiny",
    "train",
]  # fmt: skip

LEAST_SENTENCES = 20
HELD_OUT_SHARE, MOST_HELD_OUT = 0.1, 1000


@dataclass(frozen=True)
class TrainingOptions:
    """How a probe is trained."""

    epochs: int = 20
    patience: int = 3  # epochs without a better UAS on held-out sentences
    rate: float = 0.002
    seed: int = 0

    def __post_init__(self) -> None:
        require(self.epochs > 0, "epochs", self.epochs, "at least 1")


class Epoch(NamedTuple):
    """What an epoch achieved."""

    number: int  # from 1
    loss: float  # mean over the words learned from
    uas: float  # on held-out training sentences


class StateStore(Protocol):
    """Keeps the state of training between epochs."""

    def load(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """The tensors and the facts last saved."""

    def save(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None: ...


class NoStateStore:
    """Nothing is kept."""

    def load(self) -> None:
        return None

    def save(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        pass


def train(
    model: NeuralScorer,
    treebank: ProbeTreebank,
    row_of: RowOf,
    options: TrainingOptions,
    store: StateStore,
    report: Callable[[Epoch], None] = lambda epoch: None,
) -> list[Epoch]:
    """Train until held-out UAS stops rising; the model has the weights of its best epoch."""
    refuse_tiny(len(treebank))
    n_held_out = min(int(np.ceil(HELD_OUT_SHARE * len(treebank))), MOST_HELD_OUT)
    learned, held_out = treebank.split(n_held_out, options.seed)
    state = _State(model, torch.optim.Adam(model.parameters(), lr=options.rate))
    state.restore(store.load())
    for epoch in state.epochs:
        report(epoch)
    while not state.is_done(options):
        number = len(state.epochs) + 1
        rng = np.random.default_rng([options.seed, number])  # an epoch's order is its own
        loss = _learn(state, learned, row_of, rng)
        epoch = Epoch(number, loss, held_out_uas(model, held_out, row_of))
        state.add(epoch)
        store.save(*state.describe())
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
    """The model, its optimizer, the epochs so far, and the weights of the best one."""

    def __init__(self, model: NeuralScorer, optimizer: torch.optim.Adam) -> None:
        self.model, self.optimizer = model, optimizer
        self.epochs: list[Epoch] = []
        self.best = self._copy()

    def _copy(self) -> dict[str, Tensor]:
        return {name: value.clone() for name, value in self.model.state_dict().items()}

    def add(self, epoch: Epoch) -> None:
        if all(epoch.uas > before.uas for before in self.epochs):
            self.best = self._copy()
        self.epochs.append(epoch)

    def is_done(self, options: TrainingOptions) -> bool:
        if not self.epochs:
            return False
        best = max(self.epochs, key=lambda epoch: epoch.uas).number  # the first of equals
        return len(self.epochs) >= options.epochs or len(self.epochs) - best >= options.patience

    def describe(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors = {f"model/{name}": value for name, value in self.model.state_dict().items()}
        tensors |= {f"best/{name}": value for name, value in self.best.items()}
        for parameter, moments in self.optimizer.state_dict()["state"].items():
            tensors |= {f"adam/{parameter}/{name}": value for name, value in moments.items()}
        return tensors, {"epochs": [list(epoch) for epoch in self.epochs]}

    def restore(self, saved: tuple[dict[str, Tensor], dict[str, Any]] | None) -> None:
        if saved is None:
            return
        tensors, facts = saved
        self.model.load_state_dict(_under("model/", tensors))
        self.best = _under("best/", tensors)
        moments: dict[int, dict[str, Tensor]] = {}
        for name, value in _under("adam/", tensors).items():
            parameter, _, moment = name.partition("/")
            moments.setdefault(int(parameter), {})[moment] = value
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": moments, "param_groups": groups})
        self.epochs = [Epoch(int(n), loss, uas) for n, loss, uas in facts["epochs"]]


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}


def _learn(
    state: _State, treebank: ProbeTreebank, row_of: RowOf, rng: np.random.Generator
) -> float:
    """One pass over all sentences, one step per batch; the mean loss of a word during it."""
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


def arc_losses(scores: Tensor, batch: SentenceBatch) -> Tensor:
    """-ln p of the head of every word that has one."""
    is_arc = batch.heads > NO_HEAD
    return nn.functional.cross_entropy(scores[is_arc], batch.targets[is_arc], reduction="none")


def held_out_uas(scorer: Scorer, treebank: ProbeTreebank, row_of: RowOf) -> float:
    """The share of correct heads, punctuation left out, as one number to stop by."""
    n_correct, n_scored = 0, 0
    for i, scores in score_sentences(scorer, treebank, row_of):
        sentence = treebank.sentences[i]
        best = scores.argmax(axis=1)
        heads = np.where(best == len(sentence), ROOT, best)
        n_correct += int((heads == sentence.heads)[sentence.is_scored].sum())
        n_scored += int(sentence.is_scored.sum())
    return n_correct / max(n_scored, 1)
