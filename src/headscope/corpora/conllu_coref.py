"""Coreference in CoNLL-U: `Entity=` brackets in MISC, as CorefUD, GUM and OntoGUM write them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from headscope.corpora.brackets import Brackets
from headscope.corpora.conllu import Sentence, read_sentences, read_tree
from headscope.corpora.documents import DocumentSentence, build_document
from headscope.corpora.lines import file_digest
from headscope.corpora.mentions import Word
from headscope.data.example import Example
from headscope.errors import InputError

__all__ = ["ConlluCoreference"]

FORM, UPOS, XPOS, FEATURES, MISC = 1, 3, 4, 5, 9
ID_NAMES = ("eid", "GRP")  # what the header calls the field that names the cluster


@dataclass(frozen=True)
class ConlluCoreference:
    """A file of documents: each is an example with its mentions. `# newdoc` begins a document."""

    path: Path

    roles: ClassVar[frozenset[str]] = frozenset({"coref"})
    suffixes: ClassVar[tuple[str, ...]] = (".conllu",)
    provides: ClassVar[frozenset[str]] = frozenset({"text", "words", "coreference"})

    @property
    def name(self) -> str:
        return self.path.name

    def __iter__(self) -> Iterator[Example]:
        has_mentions, id_field = False, 0
        for number, sentences in enumerate(_split_documents(read_sentences(self.path)), start=1):
            id_field = _find_id_field(sentences[0], id_field)
            document = self._read(sentences, f"{self.path.name}:{number}", id_field)
            has_mentions = has_mentions or bool(document.mentions)
            yield document
        if not has_mentions:
            raise InputError(
                f"{self.path}: no mention in the whole file. Expected Entity= brackets in the last "
                "column (CorefUD, GUM, OntoGUM); pass a file with coreference."
            )

    def digest(self) -> str:
        return file_digest(self.path)

    def _read(self, sentences: Sequence[Sentence], place: str, id_field: int) -> Example:
        brackets = Brackets(self.path, id_field)
        word = 0
        for sentence in sentences:
            for line, row in zip(sentence.lines, sentence.rows, strict=True):
                if text := _find_entity(row[MISC]):
                    brackets.read(word, line, text)
                word += 1
        name = sentences[0].comments.get("newdoc") or place
        return build_document(name, [self._annotate(s) for s in sentences], brackets.finish())

    def _annotate(self, sentence: Sentence) -> DocumentSentence:
        words = [_read_word(row) for row in sentence.rows]
        heads = None if sentence.has_no_heads else read_tree(self.path, sentence).heads
        return DocumentSentence(words, sentence.spaces, heads)


def _split_documents(sentences: Iterator[Sentence]) -> Iterator[list[Sentence]]:
    document: list[Sentence] = []
    for sentence in sentences:
        if document and "newdoc" in sentence.comments:
            yield document
            document = []
        document.append(sentence)
    if document:
        yield document


def _find_id_field(first: Sentence, before: int) -> int:
    """Which field names the cluster, by the header `# global.Entity = eid-etype-...`."""
    if "global.Entity" not in first.comments:
        return before
    names = first.comments["global.Entity"].split("-")
    return next((names.index(name) for name in ID_NAMES if name in names), 0)


def _find_entity(misc: str) -> str | None:
    fields = [item for item in misc.split("|") if item.startswith("Entity=")]
    return fields[0].removeprefix("Entity=") if fields else None


def _read_word(row: Sequence[str]) -> Word:
    """The word with its tags and features, where the columns are filled."""
    tag, fine = (None if row[column] == "_" else row[column] for column in (UPOS, XPOS))
    pairs = (item.partition("=") for item in row[FEATURES].split("|") if "=" in item)
    return Word(row[FORM], tag or fine, fine, {name: value for name, _, value in pairs})
