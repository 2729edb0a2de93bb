"""Training a probe by Adam, several seeds at once, resumable.

The rate falls evenly from its first value to 0 over all epochs. As grades rise most near the end,
none of them is left out; the best one counts.

A seed decides the first weights and the documents that are held out. All seeds read the sentences
in the same order, so that they are read once.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from jaxtyping import Bool
from numpy.typing import NDArray
from torch import Tensor

from headscope.errors import StudyError
from headscope.options import require
from headscope.probes.batches import NeuralScorer, RowOf, make_batches
from headscope.probes.treebank import ProbeTreebank

__all__ = [
    "Epoch", "NoStateStore", "StateStore", "TrainingOptions", "is_enough", "refuse_tiny", "train",
]  # fmt: skip

LEAST_SENTENCES, LEAST_DOCUMENTS = 20, 2
HELD_OUT_SHARE, MOST_HELD_OUT = 0.1, 500
EPOCH_SENTENCES = 4000  # at most: of a large treebank an epoch draws some


@dataclass(frozen=True)
class TrainingOptions:
    """How a probe is trained."""

    epochs: int = 12
    seed: int = 0
    seeds: int = 1  # how many are trained: the seed and those that follow it

    def __post_init__(self) -> None:
        require(self.epochs > 0, "epochs", self.epochs, "at least 1")

    @property
    def all_seeds(self) -> range:
        """Those that are trained side by side."""
        return range(self.seed, self.seed + self.seeds)


class Epoch(NamedTuple):
    """What an epoch achieved."""

    number: int  # from 1
    loss: float  # mean over the words learned from, and seeds
    grades: tuple[float, ...]  # of each seed, on its held-out sentences

    @property
    def grade(self) -> float:
        """The mean over seeds."""
        return sum(self.grades) / len(self.grades)


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
    """Train; each seed has the weights of the epoch that is best on its held-out documents."""
    refuse_tiny(len(treebank), treebank.n_documents)
    n_held_out = min(int(np.ceil(HELD_OUT_SHARE * len(treebank))), MOST_HELD_OUT)
    is_held_out = np.stack([treebank.hold_out(n_held_out, seed) for seed in model.seeds])
    held_out = [treebank.take(np.flatnonzero(places)) for places in is_held_out]
    state = _State(model, options.epochs)
    state.restore(store.load())
    for epoch in state.epochs:
        report(epoch)
    for number in range(len(state.epochs) + 1, options.epochs + 1):
        rng = np.random.default_rng([options.seed, number])  # an epoch's order is its own
        loss = _learn(state, treebank, ~is_held_out, row_of, rng)
        grades = tuple(_grade(model, i, some, row_of) for i, some in enumerate(held_out))
        epoch = Epoch(number, loss, grades)
        state.add(epoch)
        store.save(*state.describe())
        report(epoch)
    model.load_state_dict(state.best)
    return state.epochs


def is_enough(treebank: ProbeTreebank) -> bool:
    """Whether there is something to learn from and something to hold out."""
    return len(treebank) >= LEAST_SENTENCES and treebank.n_documents >= LEAST_DOCUMENTS


def refuse_tiny(n_sentences: int, n_documents: int) -> None:
    """An error where there is too little to learn from and to hold out."""
    if n_sentences < LEAST_SENTENCES:
        raise StudyError(
            f"{n_sentences} training sentences are too few. Expected at least {LEAST_SENTENCES}, "
            "of which some are held out; give a larger --train, or raise --sentences."
        )
    if n_documents < LEAST_DOCUMENTS:
        raise StudyError(
            f"All {n_sentences} training sentences are of one document. Expected at least "
            f"{LEAST_DOCUMENTS} documents, as whole documents are held out; give a larger --train, "
            "with a line # newdoc where each document begins."
        )


class _State:
    """The model, its optimizer, the epochs so far, and the weights of each seed's best one."""

    def __init__(self, model: NeuralScorer, n_epochs: int) -> None:
        self.model, self.n_epochs = model, n_epochs
        self.optimizer = torch.optim.Adam(model.parameters(), lr=model.rate, fused=True)
        self.epochs: list[Epoch] = []
        self.best = {name: value.clone() for name, value in model.state_dict().items()}

    def add(self, epoch: Epoch) -> None:
        for seed, grade in enumerate(epoch.grades):
            if all(grade > earlier.grades[seed] for earlier in self.epochs):
                for name, value in self.model.state_dict().items():
                    self.best[name][seed] = value[seed]
        self.epochs.append(epoch)

    def step(self, share: float) -> None:
        """Take a step of the epoch under way, of which this share is over."""
        done = (len(self.epochs) + share) / self.n_epochs
        self.optimizer.param_groups[0]["lr"] = self.model.rate * (1 - done)
        self.optimizer.step()

    def describe(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors = {f"model/{name}": value for name, value in self.model.state_dict().items()}
        tensors |= {f"best/{name}": value for name, value in self.best.items()}
        for parameter, moments in self.optimizer.state_dict()["state"].items():
            tensors |= {f"adam/{parameter}/{name}": value for name, value in moments.items()}
        return tensors, {"epochs": [[e.number, e.loss, list(e.grades)] for e in self.epochs]}

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
        self.epochs = [Epoch(int(n), loss, tuple(grades)) for n, loss, grades in facts["epochs"]]


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}


def _learn(
    state: _State,
    treebank: ProbeTreebank,
    is_learned: Bool[NDArray[np.bool_], "seed sentence"],
    row_of: RowOf,
    rng: np.random.Generator,
) -> float:
    """One pass over the sentences, one step per batch; the mean loss of a word during it."""
    model, total, count = state.model, 0.0, 0.0
    chosen = np.sort(rng.permutation(len(treebank))[:EPOCH_SENTENCES])
    some = treebank.take(chosen)
    n_read = 0
    for group, batch in make_batches(some, row_of, model.uses_maps, rng, model.hidden_layer):
        is_own = torch.from_numpy(is_learned[:, chosen[group]])  # [seed, sentence]
        losses, counts = model.losses(batch)
        summed, n_learned = (losses * is_own).sum(1), (counts * is_own).sum(1)  # [seed]
        if not n_learned.any():
            continue
        state.optimizer.zero_grad()
        (summed / n_learned.clamp(min=1)).sum().backward()  # type: ignore[no-untyped-call]
        state.step(n_read / len(some))
        n_read += len(group)
        total, count = total + float(summed.detach().sum()), count + float(n_learned.sum())
    return total / max(count, 1)


def _grade(model: NeuralScorer, seed: int, treebank: ProbeTreebank, row_of: RowOf) -> float:
    """The grade of one seed on these sentences, by which its epochs are compared."""
    total, count = 0.0, 0
    batches = make_batches(treebank, row_of, model.uses_maps, hidden_layer=model.hidden_layer)
    with torch.inference_mode(), model.only(seed):
        for _, batch in batches:
            grades, counts = model.grades(batch)
            total, count = total + float(grades.sum()), count + int(counts.sum())
    return total / max(count, 1)
