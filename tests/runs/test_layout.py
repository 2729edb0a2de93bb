"""The map of a run: made with it, kept with it, drawn anew."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from headscope.analyses.behaviours import Thresholds
from headscope.errors import StudyError
from headscope.runs.analyze import analyze
from headscope.runs.layout import DENDROGRAM_COLUMNS, LAYOUT_COLUMNS, lay_out
from headscope.runs.merge import merge_runs
from headscope.runs.redraw import redraw_layout
from headscope.runs.results import Run, load_run
from tests.making import N_HEADS, N_LAYERS, MadeSource, make_example
from tests.planted import BROAD, NEXT, PLANTED, PREVIOUS, TWINS, plant_twins

EXAMPLES = [make_example(seed, n_words=4 + seed % 5) for seed in range(30)]


def run(source: MadeSource = PLANTED, **options: object) -> Run:
    fixed = {"text": EXAMPLES, "progress": False, "replicates": 10}
    return analyze(source, **{**fixed, **options})  # type: ignore[arg-type]


def test_every_head_has_a_place_a_cluster_and_its_behaviour() -> None:
    done = run()
    layout = done.tables["layout"]
    assert tuple(layout.columns) == LAYOUT_COLUMNS
    assert len(layout) == N_LAYERS * N_HEADS
    assert sorted(layout["place"]) == list(range(1, len(layout) + 1))
    assert set(layout["stress"]) == {done.manifest["layout"]["stress"]}
    assert layout["cluster"].max() == done.manifest["layout"]["clusters"]
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
    again = lay_out(load_run(tmp_path / "both").tables)
    pd.testing.assert_frame_equal(again.tables["layout"], merged.tables["layout"])


def test_a_map_drawn_anew_replaces_the_old_one(tmp_path: Path) -> None:
    before = run(out=tmp_path / "run")
    drawn = redraw_layout(tmp_path / "run", Thresholds(position=0.95), n_clusters=3)
    after = load_run(tmp_path / "run")
    assert set(before.tables["layout"]["behaviour"]) >= {"previous token", "next token"}
    assert not set(after.tables["layout"]["behaviour"]) & {"previous token", "next token"}
    assert set(after.tables["layout"]["cluster"]) == {1, 2, 3}
    assert after.manifest["layout"]["position"] == 0.95
    assert drawn.manifest["layout"] == after.manifest["layout"]
    places = [t["layout"][["x", "y"]] for t in (before.tables, after.tables)]
    pd.testing.assert_frame_equal(*places)
    with pytest.raises(StudyError, match="--clusters 16 cannot be used"):
        redraw_layout(tmp_path / "run", Thresholds(), n_clusters=16)


def test_a_run_without_distances_has_no_map(tmp_path: Path) -> None:
    done = run(only=["position"], out=tmp_path / "run")
    assert done.tables.keys() == {"position"}
    with pytest.raises(StudyError, match="no distances between heads"):
        redraw_layout(tmp_path / "run", Thresholds())


def test_a_model_of_one_layer_has_nothing_to_compare() -> None:
    lone = replace(MadeSource(lambda encoding: PLANTED.maps(encoding)[:1]), n_layers=1, name="lone")
    done = run(lone)
    assert "distance" not in done.tables
    assert "lone has one layer (5 heads)" in done.manifest["left_out"]["distance"]
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
