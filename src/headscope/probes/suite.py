"""The probes of the paper's Table 3 over one model, and what one has to be.

A probe is a `Probe` in the registry: how it learns from a `Suite`, and what it needs for that. A
package of your own adds one as an entry point of the group `headscope.probes`.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, TypeVar

import numpy as np
import torch

from headscope.probes import baselines
from headscope.probes.attention_only import KINDS, AttentionOnly, fit_attention_only
from headscope.probes.batches import NeuralScorer, Scorer
from headscope.probes.labels import LabelProbe, fit_labels
from headscope.probes.parts import fit_heads
from headscope.probes.scores import ProbeScores, score_probe
from headscope.probes.structural import StructuralProbe, measure_scale
from headscope.probes.train import Epoch, StateStore, TrainingOptions, train
from headscope.probes.treebank import ProbeTreebank
from headscope.probes.vectors import UNKNOWN, WordVectors
from headscope.probes.word_nets import AttentionAndWords, WordNet

__all__ = ["Probe", "ProbeResult", "ProgressReport", "Suite", "run_probes", "run_side_by_side"]

T = TypeVar("T")

EMBEDDINGS = 0  # the layer before the first one
LEAST_FOUND = 20  # training words that a head must find, to be the best one of a relation
NO_ATTENTION = 1e-9  # the score of ROOT: above words without attention, below all others
DEFAULT_RANK = 64  # Hewitt and Manning find no gain from more

# A probe's name, how many steps are done, how many there may be if that is known, what to say.
ProgressReport = Callable[[str, int, int | None, str], None]


@dataclass(frozen=True)
class Probe:
    """How a probe learns, and what it needs."""

    learn: Callable[["Suite"], Scorer]
    needs_vectors: bool = False
    needs_hidden: bool = False  # reads the hidden states of the model
    of_untrained: bool = False  # reads the model without its training
    is_trained: bool = False  # minimizes a loss: it is asked how much of its score is its own doing


@dataclass(frozen=True, eq=False)
class ProbeResult:
    """The scores of a probe, and the sentences and parameters that it learned."""

    scores: ProbeScores
    sentences: int
    parameters: int


@dataclass(eq=False)
class Suite:
    """What probes learn from and are scored on: two treebanks with one model's numbers."""

    train: ProbeTreebank
    test: ProbeTreebank
    vectors: WordVectors | None
    options: TrainingOptions
    open_state: Callable[[str], StateStore]
    report: ProgressReport = lambda name, n_done, n_most, text: None
    compat: bool = False  # vectors as in the paper's released code
    prefix: str = ""  # of the names of its probes
    rank: int = DEFAULT_RANK  # of the structural probe
    layer: int = EMBEDDINGS  # of the structural probe
    fitted: dict[str, AttentionOnly] = field(default_factory=dict, init=False)  # by name
    learned: dict[str, Scorer] = field(default_factory=dict, init=False)
    epochs: dict[str, list[Epoch]] = field(default_factory=dict, init=False)
    shared: dict[str, Any] = field(default_factory=dict, init=False)  # what several probes need
    locks: dict[str, Lock] = field(default_factory=lambda: defaultdict(Lock), init=False)
    samples: dict[tuple[str, int], "Suite"] = field(default_factory=dict, init=False)

    def run(self, name: str, probe: Probe) -> ProbeResult:
        """Let a probe learn, and score it; one that reads attention also by the relations that
        attention tells."""
        scorer = self.learned[name] = probe.learn(self)
        label = self.label_probe.label if scorer.uses_maps and probe.is_trained else None
        scores = score_probe(scorer, self.test, self.row_of, label)
        n_learned = len(self.train) if scorer.n_parameters else 0
        return ProbeResult(scores, n_learned, scorer.n_parameters)

    def over(
        self,
        train: ProbeTreebank,
        test: ProbeTreebank,
        prefix: str,
        options: TrainingOptions | None = None,
    ) -> "Suite":
        """The same over other sentences or another model's numbers, named by the prefix."""
        return replace(self, train=train, test=test, prefix=prefix, options=options or self.options)

    def share(self, name: str, make: Callable[[], T]) -> T:
        """What several probes need, made once; whoever comes second waits for it."""
        with self.locks[name]:
            if name not in self.shared:
                self.shared[name] = make()
        value: T = self.shared[name]
        return value

    @property
    def head_counts(self) -> baselines.HeadCounts:
        """What every single head finds in the training sentences."""
        return self.share("head counts", lambda: baselines.count_correct(self.train))

    @property
    def label_probe(self) -> LabelProbe:
        """What tells the relation of an arc."""
        return self.share("labels", lambda: fit_labels(self.train, self.options.seed))

    @property
    def word_vectors(self) -> WordVectors:
        """The vectors, for a probe that needs them."""
        assert self.vectors is not None  # such a probe is not run without
        return self.vectors

    def row_of(self, word: str) -> int:
        """The row of a word's vector."""
        return self.vectors.row_of(word) if self.vectors else UNKNOWN

    def fit_attention_only(self) -> AttentionOnly:
        """The attention-only probe, fitted once."""
        name = f"{self.prefix}attention-only"
        losses = list[float]()

        def report(loss: float, gradient: float) -> None:
            losses.append(loss)
            self.report(name, len(losses), None, f"loss {loss:.5f}, gradient {gradient:.1e}")

        seed = self.options.seed
        fit = partial(fit_attention_only, self.train, seed=seed, report=report)
        self.fitted[name] = self.share(name, lambda: fit()[0])
        return self.fitted[name]

    def train_model(self, name: str, model: NeuralScorer) -> NeuralScorer:
        """The model after training; its state and progress are kept under the probe's name."""
        full_name = f"{self.prefix}{name}"

        def report(epoch: Epoch) -> None:
            text = f"loss {epoch.loss:.4f}, held out {epoch.grade:.4f}"
            self.report(full_name, epoch.number, self.options.epochs, text)

        state = self.open_state(full_name)
        self.epochs[name] = train(model, self.train, self.row_of, self.options, state, report)
        return model

    def best_grade(self, name: str) -> float:
        """How a trained probe did on held-out documents, at best, on average over its seeds."""
        by_seed = np.array([epoch.grades for epoch in self.epochs[name]])  # [epoch, seed]
        return float(by_seed.max(axis=0).mean())

    def train_structural(self, layer: int) -> StructuralProbe:
        """The structural probe over the vectors of a layer."""
        scale = measure_scale(self.train, layer, self.options.seed)
        model = StructuralProbe(layer, scale, self.rank, self.options.all_seeds)
        self.train_model(f"structural-probe-layer-{layer}", model)
        return model


