"""The gate that corpora come through: what is wrong is told with file and line, never silent."""

import contextlib
import gzip
import json
import logging
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from headscope.contracts import Annotation, CorpusRole
from headscope.corpora import lines as gate
from headscope.corpora.lines import FileCorpus, Lines
from headscope.corpora.opening import open_corpus, texts
from headscope.data.example import Example
from headscope.engine.sample import draw_sample
from headscope.errors import HeadscopeError, InputError, shorten
from tests.fuzz.seeds import BRACKETS, CHOICES, ENTITIES, TREES

TEXT, TREEBANK, COREF = CorpusRole.TEXT, CorpusRole.TREEBANK, CorpusRole.COREF


def refuse(path: Path, role: CorpusRole, match: str) -> None:
    with pytest.raises(InputError, match=match):
        list(open_corpus(path, role))


@pytest.mark.parametrize("word_id", ["1-99", "0-1", "2-1", "1-999999999", "1-" + "9" * 20])
def test_a_range_that_does_not_fit_is_refused(tmp_path: Path, word_id: str) -> None:
    (tmp_path / "a.conllu").write_text(TREES.replace("1-2\t", f"{word_id}\t"))
    refuse(tmp_path / "a.conllu", TREEBANK, r"a\.conllu:4: .*(range|not a word id)")


def test_a_range_that_stands_twice_is_refused(tmp_path: Path) -> None:
    row = TREES.split("\n")[3]
    (tmp_path / "a.conllu").write_text(TREES.replace(row, f"{row}\n{row}"))
    refuse(tmp_path / "a.conllu", TREEBANK, r"a\.conllu:5: the range 1-2 does not fit")


@pytest.mark.parametrize(
    ("name", "old", "new", "match"),
    [
        ("a.conll", "#end document\n#begin", "#begin", r"a\.conll:1: .* never ends"),
        ("a.conll", "(1)\nbay 0 1 saw", "(1)|(1)\nbay 0 1 saw", "marked twice"),
        ("a.tsv", "FALSE\tu/1", "TRUE\tu/1", r"a\.tsv:2: .* both TRUE"),
        ("a.tsv", "Bea\t8", "Ann\t0", r"a\.tsv:2: A and B overlap"),
        ("a.tsv", "\tURL", "\tText", r"a\.tsv:1: repeated column Text"),
        ("b.conllu", "(e1-person-1)\n", "(e1-person-1)|Entity=(e3)\n", r"b\.conllu:4: .* 2 times"),
        ("b.conllu", "1\tAnn", "1-1\tAnn\t_\t_\t_\t_\t_\t_\t_\tEntity=(e7)\n1\tAnn", "a range"),
    ],
)
def test_annotation_that_contradicts_itself_is_refused(
    tmp_path: Path, name: str, old: str, new: str, match: str
) -> None:
    good = {"a.conll": BRACKETS, "a.tsv": CHOICES, "b.conllu": ENTITIES}[name]
    assert old in good
    (tmp_path / name).write_text(good.replace(old, new, 1))
    refuse(tmp_path / name, COREF, match)


def test_mentions_at_empty_nodes_are_counted_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    zero = "2.1\t_\t_\t_\t_\t_\t_\t_\t_\tEntity=(e1)(e5)\n3\tthe"
    (tmp_path / "b.conllu").write_text(ENTITIES.replace("3\tthe", zero))
    corpus = open_corpus(tmp_path / "b.conllu", COREF)
    with caplog.at_level(logging.WARNING, "headscope"):
        assert sum(len(e.mentions or ()) for e in corpus) == 3
        list(corpus)
    assert [r.message.partition(": ")[2] for r in caplog.records] == [
        "2 mentions at empty nodes, which are not in the text, are left out."
    ]


@pytest.mark.parametrize(
    ("line", "match"),
    [
        ('{"text": "a", "text": "b"}', "it has a key twice"),
        ('{"words": ["a"], "text_pair": "b"}', "go with text"),
        ('{"text": "a", "alignment": "0-0"}', "needs a text_pair"),
        ('{"text": ' + "[" * 2500 + "]" * 2500 + "}", "nested too deeply"),
        ('{"id": ' + "9" * 5000 + ', "text": "a"}', "not a JSON object"),
        ('{"id": true, "text": "a"}', "the id True is not"),
    ],
)
def test_json_that_would_lose_something_is_refused(tmp_path: Path, line: str, match: str) -> None:
    (tmp_path / "a.jsonl").write_text(f"{line}\n")
    refuse(tmp_path / "a.jsonl", TEXT, match)


def test_keys_that_are_not_read_are_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a", "url": "u"}\n{"text": "b", "url": "v"}\n')
    corpus = open_corpus(tmp_path / "a.jsonl", TEXT)
    assert len(list(corpus)) == len(list(corpus)) == 2
    assert [r.message for r in caplog.records] == [
        f"{tmp_path}/a.jsonl: 2 lines have a key 'url', which is not read."
    ]


def test_a_file_that_changes_between_two_readings_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\n")
    corpus = open_corpus(path, TEXT)
    digest = corpus.digest()
    assert len(list(corpus)) == 1
    assert corpus.digest() == digest
    path.write_text("two\n")
    with pytest.raises(InputError, match="changed while it was being read"):
        list(corpus)


