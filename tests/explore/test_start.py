"""`headscope explore` as a command: what it writes, and what it refuses."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from headscope.cli import app
from tests.conftest import DemoRun

TEXT = "The keeper lit her lamp."


def explore(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["explore", "demo", *arguments])
    return done.exit_code, done.output


def test_a_page_is_written_from_a_text(tmp_path: Path) -> None:
    path = tmp_path / "lamp.html"
    code, said = explore("--text", TEXT, "--head", "3-9", "--out", str(path))
    assert code == 0, said
    page = path.read_text()
    assert '"tokens":["[CLS]","the","keeper","lit","her","lamp",".","[SEP]"]' in page
    assert '"heads":"3-9"' in page
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")


def test_lines_of_a_file_are_texts_of_one_page(tmp_path: Path) -> None:
    (tmp_path / "two.txt").write_text(f"{TEXT}\n\nBees fly far.\n")
    path = tmp_path / "two.html"
    assert explore("--text", str(tmp_path / "two.txt"), "--out", str(path))[0] == 0
    page = path.read_text()
    assert 'id="layer-1-5"' in page
    assert 'id="layer-2-0"' not in page


def test_an_example_of_a_run_is_written_with_the_run(demo_run: DemoRun, tmp_path: Path) -> None:
    path = tmp_path / "run.html"
    sentence = "starter_encyclopedia_beaver-5"
    code, said = explore("--run", str(demo_run.folder), "--sentence", sentence, "--out", str(path))
    assert code == 0, said
    page = path.read_text()
    assert '[0,1,"det"]' in page  # the gold tree
    assert "looks at the previous token" in page  # a card


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--text", " ", "--out", "x.html"], "empty"),
        (["--text", TEXT, "--out", "x.pdf"], ".html"),
        (["--text", TEXT, "--head", "9-9", "--out", "x.html"], "no head 9-9"),
        (["--text", TEXT, "--head", "first", "--out", "x.html"], "8-10"),
        (["--text", TEXT, "--sentence", "y", "--out", "x.html"], "leave one out"),
        (["--sentence", "nowhere", "--out", "x.html"], "nowhere"),
        (["--run", "nowhere", "--out", "x.html"], "not a run"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_written(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, said = explore(*arguments)
    assert code == 2
    assert message in said
    assert list(tmp_path.iterdir()) == []


def test_a_report_names_the_command_that_opens_a_drawing(demo_run: DemoRun) -> None:
    page = (demo_run.folder / "report.html").read_text()
    assert "headscope explore demo --run RUN --head 3-9 --sentence starter_" in page
