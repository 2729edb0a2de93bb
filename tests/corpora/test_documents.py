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


def test_newdoc_counts_also_before_a_blank_line(tmp_path: Path) -> None:
    text = sentence("newdoc id = x") + "# newdoc id = y\n\n" + sentence("sent_id = q-9")
    path = write(tmp_path / "a.conllu", text)
    assert documents(open_corpus(path, "treebank")) == ["a.conllu:x", "a.conllu:y"]
    assert documents(open_corpus(path, "text")) == ["a.conllu:x", "a.conllu:y"]


# How thirty treebanks write sentence ids, as patterns: d counts documents, p paragraphs in a
# document, s sentences in the smallest part, n sentences in the file. With it, the number of
# documents that such ids name (12 are written); 0: none, or not clearly.
STYLES = {
    "weblog-blogspot.com_x_2004{d:02}_ENG-{s:04}": 12,
    "reviews-{d:06}7-{s:04}": 12,
    "answers-2011{d:04}AAMt_ans-{s:04}": 12,
    "GUM_academic_art{d}-{s}": 12,
    "wiki-53{d}.p.{p}.s.{s}": 12,
    "WR-P-E-I-00000{d:03}.p.{p}.s.{s}": 12,
    "cmpr94{d:02}-001-p{p}s{s}": 12,
    "n{d:02}w-s{s}": 12,
    "2003Text{d}.xml_{s}": 12,
    "CESS-CAST-A-20000217-{d}-s{s}": 12,
    "CF{d}-{s}": 12,
    "M2TA_{d:03}-s{s}": 12,
    "b{d}.{s}": 12,
    "afp.20000715.00{d:02}:p{p}u{s}": 12,
    "ssj{d}.{p}.{s}": 12,
    "tlg0008.tlg0{d:02}.perseus-grc1.tb.xml@{s}": 12,
    "en_lines-ud-dev-doc{d}-{s}": 12,
    "train-s{n}": 0,
    "fr-ud-test_{n:05}": 0,
    "hdt-s{n}": 0,
    "sv-ud-dev-{n}": 0,
    "mst-{n:04}": 0,
    "VIT-{n}": 0,
    "en_partut-ud-{n}": 0,
    "{n}": 0,
    "{n:06}": 0,
    "n01{n:03}011": 0,
    "2004-{n}": 0,
    "sentence {n}": 0,
    "": 0,
    "no number": 0,
}


def write_ids(style: str) -> list[str]:
    """The ids of 12 documents of 2 paragraphs of 3 sentences, in a style."""
    ids, n = [], 0
    for d in range(1, 13):
        for s in range(1, 7):
            n += 1
            p, in_p = (1 + (s - 1) // 3, 1 + (s - 1) % 3) if "{p}" in style else (0, s)
            ids.append(style.format(d=d, p=p, s=in_p, n=n))
    return ids


def treebank(ids: list[str]) -> str:
    return "".join(sentence(*[f"sent_id = {i}"] * bool(i)) for i in ids)


@pytest.mark.parametrize(("style", "n_documents"), STYLES.items())
def test_sentence_ids_name_documents_only_where_they_clearly_do(
    tmp_path: Path, style: str, n_documents: int
) -> None:
    corpus = open_corpus(write(tmp_path / "a.conllu", treebank(write_ids(style))), "treebank")
    names = documents(corpus)
    assert len(dict.fromkeys(names)) == (n_documents or 4)  # 72 sentences are 4 blocks of 20
    known_by = "from sentence ids (guessed)" if n_documents else "blocks of 20 sentences (unknown)"
    assert corpus.documents == known_by  # type: ignore[attr-defined]
    if not n_documents:
        assert [names.count(name) for name in dict.fromkeys(names)] == [20, 20, 20, 12]


def test_ids_of_few_or_unequal_documents_or_in_disorder_are_not_trusted(tmp_path: Path) -> None:
    ids = write_ids("doc{d}-{s}")
    bad = {
        "few": [i for i in ids if i.startswith(("doc1-", "doc2-", "doc3-"))],
        "giant": [*ids, *(f"doc1-{n}" for n in range(7, 200))],
        "disorder": ids[::-1],
        "no start": [f"doc{d}-{s}" for d in range(20) for s in (40, 41)],
        "one without": [*ids, ""],
        "equal": ["doc-1"] * 40,
        "one each": [f"doc{d}-1" for d in range(40)],
    }
    for name, given in bad.items():
        path = write(tmp_path / f"{name}.conllu", treebank(given))
        assert "unknown" in open_corpus(path, "treebank").documents, name  # type: ignore[attr-defined]


def test_newdoc_is_believed_whatever_ids_say(tmp_path: Path) -> None:
    text = sentence("newdoc id = x", "sent_id = 1") + treebank(write_ids("doc{d}-{s}"))
    corpus = open_corpus(write(tmp_path / "a.conllu", text), "treebank")
    assert set(documents(corpus)) == {"a.conllu:x"}
    assert corpus.documents == "from newdoc"  # type: ignore[attr-defined]


def test_blocks_have_the_size_that_was_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path / "a.conllu", treebank(write_ids("train-s{n}")))
    for role in ("treebank", "text"):
        corpus = open_corpus(path, role).with_blocks(30)
        assert len(set(documents(corpus))) == 3
        assert corpus.documents == "blocks of 30 sentences (unknown)"  # type: ignore[attr-defined]


def test_among_many_files_without_marks_a_file_is_a_document(tmp_path: Path) -> None:
    for n in range(10):
        write(tmp_path / f"{n}.conllu", treebank(write_ids("train-s{n}")))
    corpus = open_corpus(tmp_path, "treebank")
    assert len(set(documents(corpus))) == 10
    assert corpus.documents == "one a file"  # type: ignore[attr-defined]
    (tmp_path / "9.conllu").unlink()
    assert len(set(documents(open_corpus(tmp_path, "treebank")))) == 9 * 4


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
