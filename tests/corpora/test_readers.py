"""Files to examples, and what is said of files that are wrong."""

import gzip
from pathlib import Path

import pytest

from headscope.contracts import Annotation, CorpusRole
from headscope.corpora.collection import MemoryCorpus
from headscope.corpora.opening import open_corpus
from headscope.data.example import Example
from headscope.errors import InputError

TEXT, TREEBANK = CorpusRole.TEXT, CorpusRole.TREEBANK
WITH_WORDS = {Annotation.TEXT, Annotation.WORDS}
WITH_TREES = {*WITH_WORDS, Annotation.DEPENDENCIES}
WORD = "{}\t{}\t_\t_\t_\t_\t_\t_\t_\t{}\n"


def rows(*words: str) -> str:
    return "".join(WORD.format(i, word, "_") for i, word in enumerate(words, start=1))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    raw = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    return path


def texts(path: Path) -> list[tuple[str | None, str | None]]:
    return [(e.text, e.text_pair) for e in open_corpus(path, TEXT)]


def test_two_consecutive_paragraphs_of_a_document_make_a_segment(folder: Path) -> None:
    path = write(folder, "a.txt", "one\ntwo\nthree\n\n\nfour\nfive\n")
    assert texts(path) == [("one", "two"), ("three", None), ("four", "five")]
    assert [e.id for e in open_corpus(path, TEXT)] == ["a.txt:1", "a.txt:3", "a.txt:6"]


def test_line_ends_marks_and_blank_lines_are_not_text(folder: Path) -> None:
    path = write(folder, "a.txt", b"\xef\xbb\xbf\r\none\xe2\x80\xa8more\r\n  \t\r\ntwo")
    assert texts(path) == [("one\u2028more", None), ("two", None)]


def test_gzipped_files_read_like_plain_ones(folder: Path) -> None:
    plain, zipped = write(folder, "a.txt", "x\ny\n"), write(folder, "b.txt.gz", "x\ny\n")
    assert texts(plain) == texts(zipped)
    assert open_corpus(plain, TEXT).digest() == open_corpus(zipped, TEXT).digest()


def test_json_lines_are_examples_as_they_stand(folder: Path) -> None:
    lines = '{"id": "a", "text": "x", "text_pair": "y"}\n\n{"id": 7, "words": ["p", "q"]}\n'
    path = write(folder, "a.jsonl", lines + '{"text": "no id"}\n')
    assert list(open_corpus(path, TEXT)) == [
        Example("a", text="x", text_pair="y"),
        Example("7", words=("p", "q")),
        Example("a.jsonl:4", text="no id"),
    ]


def test_a_treebank_is_sentences_of_words(folder: Path) -> None:
    content = "# sent_id = s1\n# text = Du vin.\n1-2\tDu\t_\t_\t_\t_\t_\t_\t_\t_\n"
    content += WORD.format(1, "De", "_") + WORD.format(2, "le", "_")
    content += WORD.format("2.1", "ghost", "_") + WORD.format(3, "vin", "SpaceAfter=No")
    path = write(folder, "a.conllu", content + WORD.format(4, ".", "_") + "\n" + rows("Next"))
    first, second = open_corpus(path, TREEBANK)
    assert (first.id, first.words) == ("s1", ("De", "le", "vin", "."))
    assert first.spaces == (False, False, True, False)
    assert first.surfaces == ("D", "u", "vin", ".")
    assert second.surfaces is None
    assert (second.id, second.words) == ("a.conllu:10", ("Next",))


def test_the_words_of_a_contraction_stand_together(folder: Path) -> None:
    content = rows("I") + "2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No\n"
    content += "".join(WORD.format(i, w, "_") for i, w in ((2, "do"), (3, "n't"), (4, "!")))
    (example,) = open_corpus(write(folder, "a.conllu", content), TREEBANK)
    assert example.spaces == (False, True, False, False)


def test_a_treebank_as_text_gives_its_paragraphs_in_pairs(folder: Path) -> None:
    content = "# newdoc id = d\n# newpar\n" + rows("One") + "\n" + rows("two") + "\n"
    content += "# newpar id = p\n" + rows("Three") + "\n# newdoc\n" + rows("Four")
    path = write(folder, "a.conllu", content)
    assert texts(path) == [("One two", "Three"), ("Four", None)]


def test_a_treebank_without_paragraph_marks_has_a_sentence_a_paragraph(folder: Path) -> None:
    path = write(folder, "a.conllu", rows("One", "a") + "\n" + rows("Two") + "\n" + rows("Three"))
    assert texts(path) == [("One a", "Two"), ("Three", None)]


def test_a_folder_is_read_file_by_file_with_ids_of_its_own(folder: Path) -> None:
    (folder / "sub").mkdir()
    write(folder, "sub/a.txt", "x\n")
    write(folder, "a.txt", "y\n")
    write(folder, "notes.md", "not read\n")
    corpus = open_corpus(folder, TEXT)
    assert [(e.id, e.text) for e in corpus] == [("a.txt/a.txt:1", "y"), ("sub/a.txt/a.txt:1", "x")]


def test_the_starter_corpus_serves_as_text_and_as_treebank() -> None:
    segments, sentences = list(open_corpus("starter", TEXT)), open_corpus("starter", TREEBANK)
    assert all(e.text and e.text_pair for e in segments[:1])
    assert len(segments) >= 14
    assert len(list(sentences)) >= 150
    assert sentences.provides == {*WITH_TREES, Annotation.TAGS}


