"""Plain text and JSON lines.

In plain text a line is a paragraph, and a blank line ends a document. In a file without a blank
line between paragraphs, documents are not known. The paper's segments are two consecutive
paragraphs of a document. In JSON lines every line is one example, encoded just as it is given.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, groupby, islice
from typing import Any, NamedTuple

from headscope.contracts import Annotation, CorpusRole
from headscope.corpora.lines import FileCorpus, Lines
from headscope.data.example import Example, parse_links
from headscope.errors import InputError, shorten

__all__ = ["JsonlCorpus", "Paragraph", "TextCorpus", "pair_paragraphs"]

EXPECTED = (
    'Expected {"id": ..., "text": ..., "text_pair"?: ..., "alignment"?: "0-0 1-2"} or '
    '{"id": ..., "words": [...]}, each with or without a "document"'
)

ESCAPE = "\\u00"  # how a key may spell its letters
KEYS = frozenset({"id", "text", "text_pair", "words", "alignment", "document"})


class Paragraph(NamedTuple):
    """A paragraph and the id of a segment that begins with it."""

    id: str
    text: str


def pair_paragraphs(document: Iterable[Paragraph], name: str | None = None) -> Iterator[Example]:
    """Segments of a document; where the number of paragraphs is odd, the last stands alone.

    >>> [e.text_pair for e in pair_paragraphs([Paragraph("1", "a"), Paragraph("2", "b")])]
    ['b']
    """
    paragraphs = iter(document)
    for first in paragraphs:
        second = next(paragraphs, None)
        pair = second.text if second else None
        yield Example(first.id, text=first.text, text_pair=pair, document=name)


@dataclass(frozen=True)
class TextCorpus(FileCorpus):
    """A text file as segments of two consecutive paragraphs of one document."""

    roles = frozenset({CorpusRole.TEXT})
    suffixes = (".txt",)
    provides = frozenset({Annotation.TEXT})

    def read(self, lines: Lines) -> Iterator[Example]:
        for paragraphs in self._documents(lines):
            first = next(paragraphs)
            name = first.id if self._marks_documents else None
            yield from pair_paragraphs(chain([first], paragraphs), name)

    @cached_property
    def _marks_documents(self) -> bool:
        """Whether a blank line stands between two paragraphs: read up to a second document."""
        return sum(1 for _ in islice(self._documents(Lines(self.path)), 2)) == 2

    def _documents(self, lines: Lines) -> Iterator[Iterator[Paragraph]]:
        stripped = ((number, line.strip()) for number, line in lines)
        for has_text, group in groupby(stripped, key=lambda line: bool(line[1])):
            if has_text:
                yield (Paragraph(f"{self.name}:{number}", text) for number, text in group)


@dataclass(frozen=True)
class JsonlCorpus(FileCorpus):
    """A `.jsonl` file of texts, pairs of texts, or words. Without an id, the line number is it.

    If any line has a target (`text_pair`) or a gold alignment, so has the corpus.
    """

    roles = frozenset({CorpusRole.TEXT})
    suffixes = (".jsonl",)

    @cached_property
    def provides(self) -> frozenset[str]:
        provided = {Annotation.TEXT}
        lines, key, is_empty = Lines(self.path), "text_pair", True
        try:
            for _, line in lines:
                is_empty = is_empty and not line.strip()
                if key not in line and ESCAPE not in line:
                    continue  # lines that cannot have it are not parsed
                example = _read_example(line, lines, "")
                if example.text_pair is not None:
                    provided.add(Annotation.TARGETS)
                    key = "alignment"
                if example.links is not None:
                    provided.add(Annotation.ALIGNMENTS)
                    break
        except InputError:  # told when the file is read
            is_empty = False
        if is_empty:
            raise self.empty()
        return frozenset(provided)

    def read(self, lines: Lines) -> Iterator[Example]:
        for number, line in lines:
            if line.strip():
                yield _read_example(line, lines, f"{self.name}:{number}")


def _read_example(line: str, lines: Lines, default_id: str) -> Example:
    record = _parse(line, lines)
    for key in sorted(record.keys() - KEYS):
        lines.note(f"lines have a key {shorten(key)!r}, which is not read.")
    example_id = _read_name(record, "id", lines) or default_id
    document = _read_name(record, "document", lines)
    text, words, pair = (record.get(key) for key in ("text", "words", "text_pair"))
    if (text is None) == (words is None):
        raise _error(lines, "there must be either text or words")
    if words is not None:
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise _error(lines, "words must be a list of strings")
        if pair is not None or record.get("alignment") is not None:
            raise _error(lines, "text_pair and alignment go with text, not with words")
        return Example(example_id, words=tuple(words), document=document)
    if not isinstance(text, str) or not isinstance(pair, (str, type(None))):
        raise _error(lines, "text and text_pair must be strings")
    links, alignment = None, record.get("alignment")
    try:
        links = None if alignment is None else parse_links(str(alignment))
    except ValueError as error:
        raise _error(lines, shorten(str(error))) from error
    if links is not None and pair is None:
        raise _error(lines, "an alignment needs a text_pair")
    try:
        return Example(example_id, text, pair, links=links, document=document)
    except ValueError as error:
        raise _error(lines, "the alignment links a word that is not there") from error


def _parse(line: str, lines: Lines) -> dict[str, Any]:
    """The object of a line, with each key once and whole characters."""

    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        record = dict(pairs)
        if len(record) < len(pairs):
            raise ValueError("it has a key twice")
        return record

    try:
        record = json.loads(line, object_pairs_hook=build)
    except RecursionError as error:
        raise _error(lines, "this JSON object is nested too deeply") from error
    except ValueError as error:
        raise _error(lines, f"this is not a JSON object ({shorten(str(error))})") from error
    if not isinstance(record, dict):
        raise _error(lines, "this is not a JSON object")
    if re.search("[\ud800-\udfff]", json.dumps(record, ensure_ascii=False)):
        raise _error(lines, "an escape stands for half a character (a lone surrogate)")
    return record


def _read_name(record: dict[str, Any], key: str, lines: Lines) -> str | None:
    """A string or number of the record as a string; None where it has none."""
    value = record.get(key)
    if not isinstance(value, (str, int, type(None))) or isinstance(value, bool):
        raise _error(lines, f"the {key} {shorten(value)} is not a string or number")
    return None if value is None else str(value)


def _error(lines: Lines, problem: str) -> InputError:
    return lines.error(f"{problem}. {EXPECTED}; fix or remove the line.")
