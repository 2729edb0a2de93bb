"""Coreference in the columns of CoNLL-2012 (OntoNotes), and LitBank's form of them.

A document stands between `#begin document (name); part 000` and `#end document`. Of a row the third
column numbers the word, then follow the word, its tag, and its bit of the parse; the last column
has the brackets of mentions. LitBank leaves the tag and the parse out, and ends rows with a tab.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from headscope.corpora.brackets import Brackets
from headscope.corpora.constituents import Phrase, find_phrase_head, read_parse
from headscope.corpora.documents import DocumentSentence, build_document
from headscope.corpora.lines import file_digest, read_lines
from headscope.corpora.mentions import HeadFinder, Word
from headscope.data.example import Example
from headscope.errors import InputError

__all__ = ["Conll2012"]

FORM, TAG, PARSE, N_LEAST = 3, 4, 5, 6
EMPTY = ("-", "_", "")
BEGIN = re.compile(r"#begin document \(?(?P<name>.*?)\)?;?(?: part (?P<part>\d+))?\s*$")
NO_SPACE_BEFORE = frozenset([".", ",", ";", ":", "?", "!", "'s", "’s", "n't", "'", "''", ")", "%"])


@dataclass
class Rows:
    """The rows of a document in sentences, as they are read."""

    name: str
    line: int
    sentences: list[list[tuple[int, list[str]]]] = field(default_factory=lambda: [[]])


@dataclass(frozen=True)
class Conll2012:
    """A file of documents: each is an example with its mentions."""

    path: Path

    roles: ClassVar[frozenset[str]] = frozenset({"coref"})
    suffixes: ClassVar[tuple[str, ...]] = (".conll", "_conll")
    provides: ClassVar[frozenset[str]] = frozenset({"text", "words", "coreference"})

    @property
    def name(self) -> str:
        return self.path.name

    def __iter__(self) -> Iterator[Example]:
        has_mentions = False
        for rows in _split_documents(self.path):
            document = self._read(rows)
            has_mentions = has_mentions or bool(document.mentions)
            yield document
        if not has_mentions:
            raise InputError(
                f"{self.path}: no mention in the whole file. Expected documents between '#begin "
                "document' and '#end document' with brackets in the last column; pass a file with "
                "coreference."
            )

    def digest(self) -> str:
        return file_digest(self.path)

    def _read(self, rows: Rows) -> Example:
        brackets = Brackets(self.path)
        sentences = [sentence for sentence in rows.sentences if sentence]
        flat = [row for sentence in sentences for row in sentence]
        for word, (line, row) in enumerate(flat):
            for text in row[-1].split("|"):
                if text not in EMPTY:
                    brackets.read(word, line, text)
        annotated = [_annotate([row for _, row in sentence]) for sentence in sentences]
        find_head = self._find_by_parse(sentences)
        return build_document(rows.name, annotated, brackets.finish(), find_head)

    def _find_by_parse(
        self, sentences: Sequence[Sequence[tuple[int, list[str]]]]
    ) -> HeadFinder | None:
        """Heads by the parse column; None where a sentence has none."""
        phrases: list[Phrase] = []
        tags: list[str] = []
        for sentence in sentences:
            bits = [row[PARSE] for _, row in sentence]
            if all(bit in EMPTY for bit in bits):
                return None
            phrases.append(read_parse(self.path, bits, [line for line, _ in sentence], len(tags)))
            tags += [row[TAG] for _, row in sentence]
        document = Phrase("", 0, len(tags), phrases)
        return lambda start, end: find_phrase_head(document, tags, start, end)


def _split_documents(path: Path) -> Iterator[Rows]:
    rows: Rows | None = None
    for number, line in read_lines(path):
        if line.startswith("#begin document"):
            rows = Rows(_read_name(line), number)
        elif line.startswith("#end document"):
            if rows and any(rows.sentences):
                yield rows
            rows = None
        elif rows is None:
            if line.strip() and not line.startswith("#"):
                raise InputError(
                    f"{path}:{number}: this row stands outside a document. Expected '#begin "
                    "document (name); part 000' before it; check that the file is CoNLL-2012."
                )
        elif not line.strip():
            rows.sentences.append([])
        else:
            rows.sentences[-1].append((number, _read_row(path, number, line)))
    if rows:
        raise InputError(
            f"{path}:{rows.line}: the document {rows.name!r} that begins here never ends. Expected "
            "'#end document' after its last row; the file may be cut off."
        )


def _read_name(line: str) -> str:
    match = BEGIN.match(line)
    name, part = (match["name"], match["part"]) if match else (line, None)
    return f"{name}.{int(part)}" if part else name


def _read_row(path: Path, number: int, line: str) -> list[str]:
    row = line.rstrip().split("\t") if "\t" in line else line.split()
    if len(row) < N_LEAST:
        raise InputError(
            f"{path}:{number}: {len(row)} columns. Expected at least {N_LEAST}: document, part, "
            "number, word, tag, ..., mentions; check that the file is CoNLL-2012."
        )
    return row


def _annotate(rows: Sequence[Sequence[str]]) -> DocumentSentence:
    words = [Word(row[FORM], None if row[TAG] in EMPTY else row[TAG]) for row in rows]
    spaces = [place > 0 and row[FORM] not in NO_SPACE_BEFORE for place, row in enumerate(rows)]
    return DocumentSentence(words, spaces)
