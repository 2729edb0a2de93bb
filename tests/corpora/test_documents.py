"""Every reader says which document an example is from, or that it does not know."""

import json
from pathlib import Path

import pytest

import headscope as hs
from headscope.contracts import CorpusRole
from headscope.corpora.opening import as_corpora, open_corpus


def documents(corpus: object) -> list[str | None]:
    return [example.document for example in corpus]  # type: ignore[attr-defined]


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def sentence(*comments: str) -> str:
    return "".join(f"# {c}\n" for c in comments) + "1\ta\t_\t_\t_\t_\t0\troot\t_\t_\n\n"


def test_a_blank_line_ends_a_document_of_text(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "one\ntwo\nthree\n\nfour\n")
    assert documents(open_corpus(path, "text")) == ["a.txt:1", "a.txt:1", "a.txt:5"]


def test_without_blank_lines_documents_of_text_are_not_known(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "\n\none\ntwo\nthree\n\n")
    assert documents(open_corpus(path, "text")) == [None, None]


def test_newdoc_begins_a_document_of_a_treebank(tmp_path: Path) -> None:
    text = sentence("newdoc id = x") + sentence("sent_id = q-9") + sentence("newdoc")
    path = write(tmp_path / "a.conllu", text)
    assert documents(open_corpus(path, "treebank")) == ["a.conllu:x", "a.conllu:x", "a.conllu:2"]
    assert documents(open_corpus(path, "text")) == ["a.conllu:x", "a.conllu:2"]


@pytest.mark.parametrize(
    ("sent_id", "document"),
    [
        ("weblog-blogspot.com_2004-0001", "a.conllu:weblog-blogspot.com_2004"),
        ("GUM_academic_art-12", "a.conllu:GUM_academic_art"),
        ("fr-ud-dev_00013", "a.conllu:fr-ud-dev"),
        ("train-s17", "a.conllu:train"),
        ("12", None),
        ("2004-12", None),
        ("no number", None),
    ],
)
def test_without_newdoc_the_sentence_id_tells(
    tmp_path: Path, sent_id: str, document: str | None
) -> None:
    path = write(tmp_path / "a.conllu", sentence(f"sent_id = {sent_id}"))
    assert documents(open_corpus(path, "treebank")) == [document]


def test_a_file_of_a_folder_is_a_document_where_none_is_marked(tmp_path: Path) -> None:
    write(tmp_path / "a.txt", "one\ntwo\nthree\n")
    write(tmp_path / "b.txt", "one\n\ntwo\n")
    assert documents(open_corpus(tmp_path, "text")) == [
        *("a.txt", "a.txt"),
        *("b.txt/b.txt:1", "b.txt/b.txt:3"),
    ]


def test_json_lines_name_their_documents(tmp_path: Path) -> None:
    rows = [{"text": "a", "document": "x"}, {"text": "b", "document": 7}, {"words": ["c"]}]
    path = write(tmp_path / "a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert documents(open_corpus(path, "text")) == ["x", "7", None]
    bad = write(tmp_path / "bad.jsonl", '{"text": "a", "document": ["x"]}\n')
    with pytest.raises(hs.HeadscopeError, match=r"bad\.jsonl:1: the document \['x'\] is not"):
        list(open_corpus(bad, "text"))


def test_parts_of_one_broadcast_are_one_document(tmp_path: Path) -> None:
    row = "d\t{}\t0\tit\tPRP\t*\t-\t-\t-\t-\t*\t(1)\n"
    parts = [f"#begin document (d); part 00{i}\n{row.format(i)}\n#end document\n" for i in range(2)]
    path = write(tmp_path / "a.conll", "".join(parts))
    examples = list(open_corpus(path, "coref"))
    assert [example.id for example in examples] == ["d.0", "d.1"]
    assert documents(examples) == ["d", "d"]


def test_gap_takes_the_page_as_the_document(tmp_path: Path) -> None:
    header = "ID\tText\tPronoun\tPronoun-offset\tA\tA-offset\tA-coref\tB\tB-offset\tB-coref\tURL\n"
    row = "{}\tAnn saw Bea and she left\tshe\t16\tAnn\t0\tTRUE\tBea\t8\tFALSE\thttp://x\n"
    path = write(tmp_path / "a.tsv", header + row.format("v-1") + row.format("v-2"))
    assert documents(open_corpus(path, "coref")) == ["http://x", "http://x"]


def test_examples_in_memory_may_have_documents() -> None:
    examples = [hs.Example("a", text="x", document="d"), hs.Example("b", text="y")]
    (corpus,) = as_corpora(examples, CorpusRole.TEXT)
    assert documents(corpus) == ["d", None]
    assert [example.own_document for example in corpus] == ["d", "b"]
