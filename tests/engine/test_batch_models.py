"""A list of models: a folder each, and one that fails does not stop the others."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from headscope.cli import build_app
from headscope.engine.batch_models import read_models
from headscope.errors import InputError
from headscope.runs.run import load_run

COMMAND = ["analyze", "--text", "starter", "--only", "position", "--limit", "4", "--no-report"]


def test_models_are_analyzed_one_folder_each_past_those_that_fail(tmp_path: Path) -> None:
    listed = tmp_path / "models.txt"
    listed.write_text("random-init:demo  # embeddings alone\n\nno/such/model\ndemo\n")
    command = [*COMMAND, "--models", str(listed), "--out", str(tmp_path / "runs")]
    app = build_app("analyze")
    first = CliRunner().invoke(app, command)
    assert first.exit_code == 3, first.output
    assert "no/such/model: failed" in first.stdout
    assert "1 of 3 models failed" in first.stderr
    tallies = sorted((tmp_path / "runs/demo/tallies").iterdir())
    written = [path.stat().st_mtime_ns for path in tallies]
    assert load_run(tmp_path / "runs/random-init:demo").tables["position"].shape[0]
    listed.write_text("random-init:demo\ndemo\n")
    again = CliRunner().invoke(app, [*command, "--resume"])
    assert again.exit_code == 0, again.output
    assert written == [path.stat().st_mtime_ns for path in tallies], "it was measured again"
    other = CliRunner().invoke(app, [*command, "--resume", "--seed", "1"])
    assert other.exit_code == 3
    assert "holds another run" in other.stderr
    text = tmp_path / "text.txt"
    text.write_text("Other words.\n\nMore of them.\n")
    elsewhere = CliRunner().invoke(app, [*command, "--resume", "--text", str(text)])
    assert elsewhere.exit_code == 3, "another corpus is not what was done before"
    assert "corpora differ" in elsewhere.stderr
    both = CliRunner().invoke(app, [*command, "demo"])
    assert both.exit_code == 2
    assert "together with --models" in both.stderr


def test_lists_of_models_that_cannot_be_used_are_told(tmp_path: Path) -> None:
    path = tmp_path / "models.txt"
    with pytest.raises(InputError, match="cannot be read"):
        read_models(path)
    path.write_text("# none\n")
    with pytest.raises(InputError, match="names no model"):
        read_models(path)
    path.write_text("demo\nother\ndemo\n")
    with pytest.raises(InputError, match="names demo twice"):
        read_models(path)
    with pytest.raises(InputError, match="/dev/zero is not an ordinary file"):
        read_models(Path("/dev/zero"))
