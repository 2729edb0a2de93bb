"""What commands say and complete: quiet, verbose, help, limits, lists, names."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from headscope import cli
from headscope.cli import build_app
from headscope.commands import talk
from headscope.commands.shared import (
    complete_analysis,
    complete_figure,
    complete_head,
    complete_run,
    complete_table,
)
from headscope.engine.progress import show_progress
from headscope.errors import InputError
from tests.terminal import stop_in_the_middle

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


def test_a_name_that_no_encoding_has_is_printed_escaped(tmp_path: Path) -> None:
    out = str(tmp_path / "head\udcff.svg")
    done = RUNNER.invoke(
        build_app("show"), ["show", "demo", "Boats", "--head", "1-1", "--out", out]
    )
    assert done.exit_code == 0, done.exception
    assert done.stdout.endswith("head\\udcff.svg\n")
    assert Path(out).is_file()


def test_messages_fit_the_terminal_and_split_no_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = "text: 1,234 examples used (98 % of all), and the rest was skipped: too-long-for-it"
    for width, is_whole in ((30, False), (200, True)):
        monkeypatch.setenv("COLUMNS", str(width))
        talk.tell(said)
        lines = capsys.readouterr().err.splitlines()
        assert max(map(len, lines)) <= width
        assert " ".join(line.strip() for line in lines) == said
        assert (len(lines) == 1) is is_whole
        assert not any(line.strip().startswith("%") for line in lines)


def test_a_limit_of_one_corpus_is_used_and_said(
    short: typer.Typer, text: str, tmp_path: Path
) -> None:
    _, stderr = analyze(short, text, tmp_path / "a", "--limit", "3", "--limit-text", "2")
    assert "notes.txt: 2 of 3 examples (--limit-text)." in stderr
    assert "text: 2 of 3 examples used" in stderr
    assert json.loads((tmp_path / "a" / "manifest.json").read_text())["counts"]["text"]["used"] == 2


def test_help_fits_on_a_screen_and_help_all_has_every_option() -> None:
    app = build_app(is_short=True)
    commands = [command.name or command.callback.__name__ for command in app.registered_commands]
    for command in ("", *commands):
        usual = RUNNER.invoke(app, [*command.split(), "--help"]).stdout
        assert 10 < len(usual.splitlines()) <= 40, command
    usual = RUNNER.invoke(app, ["analyze", "-h"]).stdout
    assert "--shard-examples" not in usual
    places = [usual.index(name) for name in ("MODEL", "--text ", "--limit ", "--out ", "--help")]
    assert places == sorted(places), "first what is needed, then what is common"
    every = RUNNER.invoke(app, ["analyze", "--help-all"]).stdout
    assert "--shard-examples" in every
    assert "--vectors" in every
    assert "--train" in RUNNER.invoke(app, ["probe", "--help"]).stdout, "it is required"


@pytest.mark.parametrize(
    ("kind", "name"),
    [("tables", "special-tokens-heads"), ("figures", "heads-map"), ("claims", "half-on-sep")],
)
def test_tables_figures_and_claims_are_listed(short: typer.Typer, kind: str, name: str) -> None:
    done = RUNNER.invoke(short, ["list", kind, "--format", "json"])
    assert name in [row["name"] for row in json.loads(done.stdout)]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a run in the current folder."""
    monkeypatch.chdir(tmp_path)
    run = Path("runs/first")
    run.mkdir(parents=True)
    model = {"layer_numbers": [1, 2], "heads": 2}
    manifest = {"model": model, "tables": ["position", "entropy"]}
    (run / "manifest.json").write_text(json.dumps(manifest))
    return run


def test_names_are_completed(run: Path) -> None:
    assert complete_run("runs/f") == ["runs/first"]
    assert complete_run("") == ["runs/first"]
    context = typer.Context(typer.main.get_command(build_app(None)))
    context.params["run"] = str(run)
    assert complete_head(context, "2-") == ["2-1", "2-2"]
    assert complete_table(context, "p") == ["position"]
    context.params["run"] = "nowhere"
    assert complete_head(context, "") == []
    assert complete_analysis("position,ent") == ["position,entropy"]
    assert "heads-map" in complete_figure("heads-")


TYPED = {
    "headscope card run": ["runs/first"],
    "headscope card runs/first 2-": ["2-1", "2-2"],
    "headscope table runs/first p": ["position"],
    "headscope analyze demo --only position,ent": ["position,entropy"],
    "headscope ta": ["table"],
}


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_names_are_completed_in_bash(run: Path) -> None:
    """The script that --install-completion installs, in a shell that asks as the Tab key does."""
    lines = [f'PATH="{Path(sys.executable).parent}:$PATH"']
    lines += ['eval "$(_HEADSCOPE_COMPLETE=source_bash headscope)"']
    for typed in TYPED:
        lines += [f"COMP_WORDS=({typed}) COMP_CWORD={len(typed.split()) - 1} COMPREPLY=()"]
        lines += ["$(complete -p headscope | sed 's/.*-F //; s/ .*//') headscope"]
        lines += ['echo "${COMPREPLY[@]}"']
    done = subprocess.run(
        ["bash", "--norc", "-c", "\n".join(lines)], capture_output=True, text=True, timeout=120
    )
    assert done.stdout.splitlines() == [" ".join(names) for names in TYPED.values()], done.stderr


NOTE_IN_A_STAGE = """
import logging
from headscope.commands import talk
with talk.listen(), talk.stage("waiting"):
    logging.getLogger("headscope").warning("A [note].")
"""


def test_a_note_stands_above_the_bar_of_its_stage() -> None:
    command = [sys.executable, "-c", NOTE_IN_A_STAGE]
    code, said = stop_in_the_middle(command, lambda: True, key=b"\n")
    assert code == 0, said
    assert re.search(r"waiting.*\x1b\[2KA \[note\]\.\n.*waiting", said, re.DOTALL), said


@pytest.mark.parametrize(
    ("typed", "variables", "is_quiet"),
    [
        (["analyze", "demo"], {}, False),
        (["analyze", "demo", "-q"], {}, True),
        ([], {"_TYPER_COMPLETE_ARGS": "headscope analyze "}, True),
    ],
)
def test_nothing_is_shown_while_libraries_load_where_nothing_is_to_be_said(
    typed: list[str],
    variables: dict[str, str],
    is_quiet: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = []
    monkeypatch.setattr(talk, "_level", talk.USUAL)
    monkeypatch.setattr(sys, "argv", ["headscope", *typed])
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    def build(command: str | None, is_short: bool) -> Callable[..., None]:
        seen.append(talk.is_quiet())
        return lambda prog_name: None

    monkeypatch.setattr(cli, "build_app", build)
    cli.main()
    assert seen == [is_quiet]


def test_a_stage_is_silent_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with talk.stage("report"):
        pass
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("is_bad", [False, True])
def test_the_bar_of_a_stage_stays_unless_it_fails(
    is_bad: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = pytest.raises(InputError) if is_bad else nullcontext()
    with expected, show_progress(True) as bars, bars.stage("reading corpora"):
        if is_bad:
            raise InputError("It cannot be read.")
    assert ("reading corpora" in capsys.readouterr().err) is not is_bad
