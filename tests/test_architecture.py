"""docs/architecture.md tells the truth: its files exist, its rooms are all, its walk is real."""

import ast
import re
import sys
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from headscope import cli
from headscope.runs.folder import RunFolder

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "headscope"
PAGE = (ROOT / "docs" / "architecture.md").read_text()
FILE = re.compile(r"`((?:\w+/)*\w+(?:\.\w+)+)`")
OWN = "analyses/position.py"
MOST_TO_ROW, MOST_TO_PAGE = 25, 15


def part(heading: str) -> str:
    """What stands under a heading, up to the next one."""
    found = re.search(rf"^#+ {heading}\n(.*?)(?=^#|\Z)", PAGE, re.DOTALL | re.MULTILINE)
    assert found is not None, heading
    return found[1]


def walk(heading: str) -> tuple[list[str], list[str]]:
    """The files of a walk, and the values and helpers named below it."""
    text = part(heading)
    steps = [line for line in text.splitlines() if re.match(r"\d+\. ", line)]
    files = [FILE.findall(step)[0] for step in steps]
    named = [name for name in FILE.findall(text) if name.endswith(".py")]
    return files, [name for name in named if name not in files]


TO_ROW, BESIDE_ROW = walk("To a row of a table")
TO_PAGE, BESIDE_PAGE = walk("From there to the page")


def test_every_file_on_the_page_exists() -> None:
    names = FILE.findall(PAGE)
    assert len(set(names)) > 50
    for name in names:
        assert (SOURCE / name).is_file(), name


def test_every_room_is_on_the_page() -> None:
    table = part("The flow")
    for path in SOURCE.iterdir():
        if path.is_dir() and path.name != "__pycache__":
            assert f"`{path.name}/`" in table, path.name
        elif path.suffix == ".py":
            assert f"`{path.name}`" in table, path.name


def test_every_folder_on_the_page_exists() -> None:
    folders = {name.strip("/") for name in re.findall(r"(?<![\w/])([a-z]+)/(?!\w)", PAGE)}
    assert folders == {path.name for path in SOURCE.iterdir() if path.is_dir()} - {"__pycache__"}


# Who imports whom.


def ranks() -> dict[str, int]:
    """The row of each room, the lowest row first."""
    rows = re.findall(r"^\d+\. (.*)$", part("Who may import whom"), re.MULTILINE)
    return {
        name: -number
        for number, row in enumerate(rows)
        for name in re.findall(r"`([a-z*/_]+?)(?:/|\.py)`", row)
    }


def imports_of(path: Path) -> set[str]:
    """The modules of headscope that a file imports at run time."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            node.body = []
    found = [n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module]
    return {
        module.removeprefix("headscope.") for module in found if module.startswith("headscope.")
    }


def row_of(module: str) -> str:
    """The room of a module; what shows the probes is another one."""
    return "probes/show" if module in ("probes.show", "probes.charts") else module.partition(".")[0]


def test_imports_point_down_as_the_page_says() -> None:
    rank = ranks()
    for path in SOURCE.rglob("*.py"):
        module = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        own = row_of(module)
        if module == "__init__":
            continue
        for other in map(row_of, imports_of(path)):
            assert other == own or rank[other] < rank[own], f"{module} imports from {other}"


# The walk.


class Walk:
    """The files of headscope whose functions run: until the tables are written, and after."""

    def __init__(self) -> None:
        self.to_row: dict[str, None] = {}
        self.after: dict[str, None] = {}
        self._now = self.to_row

    def note(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        is_function = code.co_flags & CO_OPTIMIZED  # neither a module nor a class is being made
        if event == "call" and is_function and code.co_filename.startswith(f"{SOURCE}/"):
            self._now[code.co_filename.removeprefix(f"{SOURCE}/")] = None
        elif event == "return" and code is RunFolder.finish.__code__:
            self._now = self.after


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> Walk:
    """The command of the page, run twice: the first time loads what is loaded on first use."""
    folder = tmp_path_factory.mktemp("walk")
    (folder / "notes.txt").write_text("Bees fly far.\nThey come home.\n\nThe sea is wide.\n")
    command = re.search(r"`(headscope analyze [^`]*)`", part("The walk of one batch"))
    assert command is not None
    walk = Walk()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for out, note in (("first", None), ("second", walk.note)):
            patch.setattr(sys, "argv", [*command[1].split(), "--out", out])
            sys.setprofile(note)
            try:
                with pytest.raises(SystemExit) as end:
                    cli.main()
            finally:
                sys.setprofile(None)
            assert not end.value.code
    return walk


def without_other_questions(files: dict[str, None]) -> set[str]:
    """The others are asked too, and have nothing to say."""
    python = {name for name in files if name.endswith(".py")}
    return {n for n in python if n == OWN or n.partition("/")[0] not in ("analyses", "probes")}


def test_the_walk_to_a_row_is_real(walked: Walk) -> None:
    assert without_other_questions(walked.to_row) == {*TO_ROW, *BESIDE_ROW}
    assert len(TO_ROW) == len(set(TO_ROW)) <= MOST_TO_ROW


def test_the_walk_to_the_page_is_real(walked: Walk) -> None:
    later = without_other_questions(walked.after) - walked.to_row.keys()
    assert later == {*TO_PAGE, *BESIDE_PAGE}
    assert len(TO_PAGE) == len(set(TO_PAGE)) <= MOST_TO_PAGE
