"""A package of one's own can do all that headscope's own analyses can; a bad one harms nobody.

The packages are put on the path as an installed one lies there: its code, and beside it a
`.dist-info` folder with its entry points.
"""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zlib
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import torch

from headscope.engine.measure import measure_examples
from headscope.errors import StudyError
from headscope.options import RunOptions
from headscope.runs.run import load_run
from headscope.runs.tables import make_tables
from headscope.testing import MadeSource, check_analysis, make_example
from headscope.view.claim import list_claims
from tests.making import first_or_even
from tests.plugin.headscope_sharp import Sharpness

ROOT = Path(__file__).parents[1]
MODULE = ROOT / "tests" / "plugin" / "headscope_sharp.py"
PROJECT = tomllib.loads((MODULE.parent / "pyproject.toml").read_text())["project"]
NOTES = "The boat sails home.\nThe old house is red.\n\nShe saw the man.\nHe was late.\n"

# What a careless package may hold.
ANALYSIS = """
from dataclasses import dataclass
from typing import ClassVar
from headscope import SUMS, Analysis, Estimates, Watch, option

@dataclass(frozen=True)
class Own(Analysis):
    name: ClassVar = "NAME"
    tables: ClassVar = {"NAME": ("layer", "head", "nats")}
    sums: ClassVar = {"nats": "layer head", "examples": ""}
    reads: ClassVar = (SUMS,)
    watches: ClassVar = Watch.ATTENTION

    def measure(self, seen):
        return {"nats": seen[SUMS].entropy.mean(-1), "examples": seen.ones()}

    def summarize(self, sums):
        return {"NAME": Estimates({"nats": sums.ratio("nats", "examples")})}
"""
FIELDS = "    def measure"
FIGURE = """
from headscope.view.presentation import Presentation
from headscope.view.specs import Grid

PRESENTATION = Presentation(
    show=[
        Grid(
            name="next-heads", title="Next", caption="Next.", needs=("position",),
            column="weight", axis="weight",
        ),
    ],
)
"""
BAD = {  # name -> what is changed in ANALYSIS
    "lacking": ("def summarize", "def sum_up"),
    "early": ("sums: ClassVar", "axes: ClassVar"),
    "watcher": ("Watch.ATTENTION", "'attention'"),
    "other": ('name: ClassVar = "NAME"', 'name: ClassVar = "another"'),
    "thief": ('tables: ClassVar = {"NAME"', 'tables: ClassVar = {"position"'),
    "clash": (FIELDS, f'    rows: int = option(7, "Rows.")\n\n{FIELDS}'),
}
PROBLEMS = {  # what is said of each, and of the three that fail to load
    "lacking": "it lacks summarize",
    "early": "it is of an earlier contract: it lacks `sums`",
    "watcher": "`watches` is 'attention', not a Watch",
    "other": "it is named 'another'",
    "thief": "another analysis has a table named 'position'",
    "clash": "Option --rows is declared twice in different ways",
    "broken": "ModuleNotFoundError: No module named 'not_there'",
    "dark": "AttributeError: module 'headscope_dark' has no attribute 'PRESENTATION'",
}


