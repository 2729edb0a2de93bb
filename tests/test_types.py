"""A user's script is type-checked: the package says its types, and a wrong use is an error."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import headscope

ROOT = Path(__file__).parents[1]
RIGHT = '''
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pandas as pd
from torch import Tensor

import headscope as hs
from headscope.contracts import Analysis, Corpus


@dataclass(frozen=True)
class First(Analysis):
    """The mean weight of the first token."""

    power: int = hs.option(1, "To which power.")

    name: ClassVar[str] = "first"
    needs: ClassVar[frozenset[str]] = frozenset({hs.Annotation.WORDS})
    reads: ClassVar[tuple[hs.Reading, ...]] = (hs.SUMS,)
    sums: ClassVar[dict[str, str]] = {"weight": "layer head", "segments": ""}
    tables: ClassVar[dict[str, tuple[str, ...]]] = {"first": ("layer", "head", "weight")}

    def measure(self, seen: hs.Readings) -> Mapping[str, Tensor]:
        weight = seen[hs.SUMS].columns[..., 0].sum(-1) / seen.n_queries
        return {"weight": weight ** self.power, "segments": seen.ones()}

    def summarize(self, sums: hs.Sums) -> Mapping[str, hs.Estimates]:
        weight = hs.Number(sums.mean("weight", "segments"), within=(0, 1))
        return {"first": hs.Estimates({"weight": weight})}


@dataclass(frozen=True)
class Poem:
    name: str = "poem"
    provides: frozenset[str] = frozenset({hs.Annotation.TEXT})

    def __iter__(self) -> Iterator[hs.Example]:
        tree = hs.Tree((1, -1), ("det", "root"))
        mention = hs.Mention(0, 2, "a", 1)
        yield hs.Example("1", words=("The", "sea"), tree=tree, mentions=(mention,))

    def digest(self) -> str:
        return "1"


analysis: hs.Analysis = First(power=2)
corpus: hs.Corpus = Poem()
same: tuple[Analysis, Corpus] = (analysis, corpus)

run: hs.Run = hs.analyze("demo", text=corpus, only=["position", analysis], limit=3)
hs.analyze("demo", text=["a.txt", Path("b.txt")], only="position,entropy", out="run")
hs.analyze("demo", text=hs.texts(["One.", "Two."]), treebank="starter", also="ablation")
hs.analyze("demo", text=pd.DataFrame({"text": ["One."]}))
hs.analyze("demo", text=(text for text in ["One.", "Two."]))
hs.HeadscopeCallback(text=["One.", "Two."], every=500, only="position")
table: pd.DataFrame = run.tables["position"]
best: float = float(table["weight"].max())
card: hs.Card = run.card("1-1")
print(card.summary, run.card((3, 9)).title, "position" in run.figures)
page: Path = hs.load_run("run").report()
merged: hs.Run = hs.merge_runs(["a", Path("b")], "both")
hs.match_models("demo", "random-init:demo", text="a.txt", revision="main")
drawing: str = hs.show("demo", "A text.", head=(3, 9)).svg
probed: hs.Run = hs.probe("demo", train="a.conllu", test="b.conllu", only="attention-only")
version: str = hs.__version__
'''
WRONG = {
    'hs.analyse("demo")': "has no attribute",
    'hs.analyze("demo", text=3)': "incompatible type",
    'hs.analyze("demo", text="a.txt", only=3)': "incompatible type",
    'hs.analyze("demo", text="a.txt", resume="yes")': "incompatible type",
    "hs.load_run()": "Missing positional argument",
    'hs.load_run("run").tables[3]': "Invalid index type",
    'hs.load_run("run").table': "has no attribute",
    'hs.load_run("run").card(3)': "incompatible type",
    'hs.load_run("run").card("1-1").summaries': "has no attribute",
    "hs.texts(3)": "incompatible type",
    "hs.Tree((1,))": "Missing positional argument",
    'hs.Tree("1", ("root",))': "incompatible type",
    'hs.Mention("a", 2, "b", 1)': "incompatible type",
    'hs.Example(1, text="a")': "incompatible type",
    "other: hs.Analysis = hs.texts([])": "Incompatible types in assignment",
    'another: hs.Corpus = ["a"]': "Incompatible types in assignment",
}


def check_types(path: Path) -> str:
    """What mypy says, with the strict settings of the project and what it remembers of torch."""
    command = [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", str(path)]
    environment = {**os.environ, "MYPYPATH": "src"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    return done.stdout + done.stderr


def test_the_package_says_that_it_has_types() -> None:
    assert (Path(headscope.__file__).parent / "py.typed").exists()


def test_a_users_script_is_checked_and_each_wrong_use_is_an_error(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="mypy is not installed")
    path = tmp_path / "script.py"
    lines = RIGHT.splitlines()
    path.write_text("\n".join([*lines, *WRONG, ""]))
    said = check_types(path)
    errors = re.findall(r"script\.py:(\d+): error: (.*)", said)
    by_line = {int(line): message for line, message in errors}
    assert not [e for e in by_line.items() if e[0] <= len(lines)], said
    for place, (use, message) in enumerate(WRONG.items(), start=len(lines) + 1):
        assert message in by_line.get(place, "no error"), f"{use}: {by_line.get(place)}"


def test_every_public_name_is_there_and_has_a_type() -> None:
    source = Path(headscope.__file__).read_text()
    for name in headscope.__all__:
        assert getattr(headscope, name) is not None
        assert f" as {name}\n" in source or name == "__version__", f"{name} has no type"
    assert dir(headscope) == sorted(headscope.__all__)
    with pytest.raises(AttributeError, match="no attribute 'analyse'"):
        _ = headscope.analyse  # type: ignore[attr-defined]
