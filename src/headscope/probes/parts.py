"""Which heads make the parse: the attention-only probe over parts of the attention.

One layer, without position heads, without special tokens, one direction, and two paths over the
number of heads: greedy (the head that promises most is added, and all weights fitted again) and L1
(a penalty on the size of weights, which leaves few heads where it is large).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray

from headscope.kernels.arc_loss import N_KINDS
from headscope.probes.attention_only import (
    KINDS,
    AttentionOnly,
    Matrix,
    Vector,
    compute_hessian,
    fit_attention_only,
    loss_and_gradient,
)
from headscope.probes.batches import make_batches, mask_scores
from headscope.probes.treebank import ProbeTreebank
from headscope.stats.bucket import N_BUCKETS

__all__ = [
    "N_PARTS", "Part", "PartScores", "find_position_heads", "fit_heads", "fit_parts", "greedy_path",
    "l1_path", "score_parts", "solve_l1",
]  # fmt: skip

N_PARTS = 1000  # sentences that parts learn from: attention-only gains little from more
TOLERANCE = 1e-4
GREEDY_STEPS = 16
L1_STEPS, L1_RATIO = 9, 0.5  # penalties, each half of the one before
NEWTON_STEPS = 3
ON_POSITION = 0.5  # of a head's attention between words: more on one offset, and it is its habit

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Part:
    """A probe over some heads; `heads` are maps in the order in which they were taken."""

    name: str
    heads: tuple[int, ...]
    probe: AttentionOnly


def fit_parts(
    treebank: ProbeTreebank, layer_numbers: Sequence[int], seed: int = 0
) -> Iterator[Part]:
    """All parts, learned from a sample of the sentences; layers have their numbers, from 0."""
    sample = treebank.choose(N_PARTS, seed)
    n_maps = treebank.maps.n_maps
    of_layers = np.arange(n_maps).reshape(len(layer_numbers), -1)
    everything = tuple(range(n_maps))
    yield fit_heads("all heads", sample, everything)
    yield fit_heads("without special tokens", sample, everything, kinds=(0, 1))
    yield fit_heads(f"{KINDS[0]} alone", sample, everything, kinds=(0, 2, 3))
    yield fit_heads(f"{KINDS[1]} alone", sample, everything, kinds=(1, 2, 3))
    on_position = find_position_heads(sample)
    others = tuple(head for head in everything if head not in on_position)
    yield fit_heads("without position heads", sample, others)
    for layer, heads in zip(layer_numbers, of_layers, strict=True):
        yield fit_heads(f"layer {layer + 1}", sample, tuple(heads.tolist()))
    yield from greedy_path(sample)
    yield from l1_path(sample)


def fit_heads(
    name: str,
    treebank: ProbeTreebank,
    heads: Sequence[int],
    kinds: Sequence[int] = range(N_KINDS),
    tolerance: float = TOLERANCE,
) -> Part:
    """The probe over these heads, with weights of 0 for the others."""
    probe, _ = fit_attention_only(treebank.only(heads), tolerance, kinds=kinds)
    weights = np.zeros((N_KINDS, treebank.maps.n_maps))
    weights[:, list(heads)] = probe.weights
    return Part(name, tuple(heads), AttentionOnly(weights, probe.root))


def find_position_heads(treebank: ProbeTreebank) -> set[int]:
    """Heads that give more than half of their attention between words to one near offset: the word
    before, the word itself, or the word after."""
    total = torch.zeros(treebank.maps.n_maps, dtype=torch.float64)
    near = torch.zeros(3, treebank.maps.n_maps, dtype=torch.float64)
    for index in treebank.stored_at:
        cells = treebank.maps.sentence(int(index))
        n = len(cells)
        words = cells[:, :n].double()  # [word, other, map]
        total += words.sum((0, 1))
        for i, offset in enumerate((-1, 0, 1)):
            near[i] += words.diagonal(offset).sum(-1)  # [map]
    is_habit = (near / total.clamp(min=1e-12) > ON_POSITION).any(0)
    return set(is_habit.nonzero()[:, 0].tolist())


def greedy_path(treebank: ProbeTreebank, n_steps: int = GREEDY_STEPS) -> Iterator[Part]:
    """One head more at each step: that whose weights would lower the loss most, by the gradient and
    the curvature at zero of its own four weights."""
    n_maps = treebank.maps.n_maps
    curvature = compute_hessian(treebank, np.zeros(N_KINDS * n_maps + 1))
    positions = np.arange(N_KINDS)[:, None] * n_maps + np.arange(
        n_maps
    )  # [kind, map]: places of weights
    blocks = np.stack([curvature[np.ix_(positions[:, m], positions[:, m])] for m in range(n_maps)])
    inverses = np.linalg.pinv(blocks)  # [map, kind, kind]
    heads: tuple[int, ...] = ()
    vector = np.zeros(N_KINDS * n_maps + 1)
    for _ in range(min(n_steps, n_maps)):
        _, gradient = loss_and_gradient(treebank, vector)
        slopes = gradient[positions].T  # [map, kind]
        gain = np.einsum("mk,mkl,ml->m", slopes, inverses, slopes)
        gain[list(heads)] = -np.inf
        heads = (*heads, int(gain.argmax()))
        part = fit_heads("greedy", treebank, heads)
        vector = np.append(part.probe.weights.flatten(), part.probe.root)
        yield part


def l1_path(treebank: ProbeTreebank, n_steps: int = L1_STEPS) -> Iterator[Part]:
    """Probes with an L1 penalty on the weights, in units of the spread of what they weigh; each
    step halves it. The constant of ROOT is free."""
    zero = np.zeros(N_KINDS * treebank.maps.n_maps + 1)
    curvature = compute_hessian(treebank, zero)
    sizes = np.sqrt(np.maximum(np.diag(curvature), 1e-12))
    sizes[-1] = 0.0
    _, gradient = loss_and_gradient(treebank, zero)
    penalty = float(np.max(np.abs(gradient[:-1]) / sizes[:-1]))
    vector = zero
    for _ in range(n_steps):
        penalty *= L1_RATIO
        vector = _fit_l1(treebank, vector, penalty * sizes)
        probe = AttentionOnly.from_vector(vector)
        size = np.abs(probe.weights).sum(axis=0)
        heads = np.argsort(-size, kind="stable")[: int((size > 0).sum())]
        yield Part("L1", tuple(heads.tolist()), probe)


def _fit_l1(treebank: ProbeTreebank, start: Vector, penalties: Vector) -> Vector:
    """Newton's steps with the penalty, shortened until the objective falls."""
    hessian = compute_hessian(treebank, start)
    point = start
    loss, gradient = loss_and_gradient(treebank, point)
    objective = loss + float(penalties @ np.abs(point))
    for _ in range(NEWTON_STEPS):
        step = solve_l1(hessian, gradient, point, penalties) - point
        for length in (1.0, 0.5, 0.25):
            there = point + length * step
            loss, slopes = loss_and_gradient(treebank, there)
            lower = loss + float(penalties @ np.abs(there))
            if lower < objective:
                break
        else:
            return point
        point, gradient, objective = there, slopes, lower
    return point


