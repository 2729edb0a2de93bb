"""Coreference in CoNLL-U: `Entity=` brackets in MISC, as CorefUD, GUM and OntoGUM write them."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from headscope.contracts import Annotation, CorpusRole
from headscope.corpora.conllu import ConlluSentence, read_sentences, read_tree
from headscope.corpora.lines import FileCorpus, Lines
from headscope.corpora.mentions import (
    Brackets,
    DocumentSentence,
    Word,
    build_document,
    require_mentions,
)
from headscope.data.example import Example
from headscope.errors import InputError, shorten

__all__ = ["ConlluCoreference"]

FORM, UPOS, XPOS, FEATURES, MISC = 1, 3, 4, 5, 9
ENTITY = "Entity="
ID_NAMES = ("eid", "GRP")  # what the header calls the field that names the cluster


@dataclass(frozen=True)
class ConlluCoreference(FileCorpus):
    """A file of documents: each is an example with its mentions. `# newdoc` begins a document."""

    roles = frozenset({CorpusRole.COREF})
    suffixes = (".conllu",)
    provides = frozenset({Annotation.TEXT, Annotation.WORDS, Annotation.COREFERENCE})

    def read(self, lines: Lines) -> Iterator[Example]:
        expected = "Entity= brackets in the last column (CorefUD, GUM, OntoGUM)"
        return require_mentions(self._read_documents(lines), self.path, expected)

    def _read_documents(self, lines: Lines) -> Iterator[Example]:
        id_field = 0
        documents = groupby(read_sentences(lines), key=attrgetter("document"))
        for number, (_, document) in enumerate(documents, start=1):
            sentences = list(document)
            id_field = _find_id_field(sentences[0], id_field)
            for sentence in sentences:
                _tell_zeros(lines, sentence)
            yield self._read(sentences, f"{self.name}:{number}", id_field)

    def _read(self, sentences: Sequence[ConlluSentence], default: str, id_field: int) -> Example:
        brackets = Brackets(self.path, id_field)
        word = 0
        for sentence in sentences:
            for line, row in zip(sentence.lines, sentence.rows, strict=True):
                if text := _find_entity(self.path, line, row):
                    brackets.read(word, line, text)
                word += 1
        name = sentences[0].comments.get("newdoc") or default
        return build_document(name, [self._annotate(s) for s in sentences], brackets.finish())

    def _annotate(self, sentence: ConlluSentence) -> DocumentSentence:
        words = [_read_word(row) for row in sentence.rows]
        heads = None if sentence.has_no_heads else read_tree(self.path, sentence).heads
        return DocumentSentence(words, sentence.spaces, heads, sentence.surfaces)


def _find_entity(path: Path, line: int, row: Sequence[str]) -> str:
    """The brackets that a row has; "" for none."""
    marks = [item for item in row[MISC].split("|") if item.startswith(ENTITY)]
    if len(marks) > 1:
        raise InputError(
            f"{path}:{line}: {ENTITY} occurs {len(marks)} times. Expected all brackets of a word "
            "in one, such as Entity=(e1)(e2; join them."
        )
    return marks[0].removeprefix(ENTITY) if marks else ""


def _tell_zeros(lines: Lines, sentence: ConlluSentence) -> None:
    """Count the mentions that are no words of the text, and refuse brackets where none may be."""
    for number, row in sentence.others:
        text = _find_entity(lines.path, number, row)
        if text and ("-" in row[0] or not re.fullmatch(r"(\([^()]+\))+", text)):
            raise lines.error(
                f"{ENTITY}{shorten(text)} is at {row[0]}, a range or an empty node, where it "
                f"cannot be read. Expected brackets at words, or whole mentions such as (e1) at "
                "empty nodes; move it to a word.",
                number,
            )
        if text:
            left_out = "mentions at empty nodes, which are not in the text, are left out."
            lines.notes[left_out] += text.count("(")


def _find_id_field(first: ConlluSentence, before: int) -> int:
    """Which field names the cluster, by the header `# global.Entity = eid-etype-...`."""
    if "global.Entity" not in first.comments:
        return before
    names = first.comments["global.Entity"].split("-")
    return next((names.index(name) for name in ID_NAMES if name in names), 0)


def _read_word(row: Sequence[str]) -> Word:
    """The word with its tags and features, where the columns are filled."""
    tag, fine = (None if row[column] == "_" else row[column] for column in (UPOS, XPOS))
    pairs = (item.partition("=") for item in row[FEATURES].split("|") if "=" in item)
    return Word(row[FORM], tag or fine, fine, {name: value for name, _, value in pairs})