def test_folders_tell_of_every_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "good.CONLLU").write_text(TREES)
    assert len(list(open_corpus(tmp_path, TREEBANK))) == 3
    (tmp_path / "empty.conllu").touch()
    (tmp_path / "gone.conllu").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe.conllu")
    corpus = open_corpus(tmp_path, TREEBANK)
    assert Annotation.DEPENDENCIES in corpus.provides  # an empty file takes nothing away
    for read in (list, lambda corpus: draw_sample(corpus, None, seed=0)):  # as a run does
        with pytest.raises(InputError, match="3 of the 4 files") as raised:
            read(corpus)
        for reason in (
            "empty.conllu is empty",
            "gone.conllu cannot be read",
            "pipe.conllu is not",
        ):
            assert reason in str(raised.value)
    kept = open_corpus(tmp_path, TREEBANK, skip_bad=True)
    assert len(list(kept)) == 3


def test_links_to_folders_are_followed_once(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/one.txt").write_text("one\n")
    (tmp_path / "a/loop").symlink_to(tmp_path)
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert len(list(open_corpus(tmp_path, TEXT))) == 1


@pytest.mark.parametrize("name", ["/dev/zero", "", " ", "x" * 300, "a\0b"])
def test_what_is_no_file_is_refused(name: str, tmp_path: Path) -> None:
    link = tmp_path / "a.txt"
    link.symlink_to("/dev/zero")
    with pytest.raises(HeadscopeError, match=r"not an ordinary file|No corpus|a path"):
        list(open_corpus(link if name == "/dev/zero" else name, TEXT))


def test_a_line_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "LONGEST_LINE", 1000)
    (tmp_path / "a.txt").write_text("short\n" + "x" * 2000)
    refuse(tmp_path / "a.txt", TEXT, r"a\.txt:2: this line is longer than 1,000 bytes")


def test_a_read_error_in_the_middle_names_the_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        left = 2

        def readline(self, most: int) -> bytes:
            self.left -= 1
            if self.left < 0:
                raise OSError(5, "Input/output error")
            return b"line\n"

        def __enter__(self) -> "Broken":
            return self

        def __exit__(self, *problem: object) -> None: ...

    (tmp_path / "a.txt").write_text("line\n")
    monkeypatch.setattr(gate, "open_bytes", lambda path: Broken())
    with pytest.raises(
        InputError, match=r"a\.txt:3: the rest of the file cannot be read \(Input/output"
    ):
        list(open_corpus(tmp_path / "a.txt", TEXT))


@dataclass(frozen=True)
class Careless(FileCorpus):
    roles = frozenset({TEXT})
    suffixes = (".careless",)
    provides = frozenset({Annotation.TEXT})

    def read(self, lines: Lines) -> Iterator[Example]:
        for number, line in lines:
            yield Example(str(number), text=str(int(line)))


def test_whatever_a_reader_raises_names_the_line(tmp_path: Path) -> None:
    (tmp_path / "a.careless").write_text("1\n" + "y" * 3000 + "\n")
    with pytest.raises(InputError, match=r"a\.careless:2: .*ValueError") as raised:
        list(Careless(tmp_path / "a.careless"))
    assert "y" * 200 not in str(raised.value)


def test_half_characters_in_python_are_refused() -> None:
    with pytest.raises(InputError, match="Item 2 of the list has half a character"):
        list(texts(["fine", "\ud800"]))


def test_messages_quote_a_line_at_most() -> None:
    assert shorten(10**5000) == "a number of thousands of digits"
    assert shorten("a\ud800") == "a?"


ROW = "1\tA\t_\t_\t_\t_\t0\troot\t_\t{}\n"
LONG = 1_000_000
BEGIN = "#begin document ({}\nbc/a 3 0 The DT (TOP*) - - - - * (7)\n#end document\n"


@pytest.mark.parametrize(
    ("name", "role", "content"),
    [
        ("brackets.conllu", COREF, ROW.format("Entity=" + "(" * LONG)),
        ("names.conllu", COREF, ROW.format("Entity=" + "x" * LONG)),
        ("letters.conllu", TREEBANK, f"# sent_id = {'a' * LONG}\n" + ROW.format("_")),
        ("lines.conllu", TREEBANK, f"# sent_id = {'_' * LONG}\n" + ROW.format("_")),
        ("spaces.conll", COREF, BEGIN.format(" " * LONG + "x")),
    ],
)
def test_the_time_to_read_a_long_line_grows_with_its_length_only(
    tmp_path: Path, name: str, role: CorpusRole, content: str
) -> None:
    (tmp_path / name).write_text(content)
    start = time.process_time()
    with contextlib.suppress(InputError):
        list(open_corpus(tmp_path / name, role))
    assert time.process_time() - start < 30  # with the square of its length it takes hours


@pytest.mark.parametrize("name", ["a.txt.gz", "a.jsonl.gz", "a.conllu.gz"])
def test_endless_blank_lines_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(gzip.compress(b"\n" * 1_000_001))
    refuse(tmp_path / name, TEXT, r"bytes of blank lines in a row")


def test_many_unknown_keys_are_told_in_a_few_lines(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    record = {"text": "a", **{f"key {i}": i for i in range(20_000)}}
    (tmp_path / "a.jsonl").write_text(json.dumps(record))
    list(open_corpus(tmp_path / "a.jsonl", TEXT))
    assert len(caplog.records) == 6
    assert "19,995 notes of other kinds" in caplog.text
