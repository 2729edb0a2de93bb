"""Runs of other formats: brought up to date where that can be, else refused with what to do."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from safetensors.numpy import save

from headscope.engine.checkpoint import describe_arrays, read_arrays
from headscope.errors import OutputError
from headscope.files import read_sealed, seal
from headscope.runs import manifest as run_format
from headscope.runs.folder import RunFolder
from headscope.runs.manifest import FORMAT, upgrade_manifest
from headscope.runs.run import load_run
from tests.engine.made import run


@pytest.mark.parametrize("number", [None, "3", 0, 2, True, 3.0])
def test_a_format_that_is_too_old_or_none_is_refused(number: object) -> None:
    with pytest.raises(OutputError, match="run the analysis again"):
        upgrade_manifest({"format": number}, Path("old"))


def test_a_newer_format_asks_for_a_newer_headscope() -> None:
    with pytest.raises(OutputError, match="update headscope"):
        upgrade_manifest({"format": FORMAT + 1}, Path("new"))


def test_an_older_format_is_brought_up_to_date_step_by_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def rename(manifest: dict[str, Any]) -> dict[str, Any]:
        return {**manifest, "counts": manifest["count"] * 2}

    def add(manifest: dict[str, Any]) -> dict[str, Any]:
        return {**manifest, "more": manifest["counts"] + 1}

    monkeypatch.setattr(run_format, "FORMAT", 9)
    monkeypatch.setattr(run_format, "UPGRADES", {3: rename, 7: rename, 8: add})
    made = upgrade_manifest({"format": 7, "count": 2}, Path("old"))
    assert made == {"format": 9, "count": 2, "counts": 4, "more": 5}
    with pytest.raises(OutputError, match="7 to 9"):  # 4 to 6 are missing: 3 cannot be brought
        upgrade_manifest({"format": 3, "count": 2}, Path("older"))


def test_a_run_of_an_earlier_format_is_read_but_its_sums_are_refused(tmp_path: Path) -> None:
    quick: dict[str, Any] = {"only": ["position"], "examples": False}
    made = run(out=tmp_path / "run", **quick)
    manifest, sums = tmp_path / "run/manifest.json", tmp_path / "run/tallies/text.safetensors"
    manifest.write_bytes(seal(read_sealed(manifest) | {"format": 3}))
    arrays, facts = read_arrays(sums, "numpy")
    earlier = {name: value for name, value in facts.items() if name != "format"}
    sums.write_bytes(save(arrays, metadata=describe_arrays(arrays, earlier)))
    read = load_run(tmp_path / "run")
    assert read.manifest["format"] == FORMAT
    pd.testing.assert_frame_equal(read.tables["position"], made.tables["position"])
    with pytest.raises(OutputError, match="run the analysis again with this version"):
        run(out=tmp_path / "run", resume=True, **quick)


def test_a_table_says_its_format(tmp_path: Path) -> None:
    table = pd.DataFrame({"layer": [1]})
    RunFolder(tmp_path).write_table("position", table)
    read = pd.read_parquet(tmp_path / "tables/position.parquet")
    assert read.attrs == {"headscope_format": FORMAT}
    assert table.attrs == {}  # what was written is left as it was
    pd.testing.assert_frame_equal(read, table)
