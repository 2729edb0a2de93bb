"""Which sentences of a treebank belong to one document.

`# newdoc` marks are facts. Without them sentence ids are used, but only where each clearly is a
document and a running number. Else documents are unknown, and blocks of neighbouring sentences
stand for them: neighbours are alike, so single sentences would make intervals too narrow.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = ["LEAST_DOCUMENTS", "NEWDOC", "DocumentScan", "Documents", "SentenceId", "split_id"]

NEWDOC, IDS = "from newdoc", "from sentence ids (guessed)"
BLOCKS = "blocks of {} sentences (unknown)"
LEAST_DOCUMENTS = 10  # fewer prefixes are parts of a treebank rather than documents
LARGEST_SHARE = 0.5  # of all sentences, in one document
FROM_START = 0.9  # of the documents whose sentences are counted from 0 or 1
NUMBER = re.compile(r"(?:[-_.:/@ ]?(?:s|u|sent)[-_.:/]?|[-_.:/@ ])?([0-9]{1,18})\Z")
PARAGRAPH = re.compile(r"(?:[-_.:/](?:p|par)[-_.:/]?|\.)([0-9]{1,18})\Z")
LONGEST_END = 60  # characters of an id in which its number is looked for


class SentenceId(NamedTuple):
    """A sentence id as the name of a document, and the numbers within it."""

    document: str
    paragraph: int
    number: int


def split_id(sentence_id: str) -> SentenceId | None:
    """The document and the numbers that an id ends in, if there is a name before them.

    >>> split_id("weblog-blogspot-0003"), split_id("wiki-5318.p.21.s.3").document
    (SentenceId(document='weblog-blogspot', paragraph=0, number=3), 'wiki-5318')
    """
    first = max(0, len(sentence_id) - LONGEST_END)
    number = NUMBER.search(sentence_id, first)
    if number is None:
        return None
    name = sentence_id[: number.start()]
    paragraph = PARAGRAPH.search(name, max(0, len(name) - LONGEST_END))
    name = name[: paragraph.start()] if paragraph else name
    if not re.search(r"[^\W_]", name):
        return None
    return SentenceId(name, int(paragraph[1]) if paragraph else 0, int(number[1]))


@dataclass(frozen=True)
class Documents:
    """How the documents of a file are known, and which one a sentence is in."""

    known_by: str  # as users are told
    block_lines: Sequence[int] = ()  # the first line of each block, where there are blocks

    def name(self, line: int, sentence_id: str) -> str:
        """The name of the document of a sentence without `# newdoc`, by its line and its id."""
        if self.known_by == IDS:
            parts = split_id(sentence_id)
            assert parts is not None  # else ids were not used
            return parts.document
        return f"block {bisect_right(self.block_lines, line)}"


@dataclass
class DocumentScan:
    """Finds out how the documents of a file are known, sentence after sentence."""

    block_sentences: int
    has_newdoc: bool = False
    n_sentences: int = 0
    _block_lines: list[int] = field(default_factory=list)
    _last: dict[str, SentenceId] = field(default_factory=dict)  # of each document
    _sizes: dict[str, int] = field(default_factory=dict)
    _n_from_start: int = 0
    _is_numbered: bool = True  # every id is a document and a number that rises in it

    def add(self, line: int, sentence_id: str) -> None:
        """Take in the first line of a sentence and its id."""
        if self.n_sentences % self.block_sentences == 0:
            self._block_lines.append(line)
        self.n_sentences += 1
        parts = split_id(sentence_id) if self._is_numbered else None
        last = self._last.get(parts.document) if parts else None
        self._is_numbered = parts is not None and (last is None or last < parts)
        if parts is not None and self._is_numbered:
            self._n_from_start += last is None and parts.number <= 1 and parts.paragraph <= 1
            self._last[parts.document] = parts
            self._sizes[parts.document] = self._sizes.get(parts.document, 0) + 1

    def finish(self) -> Documents:
        """The answer after the last sentence."""
        if self.has_newdoc:
            return Documents(NEWDOC)
        n_documents = len(self._sizes)
        is_document = (
            self._is_numbered
            and LEAST_DOCUMENTS <= n_documents < self.n_sentences
            and max(self._sizes.values()) <= LARGEST_SHARE * self.n_sentences
            and self._n_from_start >= FROM_START * n_documents
        )
        if is_document:
            return Documents(IDS)
        return Documents(BLOCKS.format(self.block_sentences), self._block_lines)
