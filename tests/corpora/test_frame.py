"""What Python users hold already: tables and iterables of strings."""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from headscope.contracts import Corpus, CorpusRole
from headscope.corpora.opening import as_corpora
from headscope.data.example import Example
from headscope.errors import InputError


def only(items: object) -> Corpus:
    (corpus,) = as_corpora(items, CorpusRole.TEXT)  # type: ignore[arg-type]
    return corpus


def test_the_rows_of_a_table_are_examples() -> None:
    table = pd.DataFrame(
        {"score": [1, 2], "text": ["a b", "c"], "id": [7, 8], "document": ["x", "x"]}
    )
    corpus = only(table)
    assert list(corpus) == [
        Example("7", text="a b", document="x"),
        Example("8", text="c", document="x"),
    ]
    assert list(only(table[["text"]]))[1] == Example("table:2", text="c")
    assert [example.text for example in only(table[["score", "text"]])] == ["a b", "c"]


def test_a_single_column_needs_no_name_and_pairs_are_kept() -> None:
    assert [e.text for e in only(pd.DataFrame({"body": ["a"]}))] == ["a"]
    pair = only(pd.DataFrame({"text": ["a"], "text_pair": ["b"]}))
    assert list(pair) == [Example("table:1", text="a", text_pair="b")]


def test_a_row_without_id_or_document_is_not_named_nan() -> None:
    table = pd.DataFrame({"text": ["a", "b", "c"], "document": ["x", None, float("nan")]})
    assert [e.document for e in only(table)] == ["x", None, None]
    named = pd.DataFrame({"text": ["a", "b"], "id": ["x", pd.NA]})
    assert [e.id for e in only(named)] == ["x", "table:2"]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (pd.DataFrame({"txt": ["a"], "n": [1]}), "Did you mean 'txt'"),
        (pd.DataFrame({"text": ["a", None]}), "Row 2 of the table has no text"),
        (pd.DataFrame({"text": [1]}), "Row 1 of the table has no text"),
        (pd.DataFrame({"text": [10**5000]}), "a number of thousands of digits"),
        (pd.DataFrame([["a", "b"]], columns=["text", "text"]), "several columns 'text'"),
    ],
)
def test_a_table_without_text_is_refused(table: pd.DataFrame, said: str) -> None:
    with pytest.raises(InputError, match=said):
        only(table)


def stream() -> Iterator[str]:
    yield "One text."
    yield "Another."


@pytest.mark.parametrize(
    "items", [stream(), pd.Series(["One text.", "Another."]), ("One text.", "Another.")]
)
def test_any_iterable_of_strings_is_read_as_often_as_needed(items: object) -> None:
    corpus = only(items)
    assert [e.text for e in corpus] == [e.text for e in corpus] == ["One text.", "Another."]


@pytest.mark.parametrize("items", [b"bytes", {"a": 1}, 3, 10**5000], ids=["b", "d", "3", "long"])
def test_what_holds_no_texts_is_refused(items: object) -> None:
    with pytest.raises(InputError, match="not a corpus"):
        only(items)


def test_an_iterable_of_files_is_files(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text of a\n")
    corpus = only(path for path in [tmp_path / "a.txt"])
    assert [e.text for e in corpus] == ["text of a"]
