"""The map of heads, derived from the tables of a run: places in the plane, clusters, behaviours."""

from collections import Counter
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, leaves_list, linkage
from scipy.spatial.distance import cdist, squareform

from headscope.analyses.distance.tables import ordered_matrix
from headscope.data.table import Tables
from headscope.options import require
from headscope.view.behaviour import label_heads, list_thresholds
from headscope.view.presentation import DerivedTables, MapOptions
from headscope.view.table import TextTable

__all__ = [
    "DENDROGRAM_COLUMNS", "LAYOUT_COLUMNS", "cluster_heads", "derive_layout", "scale_to_plane",
]  # fmt: skip

LAYOUT_COLUMNS = (
    *("layer", "head", "x", "y", "cluster", "place", "behaviour", "behaviours", "stress"),
)
DENDROGRAM_COLUMNS = ("merge", "left", "right", "divergence", "heads")

N_STARTS = 4  # random ones beside classical scaling
MANY_HEADS = 400
MARGIN = 0.01
MOST_CLUSTERS = 20
STRONG = 0.7  # silhouette of a structure that leaves no doubt (Kaufman and Rousseeuw)
MAX_ITERATIONS, TOLERANCE, SMALL = 300, 1e-7, 1e-5
SHOWN_HEADS = 8

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


def derive_layout(tables: Tables, options: MapOptions) -> DerivedTables:
    """The tables `layout` and `dendrogram`, from distances and what else was measured."""
    thresholds = list_thresholds()
    for threshold in thresholds:
        threshold.as_share(options.thresholds)  # refuses what cannot be used
    heads = _list_heads(tables["distance"])
    is_possible = options.n_clusters is None or 1 <= options.n_clusters <= len(heads)
    expected = f"between 1 and {len(heads)}, the number of heads"
    require(is_possible, "clusters", options.n_clusters, expected)
    distance = ordered_matrix(tables["distance"], heads)
    plane = scale_to_plane(distance, options.seed)
    clusters = cluster_heads(distance, options.n_clusters)
    placed = heads.assign(
        x=plane.points[:, 0],
        y=plane.points[:, 1],
        cluster=clusters.labels,
        place=clusters.leaves.argsort() + 1,
        stress=plane.stress,
    )
    layout = label_heads(placed, tables, options.thresholds)[list(LAYOUT_COLUMNS)]
    facts = {
        **{
            threshold.name: options.thresholds.get(threshold.name, threshold.default)
            for threshold in thresholds
        },
        "seed": options.seed,
        "stress": plane.stress,
        "clusters": int(clusters.labels.max()),
        "silhouette": None if np.isnan(clusters.silhouette) else clusters.silhouette,
    }
    return DerivedTables(
        {"layout": layout, "dendrogram": _dendrogram(clusters)},
        {"layout": facts},
        (_cluster_table(layout),),
        (f"Stress of the map: {plane.stress:.3f}",),
    )


def scale_to_plane(distance: Matrix, seed: int = 0) -> Plane:
    """Metric scaling by SMACOF: from classical scaling and from random starts, the best of all.

    Of more than `MANY_HEADS` heads, from classical scaling alone.

    A random start must lower the stress by more than `MARGIN` to be taken, so that nearly the same
    distances give nearly the same map. The plane is turned so that x spreads most, and the farthest
    head is on the positive side of each axis.
    """
    if not distance.any():
        return Plane(np.zeros((len(distance), 2)), 0.0)
    generator = np.random.default_rng(seed)
    spread, shape = distance.mean(), (len(distance), 2)
    steady = _improve(distance, classical_scaling(distance))
    n_starts = N_STARTS if len(distance) <= MANY_HEADS else 0  # each takes seconds
    starts = [spread * generator.standard_normal(shape) for _ in range(n_starts)]
    others = [_improve(distance, start) for start in starts]
    lowest = min(others, key=lambda plane: plane.stress, default=steady)
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
    """The mean silhouette; none of a single cluster or of heads all apart.

    Of a head it is (b - a) / max(a, b), for a mean distance a to the others of its cluster and b
    to those of the nearest other cluster; 0 for a head that is alone.
    """
    if not 1 < len(set(labels)) < len(labels):
        return np.nan
    is_member = labels[:, None] == np.unique(labels)  # [head, cluster]
    sums, sizes = distance @ is_member, is_member.sum(axis=0)  # [head, cluster], [cluster]
    n_others = sizes[is_member.argmax(axis=1)] - 1  # [head]
    within = sums[is_member] / np.maximum(n_others, 1)
    between = np.where(is_member, np.inf, sums / sizes).min(axis=1)
    largest = np.maximum(np.maximum(within, between), np.finfo(float).tiny)
    return float(np.where(n_others > 0, (between - within) / largest, 0.0).mean())


