"""Runs and atlases as datasets of the hub: what is sent, what is read back, what is refused."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

import headscope as hs
from headscope.cli import app
from headscope.errors import OutputError, StudyError
from headscope.exports.card import plain, write_run_card
from headscope.files import read_sealed
from tests.conftest import DemoRun
from tests.exports.fake_hub import TOKEN, FakeHub, fake_hub
from tests.report.made import HOSTILE, hostile_run

NAME = "me/heads"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run over a text of this machine, with examples and a page."""
    place = tmp_path_factory.mktemp("secret-place")
    lines = [f"The keeper of lamp {n} came home over the wide sea.\n" for n in range(60)]
    (place / "notes.txt").write_text("\n".join(lines))
    options = {"only": "position,entropy", "progress": False}
    hs.analyze("demo", text=place / "notes.txt", out=place / "run", **options).report()
    return place / "run"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    with fake_hub(monkeypatch, tmp_path / "cache") as hub:
        yield hub


def test_a_run_that_was_pushed_is_read_back(folder: Path, hub: FakeHub) -> None:
    assert hs.push(folder, NAME, private=True).endswith("me/heads")
    assert hub.private == {NAME: True}
    assert hub.tokens == {f"Bearer {TOKEN}"}
    run, original = hs.open(f"hf:{NAME}"), hs.load_run(folder)
    assert run.tables.keys() == original.tables.keys()
    for name, table in original.tables.items():
        pd.testing.assert_frame_equal(run.tables[name], table)
    assert run.manifest["model"] == original.manifest["model"]
    assert run.card("1-3").summary == original.card("1-3").summary
    assert hs.open(folder).tables.keys() == original.tables.keys()


def test_what_is_sent_has_no_text_no_token_and_no_path_unless_one_asks(
    folder: Path, hub: FakeHub
) -> None:
    hs.push(folder, NAME)
    sent = hub.datasets[NAME]
    assert not {"examples.json", "report.html"} & sent.keys()
    for path, content in sent.items():
        assert TOKEN.encode() not in content, path
        assert b"secret-place" not in content, path
        assert b"keeper" not in content, path
    hs.push(folder, NAME, update=True, examples=True)
    assert {"examples.json", "report.html"} <= hub.datasets[NAME].keys()
    assert hs.open(f"hf:{NAME}").examples
    hs.push(folder, NAME, update=True)
    assert not {"examples.json", "report.html"} & hub.datasets[NAME].keys(), "stale files go"


def test_a_dry_run_writes_the_folder_that_would_be_sent(
    folder: Path, hub: FakeHub, tmp_path: Path
) -> None:
    out = tmp_path / "dataset"
    told = CliRunner().invoke(
        app, ["push", str(folder), NAME, "--dry-run", "--out", str(out), "--quiet"]
    )
    assert told.exit_code == 0, told.stderr
    assert told.stdout.strip() == str(out)
    assert not hub.datasets
    hs.push(folder, NAME)
    files = {p.relative_to(out).as_posix(): p.read_bytes() for p in out.rglob("*") if p.is_file()}
    assert files == {k: v for k, v in hub.datasets[NAME].items() if k != ".gitattributes"}
    assert hs.open(out).tables.keys() == hs.load_run(folder).tables.keys()


def test_the_card_names_every_table_and_says_how_to_load_it(
    demo_run: DemoRun, tmp_path: Path
) -> None:
    out = Path(hs.push(demo_run.folder, NAME, dry_run=True, out=tmp_path / "dataset"))
    _, head, body = (out / "README.md").read_text().split("---\n", 2)
    fields = dict(line.split(": ", 1) for line in head.splitlines())
    tables = {config["config_name"]: config for config in json.loads(fields["configs"])}
    manifest, run = read_sealed(out / "manifest.json"), hs.open(out)
    with_rows = {name for name in manifest["tables"] if len(run.tables[name])}
    assert set(tables) == with_rows < set(manifest["tables"]), "others cannot be shown"
    for config in tables.values():
        assert (out / config["data_files"]).is_file()
    assert 'hs.open("hf:me/heads")' in body
    assert "Head 3-9" in body, "the answer"
    pictures = re.findall(r"\]\((figures/[\w-]+\.png)\)", body)
    assert pictures
    for picture in pictures:
        assert (out / picture).read_bytes().startswith(b"\x89PNG")
    assert manifest["versions"]["torch"] in body
    assert "| repeats | repeats (32 examples, 3,264 tokens;" in body


def test_text_of_a_corpus_is_escaped_in_the_card() -> None:
    run = hostile_run()
    card = write_run_card(run, NAME, list(run.tables), [])
    assert HOSTILE not in card
    assert "<script" not in card
    assert "<img" not in card
    assert plain("a b\n# [x](y) <i>") == r"a b \# \[x\](y) &lt;i&gt;"


def test_an_atlas_is_pushed_with_its_tables(folder: Path, hub: FakeHub, tmp_path: Path) -> None:
    for name in ("one", "two"):
        shutil.copytree(folder, tmp_path / "runs" / name)
    hs.write_atlas(tmp_path / "runs", tmp_path / "atlas")
    hs.push(tmp_path / "atlas", NAME)
    sent = hub.datasets[NAME]
    assert set(sent) == {".gitattributes", "README.md", "tables/claims.parquet",
                         "tables/kinds.parquet"}  # fmt: skip
    assert "| claim | one | two |" in sent["README.md"].decode()
    hs.push(tmp_path / "atlas", NAME, update=True, examples=True)
    assert {"index.html", "models/001.html"} <= hub.datasets[NAME].keys()


def test_a_taken_name_is_told_and_the_dataset_stays(folder: Path, hub: FakeHub) -> None:
    hub.datasets[NAME] = {"mine": b"1"}
    with pytest.raises(OutputError, match=r"has a dataset me/heads.*update"):
        hs.push(folder, NAME)
    assert hub.datasets[NAME] == {"mine": b"1"}


def test_a_dataset_that_got_nothing_is_removed(folder: Path, hub: FakeHub) -> None:
    hub.refuse["commit"] = 403
    with pytest.raises(OutputError, match=r"hf:me/heads cannot be written \(.*403"):
        hs.push(folder, NAME)
    assert not hub.datasets


def test_without_a_token_or_a_network_one_sentence_says_so(
    folder: Path, hub: FakeHub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(OutputError, match=r"hf:me/none cannot be read \(.*\)\. Expected"):
        hs.open("hf:me/none")
    with pytest.raises(StudyError, match="'heads' names no dataset"):
        hs.push(folder, "heads")
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    told = CliRunner().invoke(app, ["push", str(folder), NAME])
    assert told.exit_code == 2
    assert told.stderr.startswith("Error: hf:me/heads cannot be written (Connect")
    assert told.stderr.count("Traceback") == 0
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    with pytest.raises(StudyError, match="There is no token for the hub"):
        hs.push(folder, NAME)
    assert not hub.datasets
    assert not (folder / "exports").exists()


def test_what_is_no_run_is_not_pushed(tmp_path: Path, hub: FakeHub) -> None:
    with pytest.raises(OutputError, match="is not a run"):
        hs.push(tmp_path, NAME)
    assert not hub.datasets
