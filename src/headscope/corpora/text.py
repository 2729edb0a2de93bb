"""Plain text: a line is a paragraph, a blank line ends a document."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import ClassVar

from headscope.corpora.lines import file_digest, read_lines
from headscope.corpora.paragraphs import Paragraph, pair_paragraphs
from headscope.data.example import Example

__all__ = ["TextCorpus"]


@dataclass(frozen=True)
class TextCorpus:
    """A text file as segments of two consecutive paragraphs of one document."""

    path: Path

    roles: ClassVar[frozenset[str]] = frozenset({"text"})
    suffixes: ClassVar[tuple[str, ...]] = (".txt",)
    provides: ClassVar[frozenset[str]] = frozenset({"text"})

    @property
    def name(self) -> str:
        return self.path.name

    def __iter__(self) -> Iterator[Example]:
        lines = ((number, line.strip()) for number, line in read_lines(self.path))
        for has_text, group in groupby(lines, key=lambda line: bool(line[1])):
            if has_text:
                document = (Paragraph(f"{self.name}:{number}", text) for number, text in group)
                yield from pair_paragraphs(document)

    def digest(self) -> str:
        return file_digest(self.path)
