"""How much of a probe's score is the probe's own doing: it learns again, from a control task, from
fewer sentences, and block by block. One seed, and at most 2,000 sentences, are enough for that.

Control task (Hewitt and Liang 2019): every word type is given a behaviour at random: its words hang
on the first word of the sentence, on the last one, or on ROOT. (Theirs is the word itself in place
of ROOT, which is no candidate here.) The task has nothing to do with syntax; a probe that learns it
learns words by heart. Selectivity is the UAS minus the accuracy on the control task.

Description length by online coding (Voita and Titov 2020): the sentences come in blocks. The heads
of the first block are sent with a uniform code, log2 of the number of candidates each. Those of
every other block are sent with a probe that learned from all blocks before it: -log2 p of each
head. What is easy to find takes few bits and few sentences. The same probes, scored on the test
sentences, are the learning curve.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from headscope.data.example import ROOT, stable_hash
from headscope.probes.batches import RowOf, Scorer, score_sentences
from headscope.probes.scores import score_probe
from headscope.probes.suite import Probe, ProbeResult, Suite
from headscope.probes.train import NoStateStore, is_enough
from headscope.probes.treebank import NO_HEAD, ProbeTreebank, Sentence
from headscope.stats.bucket import N_BUCKETS, leave_one_out
from headscope.stats.difference import ratio_estimate
from headscope.stats.interval import (
    Estimate,
    estimate,
    share,
)

__all__ = [
    "BLOCKS", "Description", "ProbeControls", "control_treebank", "describe", "examine_probe",
    "find_sharpness", "give_control_heads", "head_bits", "list_steps",
]  # fmt: skip

N_SENTENCES = 2000
BLOCKS = (32, 8, 2, 1)  # a block ends where the sentences, divided by these, do
N_SHARPENED = 200  # sentences by which scores are made chances
FIRST, LAST, ON_ROOT = range(3)

Array = NDArray[np.float64]


def give_control_heads(sentence: Sentence, seed: int = 0) -> Sentence:
    """The sentence with the heads of the control task; they make a tree.

    The first word hangs on ROOT, so that the last one may hang on the first.
    """
    behaviours = [stable_hash(f"{seed} {word.lower()}") % 3 for word in sentence.words]
    last = len(sentence) - 1
    heads = np.full(len(sentence), ROOT)
    for word in range(1, len(sentence)):
        if behaviours[word] == FIRST:
            heads[word] = 0
        elif behaviours[word] == LAST and word != last:
            heads[word] = last
    heads[sentence.heads == NO_HEAD] = NO_HEAD  # what is not scored is not scored here
    return replace(sentence, heads=heads)


def control_treebank(treebank: ProbeTreebank, seed: int = 0) -> ProbeTreebank:
    """The same sentences with the heads of the control task."""
    return replace(
        treebank, sentences=[give_control_heads(sentence, seed) for sentence in treebank.sentences]
    )


@dataclass(frozen=True, eq=False)
class Description:
    """Bits by bucket of documents, and words: of the online code, and of the uniform one."""

    online: Float[Array, " bucket"]
    uniform: Float[Array, " bucket"]
    words: Float[Array, " bucket"]
    n_documents: int

    @property
    def bits_per_word(self) -> Estimate[Array]:
        """With its interval."""
        return estimate(share(leave_one_out(self.online), leave_one_out(self.words)), (0, np.inf))

    @property
    def compression(self) -> Estimate[Array]:
        """The uniform code over the online one: 1 is nothing found."""
        uniform, online = leave_one_out(self.uniform), leave_one_out(self.online)
        uniform[1:][self.words == 0] = online[1:][self.words == 0] = np.nan  # nothing to say
        return ratio_estimate(uniform, online)


def describe(
    treebank: ProbeTreebank,
    learn: Callable[[ProbeTreebank], Scorer | None],
    row_of: RowOf = lambda word: 0,
    seed: int = 0,
) -> Description:
    """The code of all sentences in an order drawn by the seed. `learn` gives None for too few."""
    online, uniform, words = np.zeros((3, N_BUCKETS))
    code = Description(online, uniform, words, treebank.n_documents)
    known: ProbeTreebank | None = None
    for part in BLOCKS:
        whole = treebank.choose(max(len(treebank) // part, 1), seed)
        is_new = ~np.isin(whole.stored_at, known.stored_at if known else ())
        block = whole.take(np.flatnonzero(is_new))
        scorer = learn(known) if known else None
        for sentence in block.sentences:
            n_words = int((sentence.heads > NO_HEAD).sum())
            bits = n_words * np.log2(len(sentence))
            code.uniform[sentence.bucket] += bits
            code.words[sentence.bucket] += n_words
            if scorer is None:
                code.online[sentence.bucket] += bits
        if scorer is not None and known is not None:
            sharpness = find_sharpness(scorer, known, row_of, seed)
            for i, scores in score_sentences(scorer, block, row_of):
                sentence = block.sentences[i]
                code.online[sentence.bucket] += head_bits(scores, sentence.heads, sharpness)
        known = whole
    return code


def head_bits(
    scores: Float[Array, "word candidate"], heads: NDArray[np.int64], sharpness: float = 1.0
) -> float:
    """-log2 p of the heads of a sentence, added up; ROOT is the last candidate."""
    is_arc = heads > NO_HEAD
    chances = log_softmax(sharpness * scores, axis=1)
    targets = np.where(heads < 0, len(heads), heads)
    return float(-chances[is_arc, targets[is_arc]].sum() / np.log(2))


def find_sharpness(scorer: Scorer, treebank: ProbeTreebank, row_of: RowOf, seed: int = 0) -> float:
    """What to multiply scores by that are no logarithms of chances, such as distances; else 1."""
    if not scorer.needs_sharpness:
        return 1.0
    sample = treebank.choose(N_SHARPENED, seed)
    scored = [
        (scores, sample.sentences[i].heads) for i, scores in score_sentences(scorer, sample, row_of)
    ]
    best = minimize_scalar(
        lambda power: sum(
            head_bits(*sentence_scores, float(np.exp(power))) for sentence_scores in scored
        ),
        bounds=(-4.0, 4.0),
        method="bounded",
    )
    return float(np.exp(best.x))


@dataclass(frozen=True, eq=False)
class ProbeControls:
    """What a probe learned from fewer sentences (last: all of the sample), from the control task,
    and how long a code it gives."""

    curve: list[ProbeResult]
    control: ProbeResult | None
    description: Description | None


def examine_probe(suite: Suite, name: str, probe: Probe) -> ProbeControls:
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
    sizes = [len(sample) // part for part in BLOCKS]
    curve = [_score(suite, learned[n], n, suite.test) for n in sizes if n in learned]
    control = None
    if len(sample) in learned:
        task = control_treebank(sample, suite.options.seed)
        scorer = _learn(suite, probe, task, "control")
        test = control_treebank(suite.test, suite.options.seed)
        control = _score(suite, scorer, len(sample), test)
    return ProbeControls(curve, control, description if len(learned) > 1 else None)


def _learn(suite: Suite, probe: Probe, treebank: ProbeTreebank, task: str = "") -> Scorer:
    """The probe after learning from these sentences, with one seed; no state is kept."""
    smaller = suite.over(treebank, suite.test, suite.prefix, replace(suite.options, seeds=1))
    smaller.open_state, smaller.report = lambda name: NoStateStore(), lambda *told: None
    smaller = suite.samples.setdefault(
        (task, len(treebank)), smaller
    )  # one fit serves several probes
    return probe.learn(smaller)


def _score(suite: Suite, scorer: Scorer, n_learned: int, test: ProbeTreebank) -> ProbeResult:
    return ProbeResult(score_probe(scorer, test, suite.row_of), n_learned, scorer.n_parameters)


def list_steps(
    controls: Mapping[str, ProbeControls], results: Mapping[str, ProbeResult]
) -> Iterator[tuple[str, ProbeResult]]:
    """The steps of all learning curves; the last is the probe that learned from all sentences."""
    for name, checks in controls.items():
        whole = results[name]
        yield from ((name, step) for step in checks.curve if step.sentences < whole.sentences)
        yield name, whole
