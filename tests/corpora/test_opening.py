"""What a user gives, and which corpora it stands for."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from headscope import registry
from headscope.contracts import Annotation, Corpus, CorpusRole
from headscope.corpora import opening
from headscope.corpora.collection import FilesCorpus, MemoryCorpus
from headscope.corpora.lines import FileCorpus
from headscope.corpora.opening import as_corpora, open_corpus, texts
from headscope.corpora.starter import STARTER
from headscope.corpora.text import TextCorpus
from headscope.data.example import Example
from headscope.errors import InputError, StudyError

TEXT, TREEBANK, COREF = CorpusRole.TEXT, CorpusRole.TREEBANK, CorpusRole.COREF
EXAMPLES = [Example("x", words=("a",)), Example("y", words=("b",))]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with some files."""
    monkeypatch.chdir(tmp_path)
    for path in ("a.txt", "b.txt", "sub/a.txt", "sub/c.txt"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(f"text of {path}\n")
    return tmp_path


def only(corpora: list[Corpus]) -> Corpus:
    (corpus,) = corpora
    return corpus


def contents(corpus: Corpus) -> list[tuple[str, str | None]]:
    return [(example.id, example.text) for example in corpus]


@pytest.mark.usefixtures("folder")
class TestText:
    def test_a_list_of_files_is_one_corpus_in_this_order(self) -> None:
        corpus = only(as_corpora(["b.txt", "a.txt"], TEXT))
        assert corpus.name == "b.txt and 1 more"
        assert contents(corpus) == [
            ("b.txt/b.txt:1", "text of b.txt"),
            ("a.txt/a.txt:1", "text of a.txt"),
        ]
        assert corpus.provides == {Annotation.TEXT}

    def test_the_digest_of_a_list_of_files_depends_on_all(self, folder: Path) -> None:
        both = only(as_corpora(["a.txt", "b.txt"], TEXT))
        before = both.digest()
        assert before == only(as_corpora([folder / "a.txt", "./b.txt"], TEXT)).digest()
        assert before != only(as_corpora(["b.txt", "a.txt"], TEXT)).digest()
        (folder / "b.txt").write_text("other\n")
        assert before != only(as_corpora(["a.txt", "b.txt"], TEXT)).digest()

    def test_a_list_of_one_file_is_the_file(self) -> None:
        for items in ("a.txt", ["a.txt"], (Path("a.txt"),)):
            corpus = only(as_corpora(items, TEXT))
            assert corpus == TextCorpus(Path("a.txt"))
            assert contents(corpus) == [("a.txt:1", "text of a.txt")]

    def test_files_of_the_same_name_have_ids_of_their_own(self) -> None:
        corpus = only(as_corpora(["a.txt", "sub/a.txt"], TEXT))
        assert [id for id, _ in contents(corpus)] == ["a.txt/a.txt:1", "sub/a.txt/a.txt:1"]
        assert corpus.name == "a.txt and 1 more"

    def test_folders_and_names_go_with_files(self) -> None:
        corpus = only(as_corpora(["sub", "starter", Path("b.txt")], TEXT))
        assert isinstance(corpus, FilesCorpus)
        assert list(corpus.members) == ["sub/a.txt", "sub/c.txt", "starter", "b.txt"]
        assert contents(corpus)[0] == ("sub/a.txt/a.txt:1", "text of sub/a.txt")
        assert corpus.members["starter"].digest() == open_corpus(STARTER, TEXT).digest()

    def test_corpora_go_with_files(self) -> None:
        corpus = only(as_corpora([texts(["One."]), "a.txt"], TEXT))
        assert contents(corpus)[0] == ("memory/memory:1", "One.")
        assert only(as_corpora([corpus], TEXT)) is corpus
        assert only(as_corpora(corpus, TEXT)) is corpus

    @pytest.mark.parametrize(
        "items",
        [["a.txt", "a.txt"], ["a.txt", "./a.txt"], ["sub", "sub/a.txt"], [texts("x"), texts("y")]],
    )
    def test_what_is_given_twice_is_refused(self, items: list[str]) -> None:
        with pytest.raises(InputError, match="Two items of the list are"):
            as_corpora(items, TEXT)

    def test_bad_files_of_a_list_are_named_or_left_out(self, folder: Path) -> None:
        (folder / "sub/c.txt").write_bytes(b"\xff")
        items = ["a.txt", "sub"]
        with pytest.raises(InputError, match=r"1 of the 3 files in a\.txt and 1 more"):
            list(only(as_corpora(items, TEXT)))
        kept = only(as_corpora(items, TEXT, skip_bad=True))
        assert [id for id, _ in contents(kept)] == ["a.txt/a.txt:1", "sub/a.txt/a.txt:1"]
        assert isinstance(kept, FilesCorpus)
        assert list(kept.skipped_files) == ["sub/c.txt"]

    def test_strings_that_name_no_file_are_texts(self) -> None:
        for items in (["One text.", "Another."], ["One", "and/or", ""], ["x" * 5000, "a\0b"]):
            corpus = only(as_corpora(items, TEXT))
            assert contents(corpus) == [(f"memory:{i}", t) for i, t in enumerate(items, start=1)]

    def test_examples_are_one_corpus_with_or_without_texts(self) -> None:
        assert list(only(as_corpora(EXAMPLES, TEXT))) == EXAMPLES
        assert [e.id for e in only(as_corpora([*EXAMPLES, "A text."], TEXT))] == [
            *("x", "y", "memory:3")
        ]
        assert list(only(as_corpora([], TEXT))) == []

    @pytest.mark.parametrize(
        ("items", "first", "second"),
        [
            (["A text.", "a.txt"], 2, 1),
            (["a.txt", "b.txt", "A text."], 1, 3),
            (["starter", "A text."], 1, 2),
            ([Path("a.txt"), "A text."], 1, 2),
            ([EXAMPLES[0], "a.txt"], 2, 1),
            (["A text.", "misspelt.txt"], 2, 1),
        ],
    )
    def test_files_among_texts_are_refused(
        self, items: list[str | Path], first: int, second: int
    ) -> None:
        with pytest.raises(InputError, match=f"Item {first} of .* but item {second} ") as raised:
            as_corpora(items, TEXT)
        assert "names a file or corpus" in str(raised.value)
        assert "hs.texts([...]) for texts" in str(raised.value)

    def test_texts_are_always_texts(self) -> None:
        corpus = texts(["a.txt", "starter"])
        assert contents(corpus) == [("memory:1", "a.txt"), ("memory:2", "starter")]
        assert only(as_corpora(corpus, TEXT)) is corpus
        assert contents(texts("One.")) == [("memory:1", "One.")]

    def test_a_string_is_a_path_or_a_name_and_else_a_text(self) -> None:
        assert only(as_corpora("a.txt", TEXT)) == TextCorpus(Path("a.txt"))
        assert only(as_corpora("sub", TEXT)) == open_corpus("sub", TEXT)
        assert only(as_corpora("starter", TEXT)) == open_corpus("starter", TEXT)
        for text in ("A small text.", "Two\nlines", "word " * 2000):
            assert contents(only(as_corpora(text, TEXT))) == [("memory:1", text)]

    @pytest.mark.parametrize(
        "items",
        [
            *("aa.txt", "misspelt", "", "my folder/wiki", "my notes.txt", Path("two words")),
            *(["aa.txt"], ["aa.txt.gz", "bb.jsonl"], [Path("two words")]),
        ],
    )
    def test_what_looks_like_a_path_must_exist(self, items: str | Path | list[str | Path]) -> None:
        with pytest.raises(InputError, match="there is no such file or folder") as raised:
            as_corpora(items, TEXT)
        assert "hs.texts([...])" in str(raised.value)

    def test_a_missing_file_of_a_list_is_named(self) -> None:
        with pytest.raises(InputError, match=r"No corpus 'aa\.txt'.* Did you mean 'a\.txt'"):
            as_corpora(["b.txt", "aa.txt"], TEXT)


@pytest.mark.parametrize("role", [TREEBANK, COREF])
def test_a_list_for_other_roles_is_so_many_corpora(role: CorpusRole) -> None:
    memory = MemoryCorpus(EXAMPLES)
    named, path, given, inner = as_corpora(["starter", STARTER, memory, EXAMPLES], role)  # type: ignore[list-item]
    assert named == path == open_corpus(STARTER, role)
    assert given is memory
    assert inner == MemoryCorpus(EXAMPLES, role=role)
    assert only(as_corpora("starter", role)) == named


def test_examples_for_other_roles_are_one_corpus() -> None:
    (example, *_) = open_corpus("starter", COREF)
    corpus = only(as_corpora([example], COREF))
    assert corpus.provides == {Annotation.TEXT, Annotation.WORDS, Annotation.COREFERENCE}
    assert only(as_corpora([example], TREEBANK)).provides == {Annotation.TEXT, Annotation.WORDS}


def test_a_string_for_other_roles_is_never_a_text() -> None:
    for items in ("A small text.", ["A small text."]):
        with pytest.raises(InputError, match="there is no such file or folder") as raised:
            as_corpora(items, TREEBANK)
        assert "hs.texts" not in str(raised.value)


@pytest.mark.parametrize(("items", "shown"), [(3, "3"), (["starter", EXAMPLES[0]], "Example")])
def test_what_is_no_corpus_is_refused(items: object, shown: str) -> None:
    with pytest.raises(InputError, match=f"This is not a corpus: {shown}.*Expected a path"):
        as_corpora(items, TREEBANK)  # type: ignore[arg-type]


def test_an_unknown_role_is_answered_with_the_nearest(folder: Path) -> None:
    with pytest.raises(StudyError, match=r"No corpus role 'trebank'\. Did you mean 'treebank'"):
        open_corpus("a.txt", "trebank")
    assert open_corpus("a.txt", "text") == TextCorpus(Path("a.txt"))


@dataclass(frozen=True)
class WordList(FileCorpus):
    """A format of another package: a word a line."""

    roles: ClassVar[frozenset[CorpusRole]] = frozenset({CorpusRole.TREEBANK})
    suffixes: ClassVar[tuple[str, ...]] = (".words",)
    provides: ClassVar[frozenset[str]] = frozenset({Annotation.TEXT, Annotation.WORDS})

    def __iter__(self) -> Iterator[Example]:
        yield Example(self.name, words=tuple(self.path.read_text().split()))


class WithoutRoles(WordList):
    roles: ClassVar[frozenset[CorpusRole]] = frozenset()


class OneSuffix(WordList):
    suffixes = ".words"  # type: ignore[assignment]


class FakePoint:
    """An entry point of an installed package."""

    dist = None

    def __init__(self, name: str, value: str) -> None:
        self.name, self.value = name, value


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[FakePoint]]:
    """Plug-ins to be found; each look-up of them is counted by `install.calls`."""

    class Points(list[FakePoint]):
        calls = 0

    points = Points()

    def entry_points(group: str) -> list[FakePoint]:
        points.calls += group == "headscope.corpora"
        return points if group == "headscope.corpora" else []

    monkeypatch.setattr("importlib.metadata.entry_points", entry_points)
    registry._plug_ins.cache_clear()
    registry.warn_once.cache_clear()
    yield points
    registry._plug_ins.cache_clear()


