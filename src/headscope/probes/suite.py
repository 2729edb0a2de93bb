"""All probes of the paper's Table 3 over one model's attention, each by its name."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from headscope.probes.attention_only import AttentionOnly, fit_attention_only
from headscope.probes.attention_words import AttentionAndWords
from headscope.probes.baselines import FixedOffset, WordNet, choose_offset
from headscope.probes.batches import Scorer
from headscope.probes.scores import score_probe
from headscope.probes.single_head import ALL, Counts, SingleHead, choose_heads, count_found
from headscope.probes.tables import ProbeResult
from headscope.probes.train import Checkpoint, Epoch, Plan, TrainedProbe, train
from headscope.probes.treebank import ProbeTreebank
from headscope.probes.vectors import UNKNOWN, WordVectors

__all__ = ["NULL_PREFIX", "NULL_PROBES", "PROBES", "WITH_VECTORS", "Note", "Suite"]

NULL_PREFIX = "random-init-"
WITH_VECTORS = ("words-only", "distances-and-words", "attention-and-words")
NULL_PROBES = ("attention-only", "attention-and-words")  # repeated on the model without training
PROBES = (  # in the order of the paper's table, weakest first
    "right-branching",
    "left-branching",
    "best-offset",
    "best-single-head",
    *(f"{NULL_PREFIX}{name}" for name in NULL_PROBES),
    "words-only",
    "distances-and-words",
    "attention-only",
    "attention-and-words",
)

# A probe's name, how many steps are done, how many there may be if that is known, what to say.
Note = Callable[[str, int, int | None, str], None]


@dataclass(eq=False)
class Suite:
    """Probes that learn from one treebank and are scored on another."""

    train: ProbeTreebank
    test: ProbeTreebank
    vectors: WordVectors | None
    plan: Plan
    checkpoint: Callable[[str], Checkpoint]
    note: Note = lambda name, n_done, n_most, text: None
    compat: bool = False
    prefix: str = ""
    fitted: dict[str, AttentionOnly] = field(default_factory=dict)  # by name and sentences
    _head_counts: list[Counts] = field(default_factory=list)

    def run(self, name: str) -> ProbeResult:
        """Learn and score one probe, by its name without the prefix."""
        scorer = self._learn(name)
        found = score_probe(scorer, self.test, self.row_of)
        is_untrained = isinstance(scorer, FixedOffset) and name != "best-offset"
        return ProbeResult(found, 0 if is_untrained else len(self.train), scorer.n_parameters)

    def of_size(self, n_sentences: int) -> "Suite":
        """The same with fewer sentences to learn from, for a learning curve."""
        fewer = self.train.choose(n_sentences, self.plan.seed)
        return self.over(fewer, self.test, f"{self.prefix}{n_sentences}-")

    def over(self, train: ProbeTreebank, test: ProbeTreebank, prefix: str) -> "Suite":
        """The same over other sentences or another model's attention, named by the prefix."""
        return replace(self, train=train, test=test, prefix=prefix, fitted={}, _head_counts=[])

    @property
    def head_counts(self) -> Counts:
        """What every single head finds in the training sentences, counted once."""
        if not self._head_counts:
            self._head_counts.append(count_found(self.train))
        return self._head_counts[0]

    def row_of(self, word: str) -> int:
        """The row of a word's vector."""
        return self.vectors.row_of(word) if self.vectors else UNKNOWN

    def attention_only(self) -> AttentionOnly:
        """The attention-only probe, fitted once."""
        name = f"{self.prefix}attention-only"
        if name not in self.fitted:
            steps = list[float]()

            def report(loss: float, gradient: float) -> None:
                steps.append(loss)
                self.note(name, len(steps), None, f"loss {loss:.5f}, gradient {gradient:.1e}")

            self.fitted[name], _ = fit_attention_only(
                self.train, seed=self.plan.seed, report=report
            )
        return self.fitted[name]

    def _learn(self, name: str) -> Scorer:
        learners: dict[str, Callable[[], Scorer]] = {
            "right-branching": lambda: FixedOffset(1),
            "left-branching": lambda: FixedOffset(-1),
            "best-offset": lambda: choose_offset(self.train),
            "best-single-head": self._best_head,
            "words-only": lambda: self._train(name, WordNet(self._vectors, False, self.plan.seed)),
            "distances-and-words": lambda: self._train(
                name, WordNet(self._vectors, True, self.plan.seed)
            ),
            "attention-only": self.attention_only,
            "attention-and-words": lambda: self._train(
                name,
                AttentionAndWords(
                    self._vectors, self.attention_only(), self.plan.seed, self.compat
                ),
            ),
        }
        return learners[name]()

    def _best_head(self) -> SingleHead:
        return choose_heads(self.head_counts)[ALL]

    @property
    def _vectors(self) -> WordVectors:
        assert self.vectors is not None  # probes that need them are not run without
        return self.vectors

    def _train(self, name: str, model: TrainedProbe) -> TrainedProbe:
        full_name = f"{self.prefix}{name}"

        def report(epoch: Epoch) -> None:
            text = f"loss {epoch.loss:.4f}, held-out UAS {100 * epoch.uas:.1f}"
            self.note(full_name, epoch.number, self.plan.epochs, text)

        checkpoint = self.checkpoint(full_name)
        train(model, self.train, self.row_of, self.plan, checkpoint, report)
        return model
