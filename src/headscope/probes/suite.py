"""The probes of the paper's Table 3 over one model's attention, and what one has to be.

A probe is a `Probe` in the registry: how it learns from a `Suite`, and what it needs for that. A
package of your own adds one as an entry point of the group `headscope.probes`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from headscope.probes import baselines
from headscope.probes.attention_only import AttentionOnly, fit_attention_only
from headscope.probes.attention_words import AttentionAndWords
from headscope.probes.batches import NeuralScorer, Scorer
from headscope.probes.scores import score_probe
from headscope.probes.tables import ProbeResult
from headscope.probes.train import LEAST_SENTENCES, Epoch, StateStore, TrainingOptions, train
from headscope.probes.treebank import ProbeTreebank
from headscope.probes.vectors import UNKNOWN, WordVectors

__all__ = ["Probe", "ProgressReport", "Suite"]

CURVE_PARTS = (64, 16, 4)  # the training set is divided by these for a learning curve

# A probe's name, how many steps are done, how many there may be if that is known, what to say.
ProgressReport = Callable[[str, int, int | None, str], None]


@dataclass(frozen=True)
class Probe:
    """How a probe learns, and what it needs."""

    learn: Callable[["Suite"], Scorer]
    needs_vectors: bool = False
    of_untrained: bool = False  # reads the attention of the model without its training
    has_curve: bool = False  # is also trained on fewer sentences, for the learning curve
    compared_with: tuple[str, ...] = ()  # probes from whose UAS its own is to differ, if they ran


@dataclass(eq=False)
class Suite:
    """What probes learn from and are scored on: two treebanks with one model's attention."""

    train: ProbeTreebank
    test: ProbeTreebank
    vectors: WordVectors | None
    options: TrainingOptions
    open_state: Callable[[str], StateStore]
    report: ProgressReport = lambda name, n_done, n_most, text: None
    compat: bool = False  # vectors as in the paper's released code
    prefix: str = ""  # of the names of its probes
    fitted: dict[str, AttentionOnly] = field(default_factory=dict, init=False)  # by name

    def run(self, probe: Probe) -> ProbeResult:
        """Let a probe learn, and score it."""
        scorer = probe.learn(self)
        scores = score_probe(scorer, self.test, self.row_of)
        n_learned = len(self.train) if scorer.n_parameters else 0
        return ProbeResult(scores, n_learned, scorer.n_parameters)

    def run_curve(self, probe: Probe) -> Iterator[ProbeResult]:
        """Results with parts of the training sentences, the smallest part first."""
        for part in CURVE_PARTS:
            n = len(self.train) // part
            if n >= LEAST_SENTENCES:
                fewer = self.train.choose(n, self.options.seed)
                yield self.over(fewer, self.test, f"{self.prefix}{n}-").run(probe)

    def over(self, train: ProbeTreebank, test: ProbeTreebank, prefix: str) -> "Suite":
        """The same over other sentences or another model's attention, named by the prefix."""
        return replace(self, train=train, test=test, prefix=prefix)

    @cached_property
    def head_counts(self) -> baselines.HeadCounts:
        """What every single head finds in the training sentences."""
        return baselines.count_correct(self.train)

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
        if name not in self.fitted:
            losses = list[float]()

            def report(loss: float, gradient: float) -> None:
                losses.append(loss)
                self.report(name, len(losses), None, f"loss {loss:.5f}, gradient {gradient:.1e}")

            seed = self.options.seed
            self.fitted[name], _ = fit_attention_only(self.train, seed=seed, report=report)
        return self.fitted[name]

    def train_model(self, name: str, model: NeuralScorer) -> NeuralScorer:
        """The model after training; its state and progress are kept under the probe's name."""
        full_name = f"{self.prefix}{name}"

        def report(epoch: Epoch) -> None:
            text = f"loss {epoch.loss:.4f}, held-out UAS {100 * epoch.uas:.1f}"
            self.report(full_name, epoch.number, self.options.epochs, text)

        train(model, self.train, self.row_of, self.options, self.open_state(full_name), report)
        return model


def learn_words(suite: Suite, name: str, has_distances: bool) -> NeuralScorer:
    """A net over the vectors of two words, and optionally the distance between them."""
    model = baselines.WordMLP(suite.word_vectors, has_distances, suite.options.seed)
    return suite.train_model(name, model)


def learn_attention_and_words(suite: Suite) -> NeuralScorer:
    """Weights of heads that depend on the words, starting from those of the attention alone."""
    start = suite.fit_attention_only()
    model = AttentionAndWords(suite.word_vectors, start, suite.options.seed, suite.compat)
    return suite.train_model("attention-and-words", model)


RIGHT_BRANCHING = Probe(lambda suite: baselines.FixedOffset(1))
LEFT_BRANCHING = Probe(lambda suite: baselines.FixedOffset(-1))
BEST_OFFSET = Probe(lambda suite: baselines.choose_offset(suite.train))
BEST_SINGLE_HEAD = Probe(
    lambda suite: baselines.choose_heads(suite.head_counts)[baselines.ALL_WORDS]
)
WORDS_ONLY = Probe(partial(learn_words, name="words-only", has_distances=False), needs_vectors=True)
DISTANCES_AND_WORDS = Probe(
    partial(learn_words, name="distances-and-words", has_distances=True), needs_vectors=True
)
ATTENTION_ONLY = Probe(
    Suite.fit_attention_only,
    has_curve=True,
    compared_with=(
        *("right-branching", "best-single-head", "random-init-attention-only"),
        "distances-and-words",
    ),
)
ATTENTION_AND_WORDS = Probe(
    learn_attention_and_words,
    needs_vectors=True,
    has_curve=True,
    compared_with=(
        *("right-branching", "best-single-head", "random-init-attention-and-words"),
        *("distances-and-words", "attention-only"),
    ),
)
UNTRAINED_ATTENTION_ONLY = Probe(Suite.fit_attention_only, of_untrained=True)
UNTRAINED_ATTENTION_AND_WORDS = Probe(
    learn_attention_and_words, needs_vectors=True, of_untrained=True
)