def put_on_path(
    folder: Path, name: str, group: str, points: Mapping[str, str], files: Mapping[str, str]
) -> None:
    package = name.replace("-", "_")
    info = folder / f"{package}-0.1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1\n")
    lines = [f"[{group}]", *(f"{point} = {target}" for point, target in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    for file, text in files.items():
        (folder / package).mkdir(exist_ok=True)
        (folder / package / file).write_text(text)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package of tests/plugin, one that adds a figure alone, and bad ones."""
    folder = tmp_path_factory.mktemp("site")
    group, shown = "headscope.analyses", "headscope.presentations"
    shutil.copy(MODULE, folder / MODULE.name)
    put_on_path(folder, PROJECT["name"], group, PROJECT["entry-points"][group], {})
    extra = {"extra": "headscope_extra:PRESENTATION"}
    put_on_path(folder, "headscope-extra", shown, extra, {"__init__.py": FIGURE})
    dark = {"dark": "headscope_dark:PRESENTATION"}
    put_on_path(folder, "headscope-dark", shown, dark, {"__init__.py": ""})
    for name, (old, new) in BAD.items():
        files = {"measure.py": ANALYSIS.replace(old, new).replace("NAME", name)}
        point = {name: f"headscope_{name}.measure:Own"}
        put_on_path(folder, f"headscope-{name}", group, point, files)
    broken = {"broken": "headscope_broken.measure:Own"}
    put_on_path(folder, "headscope-broken", group, broken, {"__init__.py": "import not_there"})
    return folder


@dataclass(frozen=True)
class Done:
    """What a command gave."""

    code: int
    stdout: str
    stderr: str


# Runs several commands in one process, as torch takes seconds to load.
COMMANDS = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
from headscope.cli import main

done = []
for arguments in json.load(sys.stdin):
    sys.argv, out, err = ["headscope", *arguments], io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            done.append([end.code or 0, out.getvalue(), err.getvalue()])
print(json.dumps(done))
"""


def run_commands(folder: Path, site: Path, *commands: str) -> list[Done]:
    paths = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "PYTHONPATH": paths, "COLUMNS": "200", "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS],
        input=json.dumps([command.split() for command in commands]),
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return [Done(*one) for one in json.loads(done.stdout)]


RUN = "analyze demo --text notes.txt --sharp 0.2 --out run"
CARD, FIGURES, ANALYSES = "card run 5-6", "list figures", "list analyses"
HELP, LAYOUT_HELP = "analyze --help-all", "layout --help-all"
FEW, MANY = "layout run --one-token 0.9999 --format csv", "layout run --one-token 0.1 --format csv"
ASKED = {name: f"analyze demo --text notes.txt --only {name} --out {name}" for name in PROBLEMS}
ASKED.pop("dark")  # it is no analysis


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("work")
    (folder / "notes.txt").write_text(NOTES)
    return folder


@pytest.fixture(scope="module")
def done(folder: Path, site: Path) -> dict[str, Done]:
    """All commands of this file, run once, in this order."""
    commands = [RUN, CARD, FIGURES, ANALYSES, HELP, LAYOUT_HELP, FEW, MANY, *ASKED.values()]
    return dict(zip(commands, run_commands(folder, site, *commands), strict=True))


@pytest.fixture(scope="module")
def run(done: dict[str, Done], folder: Path) -> Path:
    assert done[RUN].code == 0, done[RUN].stderr
    return folder / "run"


@pytest.fixture(scope="module")
def page(run: Path) -> str:
    return (run / "report.html").read_text()


def read_cards(page: str) -> list[dict[str, Any]]:
    """The cards that the page holds, packed where they are many."""
    script = re.search(r'<script[^>]* id="cards"[^>]*>(.*?)</script>', page, re.DOTALL)
    assert script is not None
    text = script[1].strip()
    packed = text if text.startswith("[") else zlib.decompress(b64decode(text)).decode()
    cards: list[dict[str, Any]] = json.loads(packed)
    return cards


def read_csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(StringIO(text)))


def test_its_option_is_on_the_command_line_and_in_the_manifest(
    done: dict[str, Done], run: Path
) -> None:
    help = re.search(r"--sharp +<float> +(.*?) *│", done[HELP].stdout)
    assert help is not None
    assert help[1].startswith("Weight from which on attention counts as sharp.")
    assert json.loads((run / "manifest.json").read_text())["analyses"]["sharpness"] == {
        "sharp": 0.2
    }


def test_its_table_is_written(run: Path) -> None:
    rows = read_csv((run / "tables" / "sharpness.csv").read_text())
    assert tuple(rows[0]) == (*Sharpness.tables["sharpness"], "documents")
    assert len(rows) == 72
    assert all(0 <= float(row["low"]) <= float(row["share"]) <= 1 for row in rows)
    assert (run / "tables" / "sharpness.parquet").exists()


def test_it_prints_its_table_and_its_behaviour_in_the_terminal(done: dict[str, Done]) -> None:
    first, *_, last = done[RUN].stdout.split("\n\n")
    behaviours = {line[:20].strip(): line for line in first.splitlines()}
    assert re.search(r"\d+ of 72 \(> 50%\) +\d-\d+ \d+% \[\d+-\d+\]", behaviours["one token"])
    assert re.match(r"sharpest +sharp attention *\n\d-\d+ +\d+\.\d % \[\d+\.\d-", last)


def test_its_figure_is_listed_and_on_the_page(done: dict[str, Done], page: str) -> None:
    assert re.search(r"^sharpness +How sharply heads look *$", done[FIGURES].stdout, re.MULTILINE)
    surface = page.partition('<section id="surface"')[2].partition("<section")[0]
    assert '<figure id="figure-sharpness"' in surface
    spec = re.search(r'id="spec-sharpness">(.*?)</script>', surface)
    assert spec is not None
    (marks,) = json.loads(spec[1])["datasets"].values()
    assert len(marks) == 72


def test_its_claim_is_judged_on_the_page(page: str) -> None:
    row = next(row for row in page.split("<tr>") if '<span class="id">(Example)</span>' in row)
    assert re.search(r"has [-+]\d+\.\d\spoints <span[^>]*>\[.*?\]</span> more sharp attention", row)
    assert '<a class="to" href="#figure-sharpness">' in row
    assert re.search(r'"verdict (holds|does-not-hold|undecided)"', row)


def test_its_claim_is_counted_apart_from_the_papers(done: dict[str, Done], page: str) -> None:
    said = " ".join(done[RUN].stderr.split())
    said = re.sub(r"Claims of other papers: .*? not measured\. ", "", said)
    counts = [
        [int(number) for number in re.findall(r"\d+", part.partition(".")[0])]
        for part in re.split(r"The paper's claims: |Claims of plug-ins: ", said)[1:]
    ]
    paper, added = ((n_measured, n_missing) for _, n_measured, *_, n_missing in counts)
    assert sum(added) == 1
    assert sum(paper) == sum(claim.section[0].isdigit() for claim in list_claims())
    assert f"{counts[0][0]} of {counts[0][1]}</strong>" in page


def test_its_fact_is_on_the_card(done: dict[str, Done], page: str) -> None:
    fact = re.search(r"^sharpness +(.*?) *$", done[CARD].stdout, re.MULTILINE)
    assert fact is not None
    assert re.fullmatch(r"\d+\.\d % \[.*\] of attention \(rank \d+ of 72\)", fact[1])
    (card,) = (card for card in read_cards(page) if card["name"] == "5-6")
    (values,) = (values for topic, values in card["facts"] if topic == "sharpness")
    assert fact[1].partition(" (")[0] in str(values)
    assert re.search(r"^summary .*; looks sharply \(\d\d %\)", done[CARD].stdout, re.MULTILINE)


def test_its_behaviour_is_on_the_map_with_a_threshold_of_its_own(
    done: dict[str, Done], run: Path
) -> None:
    described = r"--one-token +<float> +Threshold for calling a head sharp. \[default: \(0.5\)"
    assert re.search(described, done[LAYOUT_HELP].stdout)
    few, many = (
        sum("one token" in row["behaviours"].split("; ") for row in read_csv(done[command].stdout))
        for command in (FEW, MANY)
    )
    assert few == 0
    assert many > 36
    derived = json.loads((run / "manifest.json").read_text())["derived"]
    assert derived["layout"]["one_token"] == 0.1


def test_its_behaviour_is_shown_on_examples(page: str) -> None:
    examples = page.partition('<section id="examples"')[2].partition("<section")[0]
    assert re.search(r"<summary>one token: head \d-\d+ ", examples)


def test_without_the_package_its_run_is_read_and_the_lack_is_told(
    run: Path, folder: Path, tmp_path: Path
) -> None:
    commands = (CARD, f"report run --out {tmp_path / 'page.html'}")
    for (done,) in (run_commands(folder, tmp_path, command) for command in commands):
        assert done.code == 0, done.stderr
        said = " ".join(done.stderr.split())
        assert said.count("not installed") == 1
        assert "sharpness" in said
    assert "sharpness" in load_run(run).tables


def test_it_is_listed(done: dict[str, Done]) -> None:
    assert re.search(r"^sharpness +from headscope-sharp *$", done[ANALYSES].stdout, re.MULTILINE)


def test_a_package_may_show_tables_of_others(done: dict[str, Done], page: str) -> None:
    assert re.search(r"^next-heads +Next *$", done[FIGURES].stdout, re.MULTILINE)
    more = page.partition('<section id="more"')[2].partition("<section")[0]
    assert '<figure id="figure-next-heads"' in more


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_bad_package_is_named_once_and_the_rest_works(
    name: str, done: dict[str, Done], run: Path
) -> None:
    lines = done[RUN].stderr.replace("\n  ", " ").splitlines()  # long ones are wrapped
    said = [line for line in lines if f"'headscope-{name}'" in line]
    assert len(said) == 1
    assert "cannot be used" in said[0]
    assert PROBLEMS[name] in said[0]
    assert "pdate or uninstall the package." in said[0]
    tables = {path.stem for path in (run / "tables").glob("*.csv")}
    assert {"position", "entropy", "sharpness"} <= tables
    assert name not in tables


@pytest.mark.parametrize("name", ASKED)
def test_a_bad_package_that_is_asked_for_is_an_error(
    name: str, done: dict[str, Done], folder: Path
) -> None:
    asked = done[ASKED[name]]
    assert asked.code == 2
    error = asked.stderr.replace("\n  ", " ").splitlines()[-1]
    assert error.startswith("Error: ")
    assert f"'headscope-{name}'" in error
    assert PROBLEMS[name] in error
    assert not (folder / name).exists(), "refused before any work"


@pytest.mark.parametrize("precision", [torch.float32, torch.float16, torch.bfloat16])
def test_it_keeps_the_laws(precision: torch.dtype) -> None:
    check_analysis(Sharpness(sharp=0.3), precision)


def test_it_adds_up_sharp_weights() -> None:
    source = MadeSource(first_or_even, pieces=lambda word, place: 1, n_layers=2, n_heads=2)
    examples = [make_example(0, n_words=1), make_example(1, n_words=3)]  # of 3 and 5 tokens
    result = measure_examples(examples, source, [Sharpness(sharp=0.3)], RunOptions())
    table = make_tables(Sharpness(sharp=0.3), result.tallies["sharpness"])["sharpness"]
    assert table["share"].tolist() == pytest.approx([1, 1, 1 / 2, 1 / 2])
    with pytest.raises(StudyError, match=r"sharp.0 cannot be used\. Expected between 0 and 1"):
        Sharpness(sharp=0)


# The page that walks through it.

EXTEND = (ROOT / "docs" / "extend.md").read_text()


def test_the_page_shows_the_package_as_it_is() -> None:
    assert f"```python\n{MODULE.read_text()}```" in EXTEND


def test_the_page_shows_its_entry_point() -> None:
    shown = [tomllib.loads(block) for block in re.findall(r"```toml\n(.*?)```", EXTEND, re.DOTALL)]
    points = PROJECT["entry-points"]
    assert points in [block.get("project", {}).get("entry-points") for block in shown]
