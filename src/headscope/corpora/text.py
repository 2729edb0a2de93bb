"""Plain text: a line is a paragraph, a blank line ends a document.

In a file without a blank line between paragraphs, documents are not known. The paper's segments
are two consecutive paragraphs of a document.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, groupby, islice
from typing import NamedTuple

from headscope.contracts import Annotation, CorpusRole
from headscope.corpora.lines import FileCorpus, Lines
from headscope.data.example import Example

__all__ = ["Paragraph", "TextCorpus", "pair_paragraphs"]

DOCUMENTS, MARKED, UNMARKED = "documents", "marked", "unmarked"  # a fact of a file


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
    opens_after = FileCorpus.BLANK
    opens_every = 64  # even: a segment is two lines
    provides = frozenset({Annotation.TEXT})

    def read(self, lines: Lines) -> Iterator[Example]:
        """In a reading that is followed, the first document has a name until it is the only one."""
        is_open = bool(self.opening.tell) and self.has_documents is None
        for n_before, paragraphs in enumerate(self._documents(lines)):
            if is_open and n_before == 1:
                self._known[DOCUMENTS] = MARKED
            first = next(paragraphs)
            is_named = is_open or self._marks_documents()
            name = first.id if is_named else None
            yield from pair_paragraphs(chain([first], paragraphs), name)
        if is_open:
            self._known.setdefault(DOCUMENTS, UNMARKED)

    @property
    def has_documents(self) -> bool | None:
        """Whether a blank line stands between two paragraphs, if that is known."""
        found = self._known.get(DOCUMENTS)
        return None if found is None else found == MARKED

    def _marks_documents(self) -> bool:
        """The same, if need be by reading on to a second document."""
        if self.has_documents is None:
            n_documents = sum(1 for _ in islice(self._documents(Lines(self.path)), 2))
            self._known[DOCUMENTS] = MARKED if n_documents == 2 else UNMARKED
        return bool(self.has_documents)

    def _documents(self, lines: Lines) -> Iterator[Iterator[Paragraph]]:
        stripped = ((number, line.strip()) for number, line in lines)
        for has_text, group in groupby(stripped, key=lambda line: bool(line[1])):
            if has_text:
                yield (Paragraph(f"{self.name}:{number}", text) for number, text in group)
