"""The map of heads: a step after the measuring, made from the tables of a run."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headscope.analyses.behaviours import Thresholds, label_heads
from headscope.analyses.head_map import Clusters, Plane, cluster_heads, scale_to_plane
from headscope.errors import StudyError

__all__ = ["DENDROGRAM_COLUMNS", "LAYOUT_COLUMNS", "Layout", "lay_out"]

LAYOUT_COLUMNS = (
    "layer",
    "head",
    "x",
    "y",
    "cluster",
    "place",
    "behaviour",
    "behaviours",
    "stress",
)
DENDROGRAM_COLUMNS = ("merge", "left", "right", "divergence", "heads")
ENDS = (["layer_a", "head_a"], ["layer_b", "head_b"])


class Layout(NamedTuple):
    """The tables `layout` and `dendrogram`, and what the manifest says of them."""

    tables: dict[str, pd.DataFrame]
    facts: dict[str, Any]


def lay_out(
    tables: Mapping[str, pd.DataFrame],
    thresholds: Thresholds | None = None,
    n_clusters: int | None = None,
    seed: int = 0,
) -> Layout:
    """Heads in the plane, in clusters and with their behaviours, from a run's tables."""
    thresholds = thresholds or Thresholds()
    if "distance" not in tables or tables["distance"].empty:
        raise StudyError(
            "There are no distances between heads to draw a map from. Expected a run with the "
            "analysis 'distance'; run `headscope analyze` without --only, or with --only distance."
        )
    heads, distance = read_matrix(tables["distance"])
    if n_clusters is not None and not 1 <= n_clusters <= len(heads):
        raise StudyError(
            f"--clusters {n_clusters} cannot be used. Expected between 1 and {len(heads)}, the "
            "number of heads."
        )
    plane, clusters = scale_to_plane(distance, seed), cluster_heads(distance, n_clusters)
    placed = _place_heads(heads, plane, clusters)
    labelled = label_heads(placed, tables, thresholds)
    facts = {
        **asdict(thresholds),
        "seed": seed,
        "stress": plane.stress,
        "clusters": int(clusters.labels.max()),
        "silhouette": None if np.isnan(clusters.silhouette) else clusters.silhouette,
    }
    made = {"layout": labelled[list(LAYOUT_COLUMNS)], "dendrogram": _dendrogram(clusters)}
    return Layout(made, facts)


def read_matrix(pairs: pd.DataFrame) -> tuple[pd.DataFrame, NDArray[np.float64]]:
    """The heads (layer, head) of a table of pairs, in order, and their symmetric distances."""
    ends = [pairs[end].set_axis(["layer", "head"], axis=1) for end in ENDS]
    heads = pd.concat(ends).drop_duplicates().sort_values(["layer", "head"], ignore_index=True)
    places = pd.MultiIndex.from_frame(heads)
    first, second = (places.get_indexer(pd.MultiIndex.from_frame(end)) for end in ends)
    matrix = np.zeros((len(heads), len(heads)))
    matrix[first, second] = matrix[second, first] = pairs["divergence"]
    return heads, matrix


def _place_heads(heads: pd.DataFrame, plane: Plane, clusters: Clusters) -> pd.DataFrame:
    place = np.empty(len(heads), dtype=np.int64)
    place[clusters.leaves] = np.arange(1, len(heads) + 1)
    return heads.assign(
        x=plane.points[:, 0],
        y=plane.points[:, 1],
        cluster=clusters.labels,
        place=place,
        stress=plane.stress,
    )


def _dendrogram(clusters: Clusters) -> pd.DataFrame:
    """Merges, nearest first. Heads are numbered from 1 as in `layout`; merges go on from there."""
    n_heads = len(clusters.leaves)
    left, right, divergence, size = clusters.merges.T
    columns = (
        n_heads + 1 + np.arange(len(left)),
        left.astype(np.int64) + 1,
        right.astype(np.int64) + 1,
        divergence,
        size.astype(np.int64),
    )
    return pd.DataFrame(dict(zip(DENDROGRAM_COLUMNS, columns, strict=True)))
