"""How much of a probe's score is the probe's own doing: it learns again, from fewer sentences, from
a control task, and block by block. One seed, and at most 2,000 sentences, are enough for that."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from headscope.probes.batches import NeuralScorer, Scorer
from headscope.probes.control import control_treebank
from headscope.probes.description import Description, describe
from headscope.probes.scores import score_probe
from headscope.probes.suite import Probe, ProbeResult, Suite
from headscope.probes.train import NoStateStore, is_enough
from headscope.probes.treebank import ProbeTreebank

__all__ = ["Trust", "examine_probe"]

N_SENTENCES = 2000
CURVE_PARTS = (32, 8, 2)  # of these sentences: what a learning curve has before all of them


@dataclass(frozen=True, eq=False)
class Trust:
    """What a probe learned from fewer sentences (last: all of the sample), from the control task,
    and how long a code it gives."""

    curve: list[ProbeResult]
    control: ProbeResult | None
    description: Description | None


def examine_probe(suite: Suite, name: str, probe: Probe) -> Trust:
    """Let a probe learn again in these ways, as far as there are enough sentences."""
    sample = suite.train.choose(N_SENTENCES, suite.options.seed)
    learned: dict[int, Scorer] = {}

    def learn(treebank: ProbeTreebank) -> Scorer | None:
        n = len(treebank)
        if n not in learned and is_enough(treebank):
            learned[n] = _learn(suite, probe, treebank)
            suite.report(f"{name}: checks", len(learned), None, f"{n:,} sentences")
        return learned.get(n)

    description = describe(sample, learn, suite.row_of, suite.options.seed)
    learn(sample)
    sizes = [len(sample) // part for part in (*CURVE_PARTS, 1)]
    curve = [_score(suite, learned[n], n, suite.test) for n in sizes if n in learned]
    control = None
    if len(sample) in learned:
        task = control_treebank(sample, suite.options.seed)
        scorer = _learn(suite, probe, task, "control")
        test = control_treebank(suite.test, suite.options.seed)
        control = _score(suite, scorer, len(sample), test)
    return Trust(curve, control, description if len(learned) > 1 else None)


def _learn(suite: Suite, probe: Probe, treebank: ProbeTreebank, task: str = "") -> Scorer:
    """The probe after learning from these sentences, with one seed; no state is kept."""
    own = suite.over(treebank, suite.test, suite.prefix, replace(suite.options, seeds=1))
    own.open_state, own.report = lambda name: NoStateStore(), lambda *told: None
    own = suite.samples.setdefault((task, len(treebank)), own)  # one fit serves several probes
    scorer = probe.learn(own)
    return scorer.members[0] if isinstance(scorer, NeuralScorer) else scorer


def _score(suite: Suite, scorer: Scorer, n_learned: int, test: ProbeTreebank) -> ProbeResult:
    return ProbeResult(score_probe(scorer, test, suite.row_of), n_learned, scorer.n_parameters)


def list_steps(
    trusts: Mapping[str, Trust], results: Mapping[str, ProbeResult]
) -> Iterator[tuple[str, ProbeResult]]:
    """The steps of all learning curves; the last is the probe that learned from all sentences."""
    for name, trust in trusts.items():
        whole = results[name]
        yield from ((name, step) for step in trust.curve if step.sentences < whole.sentences)
        yield name, whole