def test_plug_ins_are_looked_up_once_and_a_broken_one_is_told_once(
    install: list[FakePoint], folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    install += [FakePoint("words", f"{__name__}:WordList"), FakePoint("broken", "not_there:Corpus")]
    for i in range(3):
        (folder / f"{i}.words").write_text("one two")
    with caplog.at_level(logging.WARNING, "headscope"):
        corpora = [open_corpus(folder, TREEBANK), open_corpus("0.words", TREEBANK)]
        assert contents(open_corpus("a.txt", TEXT)) == [("a.txt:1", "text of a.txt")]
    assert [len(list(corpus)) for corpus in corpora] == [3, 1]
    assert getattr(install, "calls") == 1  # noqa: B009
    (message,) = [record.getMessage() for record in caplog.records]
    assert "not_there:Corpus fails to load" in message


def test_formats_are_looked_up_once_for_a_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    load = opening._load_formats
    monkeypatch.setattr(opening, "_load_formats", lambda role: calls.append(role) or load(role))
    assert len(list(open_corpus(folder, TEXT))) == 4
    assert calls == [TEXT]


@pytest.mark.parametrize("name", ["WithoutRoles", "OneSuffix"])
def test_a_format_that_does_not_say_what_it_reads_is_told_and_left_out(
    name: str, install: list[FakePoint], folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    install.append(FakePoint("vague", f"{__name__}:{name}"))
    (folder / "a.words").write_text("one two")
    with caplog.at_level(logging.WARNING, "headscope"):
        for _ in range(2):
            with pytest.raises(InputError, match=r"its ending is '\.words'"):
                open_corpus("a.words", TREEBANK)
    (message,) = [record.getMessage() for record in caplog.records]
    assert "The corpus format 'vague' is not used" in message
    assert contents(open_corpus("a.txt", TEXT)) == [("a.txt:1", "text of a.txt")]


class Foreign:
    """A corpus of a class of its own."""

    name, provides = "foreign", frozenset({Annotation.TEXT})

    def __iter__(self) -> Iterator[Example]:
        yield Example("a", text="A small text.")

    def digest(self) -> str:
        return "1"


def test_a_corpus_need_not_be_derived_from_ours(tmp_path: Path) -> None:
    (corpus,) = as_corpora(Foreign(), TEXT)
    assert (corpus.name, corpus.provides, corpus.digest()) == ("foreign", Foreign.provides, "1")
    assert [example.id for example in corpus] == ["a"]
    assert (corpus.location, corpus.documents, corpus.skipped_files) == ("", "", {})
    (tmp_path / "b.txt").write_text("Another one.\n")
    (both,) = as_corpora([tmp_path / "b.txt", Foreign()], TEXT)
    assert [example.id for example in both] == ["b.txt/b.txt:1", "foreign/a"]