def solve_l1(
    hessian: Matrix, gradient: Vector, point: Vector, penalties: Vector, n_sweeps: int = 100
) -> Vector:
    """The minimum of the quadratic model at a point plus the penalty, coordinate by coordinate."""
    proposed, slopes = point.copy(), gradient.copy()  # slopes of the model at `found`
    diagonal = np.diag(hessian)
    for _ in range(n_sweeps):
        largest = 0.0
        for i, curve in enumerate(diagonal):
            wanted = proposed[i] - slopes[i] / curve
            new = np.sign(wanted) * max(abs(wanted) - penalties[i] / curve, 0.0)
            change = new - proposed[i]
            if change:
                slopes += change * hessian[i]
                proposed[i] = new
                largest = max(largest, abs(change) * np.sqrt(curve))
        if largest < 1e-6:
            break
    return proposed


@dataclass(frozen=True, eq=False)
class PartScores:
    """Right heads and scored words by bucket: all, with the head behind, and with it ahead."""

    correct: Float[Array, "bucket side"]
    count: Float[Array, "bucket side"]


def score_parts(probes: Sequence[AttentionOnly], treebank: ProbeTreebank) -> list[PartScores]:
    """The scores of many probes, for which the maps are read once."""
    weights = torch.from_numpy(np.concatenate([probe.weights.T for probe in probes], axis=1))
    weights = weights.float()  # [map, probe kind]
    roots = torch.tensor([probe.root for probe in probes], dtype=torch.float32)
    correct = np.zeros((len(probes), N_BUCKETS, 3))
    count = np.zeros((N_BUCKETS, 3))
    for _, batch in make_batches(treebank, lambda word: 0, has_maps=True):
        assert batch.maps is not None
        n = batch.n_words
        by_kind = (batch.maps @ weights).reshape(*batch.maps.shape[:3], -1, N_KINDS)
        by_kind = by_kind.permute(3, 0, 1, 2, 4)  # [probe, sentence, word, other, kind]
        words = by_kind[..., :n, 0] + by_kind[..., :n, 1].transpose(2, 3)
        root = by_kind[..., n, 2] + by_kind[..., n + 1, 3] + roots[:, None, None]
        scores = mask_scores(torch.cat([words, root[..., None]], dim=-1), batch)
        is_right = (scores.argmax(-1) == batch.targets).numpy()  # [probe, sentence, word]
        places = torch.arange(n)
        is_ahead = (batch.heads > places).numpy()
        is_behind = ((batch.heads < places) & (batch.heads >= 0)).numpy()
        is_scored = batch.is_scored.numpy()
        for side, is_side in enumerate((np.ones_like(is_scored), is_behind, is_ahead)):
            is_counted = is_scored & is_side
            n_correct = (is_right & is_counted).sum(-1)  # [probe, sentence]
            for i, sentence in enumerate(batch.sentences):
                correct[:, sentence.bucket, side] += n_correct[:, i]
                count[sentence.bucket, side] += is_counted[i].sum()
    return [PartScores(of_probe, count) for of_probe in correct]