@pytest.mark.parametrize(
    ("columns", "tags"), [("NOUN\tNN", ("NOUN",)), ("_\tNN", ("NN",)), ("_\t_", None)]
)
def test_parts_of_speech_are_universal_ones_else_the_treebanks_own(
    tmp_path: Path, columns: str, tags: tuple[str, ...] | None
) -> None:
    path = write(tmp_path, "a.conllu", f"1\tBees\t_\t{columns}\t_\t0\troot\t_\t_\n\n")
    corpus = open_corpus(path, TREEBANK)
    (example,) = corpus
    assert example.tags == tags
    assert (Annotation.TAGS in corpus.provides) == (tags is not None)


def test_a_list_of_texts_is_a_corpus() -> None:
    assert [e.id for e in MemoryCorpus(["x", Example("y", text="z")])] == ["memory:1", "y"]
    with pytest.raises(InputError, match="Item 1 of the list is a int"):
        list(MemoryCorpus([3]))  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"fine\nbr\xffken\n", r"a\.txt:2: byte 3 of the line is not valid UTF-8"),
        ("a.txt", b"PK\x03\x04\0\0", r"a\.txt:1: this is a binary file"),
        ("a.jsonl", '{"text": "x"}\n{"text": \n', r"a\.jsonl:2: this is not a JSON object"),
        ("a.jsonl", "[1]\n", r"a\.jsonl:1: this is not a JSON object"),
        ("a.jsonl", '{"id": "x"}\n', r"a\.jsonl:1: there must be either text or words"),
        ("a.jsonl", '{"text": 3}\n', r"a\.jsonl:1: text and text_pair must be strings"),
        ("a.jsonl", '{"words": "x"}\n', r"a\.jsonl:1: words must be a list of strings"),
        ("a.jsonl", '{"id": [], "text": ""}\n', r"a\.jsonl:1: the id \[\] is not a string"),
        ("a.conllu", "1\tword\n", r"a\.conllu:1: 2 columns\. Expected 10"),
        ("a.conllu", WORD.format("x", "w", "_"), r"a\.conllu:1: 'x' is not a word id"),
        ("a.conllu", rows("a") + WORD.format(3, "b", "_"), r"a\.conllu:2: word 3 follows word 1"),
        ("a.conllu", WORD.format(1, "", "_"), r"a\.conllu:1: the word is empty"),
    ],
)
def test_a_bad_line_is_named_with_path_and_line(
    folder: Path, name: str, content: str | bytes, message: str
) -> None:
    path = write(folder, name, content)
    with pytest.raises(InputError, match=message):
        list(open_corpus(path, TEXT))


def tree_rows(*heads: int | str) -> str:
    row = "{}\tw\t_\t_\t_\t_\t{}\t{}\t_\t_\n"
    return "".join(row.format(i, h, "root" if h == 0 else "dep") for i, h in enumerate(heads, 1))


def test_a_treebank_has_trees(folder: Path) -> None:
    path = write(folder, "a.conllx", tree_rows(2, 0, 2) + "\n" + tree_rows(0))
    corpus = open_corpus(path, TREEBANK)
    assert corpus.provides == WITH_TREES
    assert [e.tree.heads for e in corpus if e.tree] == [(1, -1, 1), (-1,)]


def test_a_treebank_without_heads_has_words_alone(folder: Path) -> None:
    path = write(folder, "a.conllu", tree_rows("_", "_"))
    corpus = open_corpus(path, TREEBANK)
    assert corpus.provides == WITH_WORDS
    assert next(iter(corpus)).tree is None


@pytest.mark.parametrize(
    ("heads", "message"),
    [
        ((2, 0, 7), "a.conllu:5: word 3 has head 7, outside the sentence of 3 words"),
        ((0, 3, 2), "a.conllu:4: word 2 is part of a cycle"),
        ((0, 1, 0), "a.conllu:5: word 3 is a second root, after word 1"),
        ((0, "_", 1), "a.conllu:4: word 2 has head '_'"),
        ((0, "x", 1), "a.conllu:4: word 2 has head 'x'"),
    ],
)
def test_a_broken_tree_is_named_with_its_line(
    folder: Path, heads: tuple[int | str, ...], message: str
) -> None:
    path = write(folder, "a.conllu", tree_rows(0) + "\n" + tree_rows(*heads))
    with pytest.raises(InputError, match=message):
        list(open_corpus(path, TREEBANK))


def test_a_damaged_gzip_file_is_named(folder: Path) -> None:
    whole = gzip.compress(b"line\n" * 5000)
    cut, wrong = folder / "cut.txt.gz", folder / "wrong.txt.gz"
    cut.write_bytes(whole[: len(whole) // 2])
    wrong.write_bytes(b"not gzip")
    for path in (cut, wrong):
        with pytest.raises(InputError, match=f"{path.name}:.*gzip data is damaged"):
            list(open_corpus(path, TEXT))


def test_a_missing_file_is_answered_with_the_nearest_name(folder: Path) -> None:
    write(folder, "wiki.txt", "x\n")
    with pytest.raises(InputError, match=r"Did you mean '.*wiki\.txt'"):
        open_corpus(folder / "wikki.txt", TEXT)
    with pytest.raises(InputError, match="Did you mean 'starter'"):
        open_corpus("startr", TEXT)


def test_a_file_of_another_kind_is_refused_with_the_kinds_that_go(folder: Path) -> None:
    write(folder, "a.md", "x\n")
    with pytest.raises(InputError, match=r"its ending is '\.md'.*\.txt, \.jsonl"):
        open_corpus(folder / "a.md", TEXT)
    with pytest.raises(InputError, match="has no treebank file"):
        open_corpus(folder, TREEBANK)


def test_an_unreadable_path_is_an_input_error(folder: Path) -> None:
    path = folder / "gone.txt"
    path.symlink_to(folder / "nowhere")
    with pytest.raises(InputError, match="no such file"):
        open_corpus(path, TEXT)