def run_side_by_side(tasks: Mapping[str, Callable[[], T]]) -> dict[str, T]:
    """The result of each task, one core each, which is as fast as two for the small steps of
    probes; the error of the first that fails."""
    waiting = SimpleQueue[tuple[str, Callable[[], T]]]()
    for task in tasks.items():
        waiting.put(task)
    results, errors = dict[str, T](), list[BaseException]()

    def work() -> None:
        torch.set_num_threads(1)  # of this thread
        try:
            while not errors:
                name, task = waiting.get_nowait()
                results[name] = task()
        except Empty:
            pass
        except BaseException as error:
            errors.append(error)

    n_threads = min(torch.get_num_threads(), len(tasks))
    # Ctrl-C ends the program without waiting for daemons; what they learned so far is saved.
    threads = [Thread(target=work, daemon=True) for _ in range(n_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return {name: results[name] for name in tasks}


def run_probes(probes: Mapping[str, Probe], suites: Mapping[str, Suite]) -> dict[str, ProbeResult]:
    """The result of each probe, learned in its suite, on all cores."""
    in_turn = sorted(probes, key=lambda name: _turn(probes[name]))
    tasks = {name: partial(suites[name].run, name, probes[name]) for name in in_turn}
    results = run_side_by_side(tasks)
    return {name: results[name] for name in probes}


def _turn(probe: Probe) -> int:
    """First what others start from, then what takes longest, so that no core waits at the end."""
    if probe.is_trained and not probe.needs_vectors and not probe.needs_hidden:
        return 0
    return 1 if probe.needs_vectors else 2 if probe.is_trained else 3


def learn_words(suite: Suite, name: str, has_distances: bool) -> NeuralScorer:
    """A net over the vectors of two words, and optionally the distance between them."""
    model = WordNet(suite.word_vectors, has_distances, suite.options.all_seeds)
    return suite.train_model(name, model)


def learn_attention_and_words(suite: Suite) -> NeuralScorer:
    """Weights of heads that depend on the words, starting from those of the attention alone."""
    start = suite.fit_attention_only()
    model = AttentionAndWords(suite.word_vectors, start, suite.options.all_seeds, suite.compat)
    return suite.train_model("attention-and-words", model)


def learn_best_heads(suite: Suite) -> AttentionOnly:
    """The heads that are best for some relation, with one weight for each kind of attention."""
    chosen = baselines.choose_heads(suite.head_counts).values()
    return fit_heads("", suite.train, sorted({head.map for head in chosen})).probe


def combine_best_heads(suite: Suite) -> AttentionOnly:
    """The sum of the best heads of all relations, each as often as it is the best; not trained."""
    n_maps = suite.head_counts[baselines.ALL_WORDS].shape[1]
    weights = np.zeros((len(KINDS), n_maps))
    for relation, head in baselines.choose_heads(suite.head_counts).items():
        n_found = suite.head_counts[relation][:, head.map, head.direction].sum()
        if relation != baselines.ALL_WORDS and n_found >= LEAST_FOUND:
            weights[head.direction, head.map] += 1
    return AttentionOnly(weights, NO_ATTENTION)


RIGHT_BRANCHING = Probe(lambda suite: baselines.FixedOffset(1))
LEFT_BRANCHING = Probe(lambda suite: baselines.FixedOffset(-1))
BEST_OFFSET = Probe(lambda suite: baselines.choose_offset(suite.train))
BEST_SINGLE_HEAD = Probe(
    lambda suite: baselines.choose_heads(suite.head_counts)[baselines.ALL_WORDS]
)
BEST_HEADS_COMBINED = Probe(combine_best_heads)
BEST_HEADS = Probe(learn_best_heads, is_trained=True)
WORDS_ONLY = Probe(
    partial(learn_words, name="words-only", has_distances=False),
    needs_vectors=True,
    is_trained=True,
)
DISTANCES_AND_WORDS = Probe(
    partial(learn_words, name="distances-and-words", has_distances=True),
    needs_vectors=True,
    is_trained=True,
)
ATTENTION_ONLY = Probe(Suite.fit_attention_only, is_trained=True)
ATTENTION_AND_WORDS = Probe(learn_attention_and_words, needs_vectors=True, is_trained=True)
STRUCTURAL = Probe(
    lambda suite: suite.train_structural(suite.layer), needs_hidden=True, is_trained=True
)
STRUCTURAL_EMBEDDINGS = Probe(
    lambda suite: suite.train_structural(EMBEDDINGS), needs_hidden=True, is_trained=True
)
UNTRAINED_ATTENTION_ONLY = replace(ATTENTION_ONLY, of_untrained=True)
UNTRAINED_ATTENTION_AND_WORDS = replace(ATTENTION_AND_WORDS, of_untrained=True)
UNTRAINED_STRUCTURAL = replace(STRUCTURAL, of_untrained=True)
