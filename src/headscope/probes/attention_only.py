"""The attention-only probe: one weight per head and direction, at its one optimum (section 5).

p(i is the head of j) is a softmax over the other words i and ROOT. A word scores the sum over heads
k of u_k a_k[j, i] + w_k a_k[i, j]; ROOT scores the sum of o_k and c_k times the attention of j to
the opening and the closing special tokens, plus a constant. The loss, the mean of -ln p plus a tiny
penalty on squared weights, is strictly convex: there is one optimum, whatever the order or seed.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from logging import getLogger

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from scipy import optimize
from torch import Tensor

from headscope.kernels.arc_loss import N_KINDS, arc_loss
from headscope.probes.batches import Scorer, Scores, SentenceBatch, mask_scores
from headscope.probes.treebank import NO_HEAD, ProbeTreebank

__all__ = [
    "KINDS", "AttentionOnly", "Matrix", "Minimum", "Report", "Vector", "compute_hessian",
    "fit_attention_only", "loss_and_gradient", "minimize",
]  # fmt: skip

MEMORY = 30  # steps from which the curvature is estimated

Vector = Float[NDArray[np.float64], " parameter"]
Matrix = Float[NDArray[np.float64], "parameter other"]
Function = Callable[[Vector], tuple[float, Vector]]  # the value and the gradient at a point
Report = Callable[[float, float], None]  # is told the value and the gradient's norm


@dataclass(frozen=True, eq=False)
class Minimum:
    """Where a search ended, and how."""

    point: Vector
    value: float
    gradient: float  # its norm
    iterations: int
    evaluations: int
    is_converged: bool


def minimize(
    function: Function,
    start: Vector,
    hessian: Matrix,
    tolerance: float,
    most_iterations: int = 500,
    report: Report = lambda value, gradient: None,
) -> Minimum:
    """The point at which the gradient's norm is at most `tolerance`.

    `hessian` may be approximate: in coordinates in which it is the identity, few steps lead to the
    minimum however alike the features are. It changes the path, not the minimum.
    """
    at_start = function(start)
    value, gradient = at_start
    if np.linalg.norm(gradient) <= tolerance:
        return Minimum(start, value, float(np.linalg.norm(gradient)), 0, 1, is_converged=True)
    factor = np.linalg.cholesky(hessian)  # hessian = factor @ factor.T
    inverse = np.linalg.inv(factor)
    # SciPy's first step has length 1; in these units that is a step of Newton's
    unit = float(np.linalg.norm(inverse @ gradient))

    def evaluate(moved: Vector) -> tuple[float, Vector]:
        nonlocal gradient
        is_start = not moved.any()
        value, gradient = at_start if is_start else function(start + unit * (inverse.T @ moved))
        return value, unit * (inverse @ gradient)

    def stop_if_converged(intermediate_result: optimize.OptimizeResult) -> None:
        norm = float(np.linalg.norm(gradient))  # the point that was evaluated last is the new one
        report(float(intermediate_result.fun), norm)
        if norm <= tolerance:
            raise StopIteration

    result = optimize.minimize(
        evaluate,
        np.zeros_like(start),
        jac=True,
        method="L-BFGS-B",
        callback=stop_if_converged,
        options={"maxcor": MEMORY, "maxiter": most_iterations, "ftol": 0.0, "gtol": 0.0},
    )
    point, norm = start + unit * (inverse.T @ result.x), np.linalg.norm(factor @ result.jac) / unit
    # no step down any more, as rounding is in the way, is no convergence
    return Minimum(
        point, float(result.fun), float(norm), result.nit, result.nfev, bool(norm <= tolerance)
    )


KINDS = ("dependent-to-head", "head-to-dependent", "opening", "closing")
PENALTY = 1e-7  # of half the squared weights
HEAD_START = 500  # sentences whose optimum is the start of the search
HEAD_START_TOLERANCE = 1e-3
N_CURVED = 500  # sentences that tell the curvature
ROUNDING = 1e-6  # of the mean curvature: what single precision cannot tell from flat
WINDOW = 2048  # cells at a time: what stays in the cache while it is used

log = getLogger("headscope")

Array = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class AttentionOnly(Scorer):
    """The weights of a probe: [kind, map], and the constant of ROOT."""

    weights: Float[NDArray[np.float64], "kind map"]
    root: float

    @classmethod
    def from_vector(cls, vector: Vector) -> "AttentionOnly":
        """The weights as `loss_and_gradient` takes them: all kinds, then the constant."""
        return cls(vector[:-1].reshape(N_KINDS, -1), float(vector[-1]))

    @property
    def n_parameters(self) -> int:  # type: ignore[override]
        return int(np.count_nonzero(self.weights)) + 1  # heads that are left out have 0

    uses_maps = True

    def __call__(self, batch: SentenceBatch) -> Scores:
        """The scores of every candidate, ROOT last."""
        assert batch.maps is not None
        by_kind = batch.maps.double() @ torch.from_numpy(self.weights.T.copy())
        n = batch.n_words
        words = by_kind[:, :, :n, 0] + by_kind[:, :, :n, 1].transpose(1, 2)
        root = by_kind[:, :, n, 2] + by_kind[:, :, n + 1, 3] + self.root
        return mask_scores(torch.cat([words, root[..., None]], dim=-1), batch)


def fit_attention_only(
    treebank: ProbeTreebank,
    tolerance: float = 1e-5,
    seed: int = 0,
    report: Report = lambda loss, gradient: None,
    kinds: Sequence[int] = range(N_KINDS),
) -> tuple[AttentionOnly, Minimum]:
    """Full-batch L-BFGS to a gradient of `tolerance` relative to that at zero weights.

    Weights of other than these kinds stay 0. A sample of sentences comes first: its optimum is the
    start of the search over all, and its Hessian there the preconditioner. As the problem is
    convex, both only shorten the path.
    """
    sample = treebank.choose(HEAD_START, seed)
    is_free = np.append(np.isin(np.arange(N_KINDS), kinds).repeat(treebank.maps.n_maps), True)
    zero = np.zeros(len(is_free))
    start = _search(sample, zero, zero, is_free, HEAD_START_TOLERANCE)
    minimum = _search(treebank, start.point, start.point, is_free, tolerance, report, sample)
    if not minimum.is_converged:
        text = "attention-only stopped at a gradient of %.2g after %d iterations"
        log.warning(text, minimum.gradient, minimum.iterations)
    return AttentionOnly.from_vector(minimum.point), minimum


def _search(
    treebank: ProbeTreebank,
    start: Vector,
    curved_at: Vector,
    is_free: NDArray[np.bool_],
    tolerance: float,
    report: Report = lambda loss, gradient: None,
    sample: ProbeTreebank | None = None,
) -> Minimum:
    """From `start`, with the Hessian of the sample (None: of all) at a point."""
    hessian = compute_hessian(sample or treebank, curved_at)
    hessian[~is_free] = hessian[:, ~is_free] = 0.0
    hessian[~is_free, ~is_free] = 1.0

    def function(vector: Vector) -> tuple[float, Vector]:
        loss, gradient = loss_and_gradient(treebank, vector)
        return loss, gradient * is_free

    least = tolerance * float(np.linalg.norm(function(np.zeros_like(start))[1]))
    return minimize(function, start, hessian, least, report=report)


def loss_and_gradient(treebank: ProbeTreebank, vector: Vector) -> tuple[float, Vector]:
    """The mean loss over words with its penalty, and the gradient, in double precision."""
    probe = AttentionOnly.from_vector(vector)
    slopes, loss, root_slope = np.zeros_like(probe.weights), 0.0, 0.0
    for cells, sizes, heads in _windows(treebank):
        parts = arc_loss(cells.numpy(), probe.weights, probe.root, sizes, heads, slopes)
        loss, root_slope = loss + parts[0], root_slope + parts[1]
    n_arcs = max(treebank.n_arcs, 1)
    gradient = np.append(slopes, root_slope) / n_arcs + PENALTY * vector
    return loss / n_arcs + PENALTY / 2 * float(vector @ vector), gradient


def compute_hessian(treebank: ProbeTreebank, vector: Vector) -> Matrix:
    """The Hessian of the loss: the covariance of the features under the probe, word by word.

    It guides searches, so some sentences and single precision will do.
    """
    probe, sample = AttentionOnly.from_vector(vector), treebank.choose(N_CURVED, seed=0)
    n_of_words = 2 * treebank.maps.n_maps  # features that words have; the others are ROOT's
    second = torch.zeros(len(vector), len(vector), dtype=torch.float64)
    for index, sentence in zip(sample.stored_at, sample.sentences, strict=True):
        batch = SentenceBatch.pad([treebank.maps.sentence(int(index))], [sentence])
        chances = probe(batch)[0].softmax(-1).float()  # [word, candidate]
        arcs = torch.from_numpy(np.flatnonzero(sentence.heads > NO_HEAD))
        n_at_once = max(1, WINDOW // len(sentence))
        for first in range(0, len(arcs), n_at_once):
            some = arcs[first : first + n_at_once]
            words, root = _features(batch, some)  # [arc, other, feature], [arc, feature]
            by_word, by_root = chances[some, :-1, None] * words, chances[some, -1:] * root
            second[:n_of_words, :n_of_words] += by_word.flatten(0, 1).T @ words.flatten(0, 1)
            second[n_of_words:, n_of_words:] += by_root.T @ root
            mean = torch.cat([by_word.sum(1), by_root], dim=1)  # [arc, feature]
            second -= mean.T @ mean
    hessian: Matrix = second.numpy() / max(sample.n_arcs, 1)
    least = max(PENALTY, ROUNDING * float(hessian.diagonal().mean()))
    return hessian + least * np.eye(len(vector))


def _features(batch: SentenceBatch, arcs: Int[Tensor, " arc"]) -> tuple[Tensor, Tensor]:
    """What the weights of words meet in each other word, and those of ROOT in ROOT."""
    assert batch.maps is not None
    maps, n = batch.maps[0], batch.n_words  # [word, other, map]
    words = torch.cat([maps[arcs, :n], maps[:, arcs].transpose(0, 1)], dim=-1)
    constant = torch.ones(len(arcs), 1)
    return words, torch.cat([maps[arcs, n], maps[arcs, n + 1], constant], dim=-1)


def _windows(treebank: ProbeTreebank) -> Iterator[tuple[Tensor, Array, Array]]:
    """Cells in single precision with the sizes and heads of their sentences, some at a time."""
    word, stored_at = 0, treebank.stored_at
    for first, last in _groups(treebank.sizes * (treebank.sizes + 2)):
        # what stands side by side in the store is read at once
        breaks = first + 1 + np.flatnonzero(np.diff(stored_at[first:last]) != 1)
        runs = pairwise([first, *breaks.tolist(), last])
        cells = [
            treebank.maps.cells(int(stored_at[a]), int(stored_at[b - 1]) + 1).float()
            for a, b in runs
        ]
        sizes = treebank.sizes[first:last]
        n_words = int(sizes.sum())
        yield (
            torch.cat(cells) if len(cells) > 1 else cells[0],
            sizes,
            treebank.heads[word : word + n_words],
        )
        word += n_words


def _groups(n_cells: Array) -> Iterator[tuple[int, int]]:
    """Sentences (first, last) of at most a window of cells together, or one sentence."""
    first, held = 0, 0
    for i, n in enumerate(n_cells.tolist()):
        if i > first and held + n > WINDOW:
            yield first, i
            first, held = i, 0
        held += n
    if len(n_cells):
        yield first, len(n_cells)
