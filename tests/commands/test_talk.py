"""What commands say and complete: quiet, verbose, help, limits, lists, names."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from headscope.cli import build_app
from headscope.commands import talk
from headscope.commands.complete import (
    complete_analysis,
    complete_figure,
    complete_head,
    complete_run,
    complete_table,
)

RUNNER = CliRunner(env={"COLUMNS": "80"})
TEXT = "The keeper lit her lamp.\n\nThe sailors saw it from afar.\n\nThey came home.\n"


@pytest.fixture(scope="module")
def short() -> typer.Typer:
    return build_app("analyze", is_short=True)


@pytest.fixture
def text(tmp_path: Path) -> str:
    path = tmp_path / "notes.txt"
    path.write_text(TEXT)
    return str(path)


def analyze(app: typer.Typer, text: str, out: Path, *more: str) -> tuple[str, str]:
    command = ["analyze", "demo", "--text", text, "--only", "position", "--no-report"]
    done = RUNNER.invoke(app, [*command, "--out", str(out), *more])
    assert done.exit_code == 0, done.stderr
    return done.stdout, done.stderr


def test_quiet_prints_the_result_alone_and_verbose_every_claim(
    short: typer.Typer, text: str, tmp_path: Path
) -> None:
    stdout, stderr = analyze(short, text, tmp_path / "a", "--quiet")
    assert "previous token" in stdout
    assert stderr == ""
    _, usual = analyze(short, text, tmp_path / "b")
    assert "In short:" in usual
    assert "previous-token-heads" not in usual
    _, verbose = analyze(short, text, tmp_path / "c", "--verbose")
    assert "(previous-token-heads)" in verbose
    assert "model " in verbose.partition("text: ")[2], "the time of each stage"


def test_a_limit_of_one_corpus_is_used_and_said(
    short: typer.Typer, text: str, tmp_path: Path
) -> None:
    _, stderr = analyze(short, text, tmp_path / "a", "--limit", "3", "--limit-text", "2")
    assert "notes.txt: 2 of 3 examples (--limit-text)." in stderr
    assert "text: 2 of 3 examples used" in stderr
    assert json.loads((tmp_path / "a" / "manifest.json").read_text())["counts"]["text"]["used"] == 2


def test_help_fits_on_a_screen_and_help_all_has_every_option(short: typer.Typer) -> None:
    usual = RUNNER.invoke(short, ["analyze", "--help"]).stdout
    assert len(usual.splitlines()) <= 48
    assert "--limit " in usual
    assert "--shard-examples" not in usual
    every = RUNNER.invoke(short, ["analyze", "--help-all"]).stdout
    assert "--shard-examples" in every
    assert "--vectors" in every


@pytest.mark.parametrize(
    ("kind", "name"),
    [("tables", "special-tokens-heads"), ("figures", "heads-map"), ("claims", "half-on-sep")],
)
def test_tables_figures_and_claims_are_listed(short: typer.Typer, kind: str, name: str) -> None:
    done = RUNNER.invoke(short, ["list", kind, "--format", "json"])
    assert name in [row["name"] for row in json.loads(done.stdout)]


def test_names_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = Path("runs/first")
    run.mkdir(parents=True)
    model = {"layer_numbers": [1, 2], "heads": 2}
    manifest = {"model": model, "tables": ["position", "entropy"]}
    (run / "manifest.json").write_text(json.dumps(manifest))
    assert complete_run("runs/f") == ["runs/first"]
    assert complete_run("") == ["runs/first"]
    context = typer.Context(typer.main.get_command(build_app(None)))
    context.params["run"] = "runs/first"
    assert complete_head(context, "2-") == ["2-1", "2-2"]
    assert complete_table(context, "p") == ["position"]
    context.params["run"] = "nowhere"
    assert complete_head(context, "") == []
    assert complete_analysis("position,ent") == ["position,entropy"]
    assert "heads-map" in complete_figure("heads-")


def test_a_stage_is_silent_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with talk.stage("report"):
        pass
    assert capsys.readouterr() == ("", "")
