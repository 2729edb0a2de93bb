"""A run's folder: damage is named, and files are whole and readable by whom they should be."""

import os
from pathlib import Path

import pytest

from headscope.engine.probe import probe
from headscope.errors import OutputError, WriteError
from headscope.runs.run import load_run
from tests.engine.made import run
from tests.probes.made import MADE, make_examples

TREES = make_examples(20)


def test_damaged_results_are_named(tmp_path: Path) -> None:
    run(out=tmp_path / "run")
    (tmp_path / "run/tables/entropy.parquet").write_bytes(b"junk")
    with pytest.raises(OutputError, match=r"entropy\.parquet is missing or damaged"):
        load_run(tmp_path / "run")
    (tmp_path / "run/tallies/text.safetensors").write_bytes(b"junk")
    with pytest.raises(OutputError, match=r"text\.safetensors is damaged"):
        run(out=tmp_path / "run", resume=True)
    (tmp_path / "run/manifest.json").write_text("{")
    with pytest.raises(OutputError, match="is not a run"):
        load_run(tmp_path / "run")


def test_a_folder_that_cannot_be_made_is_an_output_error() -> None:
    with pytest.raises(OutputError, match="cannot be written"):
        run(out="/proc/headscope-run")


@pytest.mark.parametrize("resume", [False, True])
def test_a_folder_that_cannot_be_made_is_told_before_the_model_is_loaded(
    tmp_path: Path, resume: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headscope.engine.analyze.open_models", None)
    (tmp_path / "file").write_text("")
    for out in ("/proc/headscope-run", tmp_path / "file/run"):
        with pytest.raises(WriteError):
            run(out=out, resume=resume)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_file_that_is_given_as_the_folder_is_called_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="is a file") as raised:
        run(out=tmp_path / "file")
    assert "resume" not in str(raised.value)


def test_a_full_disk_leaves_no_half_written_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("headscope.files.os.fsync", full)
    with pytest.raises(OutputError, match="No space left on device"):
        run(out=tmp_path / "run")
    assert not list((tmp_path / "run").rglob("*"))


@pytest.mark.parametrize("mask", [0o027, 0o077])
def test_files_are_readable_by_whom_the_umask_says(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        folder = run(only=["position"], out=tmp_path / "run").folder
        assert folder is not None
        load_run(folder).report()
        quick = {"only": "best-offset", "progress": False, "allow_overlap": True}
        probe(MADE, train=TREES, test=TREES, out=tmp_path / "p", **quick)
    finally:
        os.umask(before)
    written = {path for path in tmp_path.rglob("*") if path.is_file()}
    names = {path.name for path in written}
    assert {"manifest.json", "position.csv", "position.parquet", "text.safetensors"} <= names
    assert {"examples.json", "report.html", "header.json", "maps.u16", "probes.csv"} <= names
    for path in tmp_path.rglob("*"):
        expected = (0o666 if path.is_file() else 0o777) & ~mask
        assert path.stat().st_mode & 0o777 == expected, path
