"""Description length by online coding (Voita and Titov 2020): how hard syntax is to find.

The sentences come in blocks. The heads of the first block are sent with a uniform code, log2 of the
number of candidates each. Those of every other block are sent with a probe that learned from all
blocks before it: -log2 p of each head. What is easy to find takes few bits and few sentences.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from headscope.probes.batches import RowOf, Scorer, score_sentences
from headscope.probes.treebank import NO_HEAD, ProbeTreebank
from headscope.stats.bucket import N_BUCKETS, leave_one_out
from headscope.stats.contrast import ratio_estimate
from headscope.stats.interval import Estimate, estimate, share

__all__ = ["BLOCKS", "Description", "describe", "find_sharpness", "head_bits"]

BLOCKS = (32, 16, 8, 4, 2, 1)  # a block ends where the sentences, divided by these, do
N_SHARPENED = 200  # sentences by which scores are made chances

Array = NDArray[np.float64]


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
            code.online[sentence.bucket] += bits if scorer is None else 0.0
        if scorer is not None and known is not None:
            sharpness = find_sharpness(scorer, known, row_of, seed)
            for i, scores in score_sentences(scorer, block, row_of):
                heads = block.sentences[i].heads
                code.online[block.sentences[i].bucket] += head_bits(scores, heads, sharpness)
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
    if not getattr(scorer, "needs_sharpness", False):
        return 1.0
    sample = treebank.choose(N_SHARPENED, seed)
    scored = [
        (scores, sample.sentences[i].heads) for i, scores in score_sentences(scorer, sample, row_of)
    ]
    found = minimize_scalar(
        lambda power: sum(head_bits(*one, float(np.exp(power))) for one in scored),
        bounds=(-4.0, 4.0),
        method="bounded",
    )
    return float(np.exp(found.x))