def _rank(cut: tuple[float, NDArray[np.int64]]) -> tuple[bool, float]:
    score, labels = cut
    sizes = np.bincount(labels)[1:]
    is_even = 2 * sizes.max() <= len(labels)
    is_plain = score >= STRONG and sizes.min() > 1
    return bool(is_even or is_plain), -np.inf if np.isnan(score) else score


def _improve(distance: Matrix, points: Points) -> Plane:
    """SMACOF: points move to the weighted mean of where each other point wants them to be, until
    the stress no longer falls."""
    placed, misses = cdist(points, points), np.inf
    work = np.empty_like(distance)  # written over at every step: new memory takes longer to get
    for _ in range(MAX_ITERATIONS):
        pull = np.divide(distance, np.maximum(placed, SMALL, out=work), out=work)  # [head, other]
        points = (pull.sum(axis=1, keepdims=True) * points - pull @ points) / len(points)
        cdist(points, points, out=placed)
        missed, before = np.subtract(placed, distance, out=work), misses
        misses = float(np.vdot(missed, missed))
        if before - misses < TOLERANCE * np.vdot(placed, placed):
            break
    return Plane(points, float(np.sqrt(misses / (distance**2).sum())))


def _turn(points: Points) -> Points:
    """The points around their centre, on their main axes, each axis with its farthest end up."""
    centred = points - points.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    turned = centred @ axes.T
    ends = turned[np.abs(turned).argmax(axis=0), [0, 1]]
    placed: Points = turned * np.where(ends < 0, -1, 1)
    return placed


def _list_heads(pairs: pd.DataFrame) -> pd.DataFrame:
    """The heads (layer, head) of a table of pairs, in order."""
    ends = [
        pairs[[f"layer_{end}", f"head_{end}"]].set_axis(["layer", "head"], axis=1) for end in "ab"
    ]
    return pd.concat(ends).drop_duplicates().sort_values(["layer", "head"], ignore_index=True)


def _dendrogram(clusters: Clusters) -> pd.DataFrame:
    """Merges, nearest first. Heads are numbered from 1 as in `layout`; merges go on from there."""
    left, right, sizes = clusters.merges[:, [0, 1, 3]].astype(np.int64).T
    numbers = len(clusters.leaves) + 1 + np.arange(len(left))
    columns = (numbers, left + 1, right + 1, clusters.merges[:, 2], sizes)
    return pd.DataFrame(dict(zip(DENDROGRAM_COLUMNS, columns, strict=True)))


def _cluster_table(layout: pd.DataFrame) -> TextTable:
    """The clusters, the largest first: how many heads, and what they do."""
    sizes = layout["cluster"].value_counts()
    rows = []
    for cluster in sorted(sizes.index, key=lambda c: (-sizes[c], c)):
        members = layout[layout["cluster"] == cluster]
        kinds = Counter(members["behaviour"]).most_common()
        behaviours = ", ".join(f"{count} {name}" for name, count in kinds)
        names = [f"{row.layer}-{row.head}" for row in members.itertuples()]
        shown = " ".join(names[:SHOWN_HEADS]) + (" ..." if len(names) > SHOWN_HEADS else "")
        rows.append((str(cluster), str(len(members)), behaviours, shown))
    return TextTable(("cluster", "heads", "behaviours", "members"), tuple(rows))
