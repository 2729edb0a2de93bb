"""Datasets as text: `hf:NAME[:config][:split][:column]`, on local files and folders."""

import json
import sys
from pathlib import Path

import pandas as pd
import pytest

from headscope.corpora.hub_dataset import HubDataset
from headscope.corpora.opening import as_corpora, open_corpus
from headscope.errors import InputError
from headscope.testing import check_corpus

pytest.importorskip("datasets")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two splits of parquet, one of JSON in another, and a cache of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr("datasets.config.HF_MODULES_CACHE", tmp_path / "modules")
    rows = {"text": ["Bees fly.", "", "The sea."], "other": ["x", "y", "z"], "n": [1, 2, 3]}
    (tmp_path / "bees").mkdir()
    pd.DataFrame(rows).to_parquet(tmp_path / "bees/train.parquet")
    pd.DataFrame({"text": ["Held out."], "other": ["w"], "n": [4]}).to_parquet(
        tmp_path / "bees/test.parquet"
    )
    (tmp_path / "lines").mkdir()
    lines = [{"words": 1, "body": "A line."}, {"words": 2, "body": "Two lines."}]
    (tmp_path / "lines/all.json").write_text("\n".join(map(json.dumps, lines)))
    pd.DataFrame(lines).to_parquet(tmp_path / "lines.parquet")
    return tmp_path


def texts_of(address: str) -> list[str | None]:
    return [example.text for example in HubDataset(address)]


@pytest.mark.usefixtures("folder")
class TestReading:
    def test_a_row_is_an_example_and_an_empty_one_too(self) -> None:
        corpus = open_corpus("hf:bees", "text")
        assert [(example.id, example.text) for example in corpus] == [
            ("hf:bees:1", "Bees fly."),
            ("hf:bees:2", ""),
            ("hf:bees:3", "The sea."),
        ]
        check_corpus(corpus)

    def test_each_part_chooses(self) -> None:
        assert texts_of("hf:bees::test") == ["Held out."]
        assert texts_of("hf:bees:::other") == ["x", "y", "z"]
        assert texts_of("hf:bees:default:train:other") == ["x", "y", "z"]
        assert texts_of("hf:bees::train[:2]") == ["Bees fly.", ""]

    def test_files_and_folders_of_json_are_read(self) -> None:
        assert texts_of("hf:lines") == ["A line.", "Two lines."]  # the only column of strings
        assert texts_of("hf:lines/all.json") == ["A line.", "Two lines."]
        assert texts_of("hf:lines.parquet") == ["A line.", "Two lines."]
        assert texts_of("hf:bees/test.parquet") == ["Held out."]

    def test_the_digest_is_that_of_the_texts(self, folder: Path) -> None:
        before = HubDataset("hf:bees").digest()
        assert before == HubDataset(f"hf:{folder}/bees").digest()
        assert before != HubDataset("hf:bees::train[:2]").digest()
        assert before != HubDataset("hf:bees:::other").digest()

    def test_an_address_in_a_list_is_no_text(self) -> None:
        (corpus,) = as_corpora(["hf:bees::test", "hf:lines"], "text")  # type: ignore[arg-type]
        assert [example.text for example in corpus] == ["Held out.", "A line.", "Two lines."]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("hf:", "names no dataset"),
        ("hf:a:b:c:d:e", "names no dataset"),
        ("hf:bees::tran", "Did you mean 'train'"),
        ("hf:bees::train[2:]", "names no dataset|no split"),
        ("hf:bees:::txt", "Did you mean 'text'"),
        ("hf:bees:::n", "row 1 of column 'n' holds a int"),
        ("hf:bees:nowhere", "cannot be read"),
        ("hf:no/such-dataset", "connection"),
        ("hf:README.md", "cannot be read"),
    ],
)
def test_what_cannot_be_read_is_one_short_error(address: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        list(HubDataset(address))
    assert len(str(caught.value)) < 600


def test_only_text_is_read_so() -> None:
    with pytest.raises(InputError, match="cannot be read as treebank"):
        open_corpus("hf:bees", "treebank")


def test_without_the_library_its_extra_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "datasets.load", None)
    with pytest.raises(InputError, match=r"pip install 'headscope\[datasets\]'"):
        list(HubDataset("hf:bees"))


def test_an_empty_file_is_an_error(folder: Path) -> None:
    (folder / "empty.jsonl").touch()
    with pytest.raises(InputError, match=r"empty\.jsonl cannot be read \(it has no row\)"):
        list(HubDataset(f"hf:{folder / 'empty.jsonl'}"))


def test_a_damaged_file_is_an_error(folder: Path) -> None:
    (folder / "bees/train.parquet").write_bytes(b"PAR1 not at all PAR1")
    with pytest.raises(InputError, match="cannot be read"):
        list(HubDataset("hf:bees"))
