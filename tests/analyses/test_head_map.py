"""Places in the plane, and clusters, that are known beforehand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import procrustes
from scipy.spatial.distance import cdist

from headscope.analyses.head_map import cluster_heads, scale_to_plane


def groups(sizes: list[int], spread: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Points around far centres, and the group of each."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    centres = 10 * np.stack([np.cos(np.arange(len(sizes))), np.sin(np.arange(len(sizes)))], axis=1)
    return centres[labels] + spread * rng.standard_normal((len(labels), 2)), labels


@settings(max_examples=10)
@given(seed=st.integers(0, 1000), n=st.integers(3, 25))
def test_points_of_a_plane_are_found_again(seed: int, n: int) -> None:
    points = np.random.default_rng(seed).standard_normal((n, 2))
    plane = scale_to_plane(cdist(points, points))
    assert plane.stress < 1e-3
    assert procrustes(points, plane.points)[2] < 1e-4  # the same but for turning and size


def test_the_same_distances_give_the_same_map_whatever_the_random_starts() -> None:
    points, _ = groups([5, 4, 6], 0.5)
    noise = np.abs(np.random.default_rng(1).standard_normal((15, 15)))
    distance = cdist(points, points) + 0.1 * (noise + noise.T) * (1 - np.eye(15))
    one, other = scale_to_plane(distance, seed=0), scale_to_plane(distance, seed=1)
    assert one.stress == other.stress
    assert np.array_equal(one.points, other.points)


def test_equal_heads_lie_on_one_point() -> None:
    plane = scale_to_plane(np.zeros((4, 4)))
    assert not plane.points.any()
    assert plane.stress == 0


def test_two_heads_lie_as_far_apart_as_they_are() -> None:
    plane = scale_to_plane(np.array([[0, 0.4], [0.4, 0]]))
    assert np.linalg.norm(plane.points[0] - plane.points[1]) == pytest.approx(0.4, rel=1e-3)
    assert cluster_heads(np.array([[0, 0.4], [0.4, 0]])).labels.tolist() == [1, 1]


@pytest.mark.parametrize("sizes", [[5, 5], [10, 4], [6, 5, 4], [4, 4, 4, 3], [9, 1, 8]])
def test_planted_clusters_are_found(sizes: list[int]) -> None:
    points, labels = groups(sizes, 0.3)
    found = cluster_heads(cdist(points, points))
    pairs = {(int(a), int(b)) for a, b in zip(labels, found.labels, strict=True)}
    assert len(pairs) == len(sizes) == found.labels.max()
    assert found.silhouette > 0.7
    assert sorted(found.leaves) == list(range(len(labels)))


def test_a_lone_head_does_not_hide_the_other_clusters() -> None:
    points = np.vstack([groups([8, 8], 3.0)[0], [[60, 60]]])
    found = cluster_heads(cdist(points, points))
    assert np.bincount(found.labels).max() <= 8.5


def test_the_number_of_clusters_can_be_given() -> None:
    points, _ = groups([5, 5], 0.3)
    assert cluster_heads(cdist(points, points), n_clusters=4).labels.max() == 4
    assert np.isnan(cluster_heads(cdist(points, points), n_clusters=1).silhouette)
