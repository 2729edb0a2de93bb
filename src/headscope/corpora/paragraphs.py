"""Documents of paragraphs as the paper's segments: two consecutive paragraphs make one."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from headscope.data.example import Example

__all__ = ["Paragraph", "pair_paragraphs"]


class Paragraph(NamedTuple):
    """A paragraph and the id of a segment that begins with it."""

    id: str
    text: str


def pair_paragraphs(document: Iterable[Paragraph]) -> Iterator[Example]:
    """Segments of a document; where the number of paragraphs is odd, the last stands alone.

    >>> [e.text_pair for e in pair_paragraphs([Paragraph("1", "a"), Paragraph("2", "b")])]
    ['b']
    """
    paragraphs = iter(document)
    for first in paragraphs:
        second = next(paragraphs, None)
        yield Example(first.id, text=first.text, text_pair=second.text if second else None)
