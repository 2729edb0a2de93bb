"""Checkpoints as a series, and many runs as an atlas."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import headscope as hs
from headscope.comparison.load import find_runs
from headscope.comparison.series import Series, onset_table
from headscope.errors import StudyError
from tests.references.comparison import first_and_lasting


@pytest.fixture(scope="module")
def steps(runs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fourteen checkpoints, of which the later ones have planted heads, and one damaged."""
    folder = tmp_path_factory.mktemp("series")
    for step in range(14):
        shutil.copytree(runs["planted" if step >= 11 else "random"], folder / f"step-{step * 100}")
    (folder / "step-700" / "manifest.json").write_text("{")
    return folder


@pytest.fixture(scope="module")
def series(steps: Path) -> Series:
    return hs.compare_series(find_runs(str(steps / "step-*")))


def test_steps_are_ordered_by_number_and_a_damaged_run_is_left_out(
    steps: Path, series: Series
) -> None:
    assert list(series.runs) == [step * 100 for step in range(14) if step != 7]
    assert list(series.left_out) == [str(steps / "step-700")]


def test_a_claim_begins_to_hold_when_its_heads_appear(series: Series) -> None:
    onsets = series.tables["onsets"].set_index("what")
    assert onsets.loc["previous token", "from_step"] == 1100
    assert onsets.loc["previous-token-heads", "from_step"] == 1100
    lines = series.tables["series"]
    one = lines[(lines["table"] == "position") & (lines["of"] == "target previous")]
    largest = one[one["statistic"] == "largest head"].set_index("step")["value"]
    assert largest[1000] < 0.5 < largest[1100]


def test_checkpoints_with_the_same_weights_are_named(series: Series) -> None:
    assert any(note.startswith("Steps 0, 100") and "same weights" in note for note in series.notes)


def test_onsets_equal_the_definition() -> None:
    draw = np.random.default_rng(0)
    verdicts = {f"claim {n}": draw.random(6) < 0.6 for n in range(30)}
    rows = [
        (claim, step * 10, "holds" if held[step] else "undecided")
        for claim, held in verdicts.items()
        for step in range(6)
    ]
    rows += [("never judged", step, "not measured") for step in range(0, 60, 10)]
    claims = pd.DataFrame(rows, columns=["claim", "step", "verdict"])
    found = onset_table(claims, pd.DataFrame(columns=["kind", "step", "heads"])).set_index("what")
    assert list(found.index) == list(verdicts)
    for claim, held in verdicts.items():
        expected = first_and_lasting([(s * 10, bool(h)) for s, h in enumerate(held)])
        row = found.loc[claim, ["first_step", "from_step"]]
        assert [None if pd.isna(v) else int(v) for v in row] == list(expected)


def test_steps_come_from_an_option_or_the_trainer(runs: dict[str, Path], tmp_path: Path) -> None:
    given = [runs["planted"], runs["random"]]
    assert list(hs.compare_series(given, steps=[5, 2]).runs) == [2, 5]
    for name, step in {"early": 30, "late": 60}.items():
        shutil.copytree(runs["random"], tmp_path / name)
        state = json.dumps({"global_step": step})
        (tmp_path / name / "trainer_state.json").write_text(state)
    made = hs.compare_series([tmp_path / "late", tmp_path / "early"], out=tmp_path / "out")
    assert list(made.runs) == [30, 60]
    page = (tmp_path / "out" / "compare.html").read_text()
    assert "2 checkpoints" in page
    assert not re.search(r"(src|href)=.https?:", page)
    with pytest.raises(StudyError, match="3 steps were given for 2 runs"):
        hs.compare_series(given, steps=[1, 2, 3])
    with pytest.raises(StudyError, match="both of step 4"):
        hs.compare_series(given, steps=[4, 4])
    with pytest.raises(StudyError, match=r"training step of .* is not known"):
        hs.compare_series(given)
    with pytest.raises(StudyError, match="matches no folder"):
        find_runs(str(tmp_path / "nothing-*"))


def test_an_atlas_shows_every_run_offline(
    runs: dict[str, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = tmp_path / "runs"
    for name in ("planted", "random", "deeper"):
        shutil.copytree(runs[name], place / "kept" / name)
    (place / "kept" / "planted" / "report.html").write_text("<p>the report</p>")
    (place / "broken").mkdir()
    (place / "broken" / "manifest.json").write_text("{")
    made = hs.write_atlas(place)
    assert made.index == place / "atlas" / "index.html"
    assert str(place / "broken") in made.left_out
    page = made.index.read_text()
    links = re.findall(r'href="([^"]+)"', page)
    assert links
    assert all((made.index.parent / link).is_file() for link in links)
    assert len(re.findall("<svg", page)) == 3
    assert re.search(r"previous token</th><td>1 of 3", page)
    assert (made.index.parent / "models" / "003-report.html").exists() or "report</a>" in page
    with pytest.raises(StudyError, match="holds no run"):
        hs.write_atlas(tmp_path / "nothing")


def test_runs_of_one_model_have_a_page_each_in_the_atlas(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    for number in range(4):
        shutil.copytree(runs["planted"], tmp_path / f"run-{number:03d}")
    made = hs.write_atlas(tmp_path, tmp_path / "site")
    assert list(made.runs) == [f"run-{number:03d}" for number in range(4)]
    assert len(list((tmp_path / "site" / "models").glob("*.html"))) == 4
