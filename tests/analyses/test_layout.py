"""The map of heads: places and clusters that are known beforehand; kept with a run, drawn anew."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import procrustes
from scipy.spatial.distance import cdist

from headscope.analyses.distance.layout import (
    DENDROGRAM_COLUMNS,
    LAYOUT_COLUMNS,
    cluster_heads,
    derive_layout,
    scale_to_plane,
)
from headscope.engine.analyze import analyze
from headscope.engine.finish import redraw_map
from headscope.engine.merge import merge_runs
from headscope.errors import StudyError
from headscope.runs.run import Run, load_run
from headscope.view.presentation import MapOptions
from tests.making import N_HEADS, N_LAYERS, MadeSource, make_example
from tests.planted import BROAD, NEXT, PLANTED, PREVIOUS, TWINS, plant_twins

EXAMPLES = [make_example(seed, n_words=4 + seed % 5) for seed in range(30)]


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


def slow_silhouette(distance: np.ndarray, labels: np.ndarray) -> float:
    """Head by head: how much nearer its own cluster is than the nearest other one."""
    scores = []
    for head, own in enumerate(labels):
        means = {
            cluster: np.mean([distance[head, o] for o in others])
            for cluster in set(labels)
            if (others := [o for o in range(len(labels)) if labels[o] == cluster and o != head])
        }
        if own not in means:  # alone in its cluster
            scores.append(0.0)
            continue
        within, between = means.pop(own), min(means.values())
        scores.append((between - within) / max(within, between))
    return float(np.mean(scores))


@pytest.mark.parametrize("n_clusters", [2, 3, 7])
def test_the_silhouette_is_that_of_every_head(n_clusters: int) -> None:
    points = np.random.default_rng(n_clusters).standard_normal((17, 2))
    found = cluster_heads(cdist(points, points), n_clusters)
    assert found.silhouette == pytest.approx(slow_silhouette(cdist(points, points), found.labels))


def test_no_small_move_of_a_head_makes_the_map_better() -> None:
    rng = np.random.default_rng(5)
    points = rng.standard_normal((11, 4))  # in four dimensions: no plane holds the distances
    distance = cdist(points, points)
    plane = scale_to_plane(distance)

    def misses(places: np.ndarray) -> float:
        return float(np.sqrt(((cdist(places, places) - distance) ** 2).sum() / (distance**2).sum()))

    assert plane.stress == pytest.approx(misses(plane.points))
    for _ in range(200):
        moved = plane.points + 0.03 * rng.standard_normal(plane.points.shape)
        assert misses(moved) > plane.stress


def run(source: MadeSource = PLANTED, **options: object) -> Run:
    fixed = {"text": EXAMPLES, "progress": False}
    return analyze(source, **{**fixed, **options})  # type: ignore[arg-type]


def test_every_head_has_a_place_a_cluster_and_its_behaviour() -> None:
    done = run()
    layout = done.tables["layout"]
    assert tuple(layout.columns) == LAYOUT_COLUMNS
    assert len(layout) == N_LAYERS * N_HEADS
    assert sorted(layout["place"]) == list(range(1, len(layout) + 1))
    assert set(layout["stress"]) == {done.manifest["derived"]["layout"]["stress"]}
    assert layout["cluster"].max() == done.manifest["derived"]["layout"]["clusters"]
    labels = layout.set_index(["layer", "head"])["behaviour"]
    expected = {PREVIOUS: "previous token", NEXT: "next token", BROAD: "everything, broadly"}
    for (layer, head), behaviour in expected.items():
        assert labels[layer + 1, head + 1] == behaviour


def test_planted_twins_lie_together_and_merge_first() -> None:
    tables = run(MadeSource(plant_twins)).tables
    layout, dendrogram = tables["layout"], tables["dendrogram"]
    assert tuple(dendrogram.columns) == DENDROGRAM_COLUMNS
    numbers = {layer * N_HEADS + head + 1 for layer, head in TWINS}
    assert {dendrogram["left"][0], dendrogram["right"][0]} == numbers
    assert dendrogram["heads"].iloc[-1] == len(layout) == len(dendrogram) + 1
    assert dendrogram["divergence"].is_monotonic_increasing
    one, other = (layout.iloc[number - 1] for number in numbers)
    assert one["cluster"] == other["cluster"]
    gap = ((one[["x", "y"]] - other[["x", "y"]]).astype(float) ** 2).sum() ** 0.5
    assert gap < 0.2 * (layout["x"].max() - layout["x"].min())


def test_merged_and_loaded_runs_have_the_same_map(tmp_path: Path) -> None:
    whole = run()
    run(text=EXAMPLES[:12], out=tmp_path / "a")
    run(text=EXAMPLES[12:], out=tmp_path / "b")
    merged = merge_runs([tmp_path / "a", tmp_path / "b"], tmp_path / "both")
    for name in ("layout", "dendrogram"):
        pd.testing.assert_frame_equal(whole.tables[name], merged.tables[name], rtol=1e-6)
        pd.testing.assert_frame_equal(load_run(tmp_path / "both").tables[name], merged.tables[name])
    again = derive_layout(load_run(tmp_path / "both").tables, MapOptions())
    pd.testing.assert_frame_equal(again.tables["layout"], merged.tables["layout"])


def test_a_map_drawn_anew_replaces_the_old_one(tmp_path: Path) -> None:
    before = run(out=tmp_path / "run")
    drawn, (derived,) = redraw_map(tmp_path / "run", {"position": 0.95}, n_clusters=3)
    after = load_run(tmp_path / "run")
    assert set(before.tables["layout"]["behaviour"]) >= {"previous token", "next token"}
    assert not set(after.tables["layout"]["behaviour"]) & {"previous token", "next token"}
    assert set(after.tables["layout"]["cluster"]) == {1, 2, 3}
    assert after.manifest["derived"]["layout"]["position"] == 0.95
    assert drawn.manifest["derived"]["layout"] == after.manifest["derived"]["layout"]
    places = [t["layout"][["x", "y"]] for t in (before.tables, after.tables)]
    pd.testing.assert_frame_equal(*places)
    (shown,) = derived.shown
    assert {cluster for cluster, *_ in shown.rows} == {"1", "2", "3"}
    assert sum(int(n_heads) for _, n_heads, *_ in shown.rows) == N_LAYERS * N_HEADS
    stress = after.manifest["derived"]["layout"]["stress"]
    assert derived.notes == (f"Stress of the map: {stress:.3f}",)


def test_options_of_a_map_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    run(only=["distance"], out=tmp_path / "run")
    with pytest.raises(StudyError, match="clusters=16 cannot be used"):
        redraw_map(tmp_path / "run", {}, n_clusters=16)
    with pytest.raises(StudyError, match=r"broad=5\.0 cannot be used"):
        redraw_map(tmp_path / "run", {"broad": 5.0})


def test_a_run_without_distances_has_no_map(tmp_path: Path) -> None:
    done = run(only=["position"], out=tmp_path / "run")
    assert done.tables.keys() == {"position"}
    with pytest.raises(StudyError, match="no distances between heads"):
        redraw_map(tmp_path / "run", {})


def test_a_model_of_one_layer_has_nothing_to_compare() -> None:
    lone = replace(MadeSource(lambda encoding: PLANTED.maps(encoding)[:1]), n_layers=1, name="lone")
    done = run(lone)
    assert "distance" not in done.tables
    told = done.manifest["left_out"]["distance"]
    assert told.startswith("Skipped 'distance': ")
    assert told.endswith("lone has one layer (5 heads).")
    with pytest.raises(StudyError, match="compares the heads of different layers"):
        run(lone, only=["distance"])
    both = replace(lone, maps=lambda encoding: PLANTED.maps(encoding)[:1, :1], n_heads=1)
    with pytest.raises(StudyError, match=r"one layer \(1 heads\)"):
        run(both, only=["distance"])


def test_layers_of_one_head_are_compared_with_each_other_alone() -> None:
    thin = MadeSource(lambda encoding: PLANTED.maps(encoding)[:, :1], n_heads=1)
    tables = run(thin).tables
    assert len(tables["distance"]) == 3
    assert tables["distance-layers"]["within"].isna().all()
    assert tables["distance-layers"]["p_value"].isna().all()
    assert len(tables["layout"]) == 3
