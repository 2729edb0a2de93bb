"""Plain text: a line is a paragraph, a blank line ends a document.

In a file without a blank line between paragraphs, documents are not known. The paper's segments
are two consecutive paragraphs of a document.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, groupby, islice
from typing import NamedTuple

from headscope.contracts import Annotation, CorpusRole
from headscope.corpora.lines import FileCorpus, Lines
from headscope.data.example import Example

__all__ = ["Paragraph", "TextCorpus", "pair_paragraphs"]


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
