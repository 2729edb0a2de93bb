"""The pages for people: every command and snippet runs, every page is found, no link is broken."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from glob import glob
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

import headscope
from headscope.cli import build_app
from tests.conftest import DemoRun

DOCS = Path(__file__).parents[1] / "docs"
GUIDES = ["tutorial.md", *(f"howto/{page.name}" for page in sorted((DOCS / "howto").glob("*.md")))]
ON_THE_DEMO = ["claims.md", "compare.md", "corpora.md", "explore.md", "figures.md", "runs.md"]
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
EXCLUDED = "toc.excluded,myst.xref_missing"  # links are checked by another test
LINK = re.compile(r"\]\(([^)\s]+)\)")


def run_shell(script: str, folder: Path) -> None:
    """Commands of headscope that stand alone run here, to save their start; the rest in a shell."""
    own = re.compile(r"headscope (?!.*[|<>$]).*")
    for part in re.split(r"\n(?=headscope )", script.strip()):
        lines = part.splitlines()
        if own.fullmatch(lines[0]):
            words = shlex.split(lines.pop(0))[1:]
            arguments = [name for word in words for name in sorted(glob(word)) or [word]]
            done = CliRunner(env={"COLUMNS": "120"}).invoke(build_app(arguments[0]), arguments)
            assert done.exit_code == 0, f"{arguments}\n{done.output}\n{done.exception!r}"
        if lines:
            scripts = Path(sys.executable).parent  # where the headscope command is
            path = {**os.environ, "PATH": f"{scripts}:{os.environ['PATH']}"}
            command = ["bash", "-ec", "\n".join(lines)]
            subprocess.run(command, cwd=folder, env=path, check=True, capture_output=True)


@pytest.mark.parametrize("page", GUIDES)
def test_every_command_and_snippet_of_a_guide_runs(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    found = BLOCK.findall((DOCS / page).read_text())
    assert found
    names: dict[str, object] = {"__name__": page}
    for language, code in found:
        if language == "sh":
            run_shell(code, tmp_path)
        else:
            exec(compile(code, page, "exec"), names)
    if page == "tutorial.md":
        said = capsys.readouterr().out
        assert "Head 3-9 of the demo model finds the noun of a determiner in 91% of 398" in said
        assert "chosen in 64 of 64 folds" in said


@pytest.mark.parametrize("page", ON_THE_DEMO)
def test_the_snippets_of_other_pages_run_on_the_demo(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, demo_run: DemoRun
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/demo").symlink_to(demo_run.folder)
    if page == "compare.md":
        quick = {"limit": 20, "only": "position,entropy", "examples": False, "progress": False}
        headscope.analyze("demo", text="starter", out="runs/bert", **quick)
        shutil.copytree("runs/bert", "runs/bert-finetuned")
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(f"The text {name}.\n")
    names: dict[str, object] = {"__name__": page}
    for language, code in BLOCK.findall((DOCS / page).read_text()):
        if language == "python":
            exec(compile(code, page, "exec"), names)
    assert len(names) > 2


def test_every_python_snippet_is_run_by_a_test() -> None:
    run = {*GUIDES, *ON_THE_DEMO, "extend.md"}  # the last by tests/test_docs.py
    pages = {p.relative_to(DOCS).as_posix(): p.read_text() for p in DOCS.rglob("*.md")}
    assert {name for name, text in pages.items() if "```python" in text} <= run


def commands_of(page: Path) -> list[str]:
    """The commands in a page's code, fenced or indented."""
    text = page.read_text().replace("\\\n", " ")
    fenced = re.findall(r"^```(?:sh|bash)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    code = "\n".join([*fenced, *re.findall(r"^ {4}(.*)$", text, re.MULTILINE)])
    return re.findall(r"^(?:seq .*)?(headscope [a-z].*)$", code, re.MULTILINE)


def test_every_command_of_every_page_has_options_that_exist() -> None:
    """What takes long is not run; a command whose name, option or value is wrong fails."""
    app, n_commands = get_command(build_app()), 0
    for page in [*DOCS.rglob("*.md"), DOCS.parent / "README.md"]:
        for line in commands_of(page):
            _, name, *arguments = shlex.split(line, comments=True)
            command = app.commands[name]  # type: ignore[attr-defined]
            command.make_context(name, arguments).close()
            n_commands += 1
    assert n_commands > 60
    with pytest.raises(Exception, match="No such option"):
        app.commands["analyze"].make_context("analyze", ["--no-such"])  # type: ignore[attr-defined]


def anchors_of(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and MyST make them."""
    headings = re.findall(
        r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S), re.M
    )
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.strip().replace(" ", "-") for heading in plain}


def test_no_link_between_pages_is_broken() -> None:
    top = [DOCS.parent / name for name in ("README.md", "CHANGELOG.md")]
    for page in [*top, *DOCS.rglob("*.md"), DOCS / "llms.txt"]:
        for target in LINK.findall(page.read_text()):
            path, _, anchor = target.partition("#")
            there = (page.parent / path).resolve() if path else page
            assert there.exists(), f"{page.name} links to {target}"
            if anchor:
                assert anchor in anchors_of(there), f"{page.name} links to {target}"


def test_every_page_is_in_the_contents_and_in_llms_txt() -> None:
    contents = set(re.findall(r"^[a-z][\w/-]*$", (DOCS / "index.md").read_text(), re.MULTILINE))
    pages = {p.relative_to(DOCS).with_suffix("").as_posix() for p in DOCS.rglob("*.md")} - {"index"}
    listed = {p.removesuffix(".md") for p in LINK.findall((DOCS / "llms.txt").read_text())}
    assert contents == pages
    assert listed == pages


def test_every_public_name_is_in_the_reference() -> None:
    named = set(re.findall(r":: headscope\.(\w+)$", (DOCS / "api.md").read_text(), re.MULTILINE))
    assert named == set(headscope.__all__) - {"__version__"}


def test_the_pages_become_a_site_without_a_warning(tmp_path: Path) -> None:
    """Without the reference, which takes long; `make docs` builds that too."""
    pytest.importorskip("furo")
    command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going"]
    without = ["-D", "exclude_patterns=api.md", "-D", f"suppress_warnings={EXCLUDED}"]
    done = subprocess.run(
        [*command, *without, str(DOCS), str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "method.html").read_text()
    assert "<math" in page
    assert "http" not in re.sub(
        r'xmlns(:\w+)?="[^"]*"',
        "",
        " ".join(re.findall(r"<script[^>]*src=[^>]*>|<link[^>]*>", page)),
    )
    assert (tmp_path / "searchindex.js").exists()
    assert (tmp_path / "llms.txt").exists()
