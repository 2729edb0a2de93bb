"""Heads on a map: metric scaling to the plane, and clusters, from the distances between them."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, leaves_list, linkage
from scipy.spatial.distance import squareform
from sklearn.manifold import smacof
from sklearn.metrics import silhouette_score

__all__ = ["Clusters", "Plane", "cluster_heads", "scale_to_plane"]

N_STARTS = 4  # random ones beside classical scaling
MARGIN = 0.01
MOST_CLUSTERS = 20
STRONG = 0.7  # silhouette of a structure that leaves no doubt (Kaufman and Rousseeuw)
MAX_ITERATIONS, TOLERANCE = 300, 1e-7

Array = NDArray[np.float64]
Matrix = Float[Array, "head other"]
Points = Float[Array, "head axis"]


class Plane(NamedTuple):
    """Places in the plane, and how far their distances miss those given (Kruskal's stress-1)."""

    points: Points
    stress: float


class Clusters(NamedTuple):
    """The cluster of each head, from 1; the merges (scipy's linkage) and the order of leaves."""

    labels: Int[NDArray[np.int64], " head"]
    silhouette: float  # of the chosen number; none for a single cluster
    merges: Float[Array, "merge 4"]
    leaves: Int[NDArray[np.int64], " place"]


def scale_to_plane(distance: Matrix, seed: int = 0) -> Plane:
    """Metric scaling by SMACOF: from classical scaling and from random starts, the best of all.

    A random start must lower the stress by more than `MARGIN` to be taken, so that nearly the same
    distances give nearly the same map. The plane is turned so that x spreads most, and the farthest
    head is on the positive side of each axis.
    """
    if not distance.any():
        return Plane(np.zeros((len(distance), 2)), 0.0)
    generator = np.random.default_rng(seed)
    spread = distance.mean()
    starts = [
        classical_scaling(distance),
        *(spread * generator.standard_normal((len(distance), 2)) for _ in range(N_STARTS)),
    ]
    steady, *others = [_improve(distance, start) for start in starts]
    lowest = min(others, key=lambda plane: plane.stress)
    best = lowest if lowest.stress < (1 - MARGIN) * steady.stress else steady
    return Plane(_turn(best.points), best.stress)


def classical_scaling(distance: Matrix) -> Points:
    """The two main axes of the doubly centred squared distances (Torgerson)."""
    n = len(distance)
    centre = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(-centre @ distance**2 @ centre / 2)
    main = [n - 1, n - 2] if n > 1 else [0, 0]
    points: Points = vectors[:, main] * np.sqrt(np.maximum(values[main], 0))
    return points


def cluster_heads(distance: Matrix, n_clusters: int | None = None) -> Clusters:
    """Average linkage, cut into the given number of clusters, or that of the best silhouette.

    A few heads unlike all others make two lopsided clusters with a fair silhouette, which says
    little of the rest. So a cut in which one cluster has more than half of the heads is taken only
    if its silhouette is strong and no head is alone in it, or if there is no other.
    """
    merges = linkage(squareform(distance, checks=False), "average")
    most = min(MOST_CLUSTERS, len(distance) - 1)
    numbers = range(2, most + 1) if n_clusters is None else [n_clusters]
    cuts = [fcluster(merges, number, "maxclust").astype(np.int64) for number in numbers]
    scored = [(_silhouette(distance, labels), labels) for labels in cuts]
    whole = (np.nan, np.ones(len(distance), dtype=np.int64))
    score, labels = max(scored, key=_rank, default=whole)
    return Clusters(labels, score, merges, leaves_list(merges).astype(np.int64))


def _silhouette(distance: Matrix, labels: NDArray[np.int64]) -> float:
    """The mean silhouette; none of a single cluster or of heads all apart."""
    if not 1 < len(set(labels)) < len(labels):
        return np.nan
    return float(silhouette_score(distance, labels, metric="precomputed"))


def _rank(cut: tuple[float, NDArray[np.int64]]) -> tuple[bool, float]:
    score, labels = cut
    sizes = np.bincount(labels)[1:]
    is_even = 2 * sizes.max() <= len(labels)
    is_plain = score >= STRONG and sizes.min() > 1
    return bool(is_even or is_plain), -np.inf if np.isnan(score) else score


def _improve(distance: Matrix, start: Points) -> Plane:
    points, _ = smacof(
        distance,
        init=start,
        n_init=1,
        n_components=2,
        max_iter=MAX_ITERATIONS,
        eps=TOLERANCE,
        normalized_stress=False,
    )
    return Plane(points, _stress(distance, points))


def _stress(distance: Matrix, points: Points) -> float:
    """Root of the squared misses over the squared distances given; 0 where none is given."""
    placed = np.linalg.norm(points[:, None] - points, axis=-1)
    total = (distance**2).sum()
    return float(np.sqrt(((placed - distance) ** 2).sum() / total)) if total > 0 else 0.0


def _turn(points: Points) -> Points:
    """The points around their centre, on their main axes, each axis with its farthest end up."""
    centred = points - points.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    turned = centred @ axes.T
    ends = turned[np.abs(turned).argmax(axis=0), [0, 1]]
    placed: Points = turned * np.where(ends < 0, -1, 1)
    return placed
