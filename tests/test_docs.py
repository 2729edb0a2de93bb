"""The documents tell the truth: commands run, pages are current, everything is named."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.cli import app as typer_app
from typer.testing import CliRunner

from headscope.registry import ANALYSES
from headscope.view.glossary import write_page
from tests.conftest import DemoRun
from tests.test_pages import run_shell

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
PAGES = {page.name: page.read_text() for page in (ROOT / "docs").glob("*.md")}


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def environment() -> dict[str, str]:
    scripts = Path(sys.executable).parent  # where the headscope command is
    return {**os.environ, "PATH": f"{scripts}:{os.environ['PATH']}", "COLUMNS": "120"}


def test_the_readme_commands_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_shell("\n".join(blocks(README, "sh")), tmp_path)
    assert (tmp_path / "runs/notes/tables/position.csv").exists()


def test_the_readme_python_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = blocks(README, "python")
    exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    assert "report.html" in capsys.readouterr().out


def test_the_analysis_of_the_page_works(tmp_path: Path) -> None:
    """In a process of its own, from which its classes can be pickled."""
    code = "\n".join(blocks(PAGES["extend.md"], "python"))
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_the_readme_quotes_the_page_of_bert_base() -> None:
    (quoted,) = blocks(README, "text")
    page = " ".join((ROOT / "docs/results/bert-base.md").read_text().split())
    assert " ".join(quoted.split()) in page


def test_the_page_of_the_report_shows_what_the_demo_prints(demo_run: DemoRun) -> None:
    answers, tables = blocks(PAGES["report.md"], "text")[-2:]
    # Digits may move by one on other hardware; the heads and the words may not.
    heads = re.compile(r"\d+-\d+(?= \d+%)|\d+ of \d+|[a-z]{3,}")
    assert heads.findall(tables) == heads.findall(demo_run.stdout)
    shown, printed = (text.strip().splitlines() for text in (tables, demo_run.stdout))
    dashes = [[line.split().count("-") for line in lines] for lines in (shown, printed)]
    assert dashes[0] == dashes[1], "what has no number"
    said = demo_run.stderr.partition("In short:\n")[2].partition("\n\n")[0]
    words = re.compile(r"\d+-\d+|[A-Za-z]{3,}")
    assert words.findall(answers) == words.findall(said)


def test_the_command_line_page_is_current() -> None:
    command = ["--app", "app", "headscope.cli", "utils", "docs", "--name", "headscope"]
    done = CliRunner().invoke(typer_app, [*command, "--title", "Command line"])
    assert done.exit_code == 0, done.output
    assert PAGES["cli.md"].strip() == done.stdout.strip(), "write it again with: make fix"


def test_what_pages_take_from_the_code_is_current() -> None:
    generate = SimpleNamespace(**runpy.run_path(str(ROOT / "docs" / "generate.py")))
    columns = generate.list_columns()
    assert len(columns) > 40
    assert generate.write_columns(PAGES["tables.md"], columns) == PAGES["tables.md"]
    assert generate.write_claims(PAGES["claims.md"]) == PAGES["claims.md"]
    assert generate.write_figures(PAGES["figures.md"]) == PAGES["figures.md"]
    assert PAGES["glossary.md"] == write_page()
    spoilt = PAGES["tables.md"].replace("Columns: layer, head, target", "Columns: layer, head", 1)
    assert generate.write_columns(spoilt, columns) == PAGES["tables.md"]


def test_every_analysis_is_in_the_readme() -> None:
    for name in (*ANALYSES.built_in, "probes"):
        assert f"docs/tables.md#{name}" in README


def test_the_readme_states_the_size_of_the_package() -> None:
    stated = int(re.search(r"about\s+([\d,]+) lines", README)[1].replace(",", ""))  # type: ignore[index]
    actual = sum(p.read_text().count("\n") for p in (ROOT / "src").rglob("*.py"))
    assert abs(stated - actual) < 0.1 * actual, f"the package has {actual} lines"
