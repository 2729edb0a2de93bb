"""Which sentences of a treebank belong to one document.

`# newdoc` marks are facts. Without them sentence ids are used, but only where each clearly is a
document and a running number. Else documents are unknown, and blocks of neighbouring sentences
stand for them: neighbours are alike, so single sentences would make intervals too narrow.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["LEAST_DOCUMENTS", "NEWDOC", "Documents", "find_documents", "split_id"]

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


def find_documents(
    blocks: Iterable[tuple[int, Mapping[str, str]]], block_sentences: int
) -> Documents:
    """How the documents of a file are known, by the first line and the comments of each block."""
    lines: list[int] = []
    last: dict[str, SentenceId] = {}  # of each document
    sizes: Counter[str] = Counter()
    n_from_start, is_numbered = 0, True  # every id is a document and a number that rises in it
    for line, comments in blocks:
        if "newdoc" in comments:
            return Documents(NEWDOC)  # nothing else counts
        lines.append(line)
        parts = split_id(comments.get("sent_id", "")) if is_numbered else None
        before = last.get(parts.document) if parts else None
        is_numbered = parts is not None and (before is None or before < parts)
        if parts is not None and is_numbered:
            n_from_start += before is None and parts.number <= 1 and parts.paragraph <= 1
            last[parts.document] = parts
            sizes[parts.document] += 1
    is_document = (
        is_numbered
        and LEAST_DOCUMENTS <= len(sizes) < len(lines)
        and max(sizes.values()) <= LARGEST_SHARE * len(lines)
        and n_from_start >= FROM_START * len(sizes)
    )
    if is_document:
        return Documents(IDS)
    return Documents(BLOCKS.format(block_sentences), lines[::block_sentences])
