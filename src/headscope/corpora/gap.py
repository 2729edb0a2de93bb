"""GAP: a paragraph, a pronoun in it, and two names of which at most one is its antecedent."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from headscope.contracts import Annotation, CorpusRole
from headscope.corpora.documents import DocumentSentence, build_document
from headscope.corpora.lines import FileCorpus, read_lines
from headscope.corpora.mentions import Span, Word
from headscope.data.example import Example
from headscope.errors import InputError

__all__ = ["GapCorpus"]

COLUMNS = (
    *("ID", "Text", "Pronoun", "Pronoun-offset"),
    *("A", "A-offset", "A-coref", "B", "B-offset", "B-coref"),
)
KINDS_IN_ORDER = ("pronoun", "proper", "proper")
ANSWERS = {"TRUE": True, "FALSE": False}
WORD = re.compile(r"\w+(?:[-.’']\w+)*|[^\w\s]")


@dataclass(frozen=True)
class GapCorpus(FileCorpus):
    """A `.tsv` file: every row is an example with a pronoun and two names as its mentions."""

    roles = frozenset({CorpusRole.COREF})
    suffixes = (".tsv",)
    provides = frozenset({Annotation.TEXT, Annotation.WORDS, Annotation.PRONOUN_CHOICES})

    def __iter__(self) -> Iterator[Example]:
        header: list[str] | None = None
        for number, line in read_lines(self.path):
            cells = line.split("\t")
            if header is None:
                header = cells
                if missing := [name for name in COLUMNS if name not in header]:
                    raise InputError(
                        f"{self.path}:1: no column {', '.join(missing)}. Expected the header of "
                        f"GAP: {', '.join(COLUMNS)}; check that the file is GAP's .tsv."
                    )
            elif line.strip():
                yield self._read(number, header, cells)

    def _read(self, number: int, header: list[str], cells: list[str]) -> Example:
        if len(cells) != len(header):
            raise InputError(
                f"{self.path}:{number}: {len(cells)} columns. Expected {len(header)}, as in the "
                "header; check that the row's tabs are kept."
            )
        row = dict(zip(header, cells, strict=True))
        text = row["Text"]
        offsets = {name: self._find(number, row, name) for name in ("Pronoun", "A", "B")}
        same = {name: self._read_answer(number, row, f"{name}-coref") for name in ("A", "B")}
        edges = {edge for start_and_end in offsets.values() for edge in start_and_end}
        words = _split_words(text, edges)
        first = {start: i for i, (start, _) in enumerate(words)}
        last = {end: i + 1 for i, (_, end) in enumerate(words)}
        spans = [
            Span(first[start], last[end], "Pronoun" if same.get(name, True) else name)
            for name, (start, end) in offsets.items()
        ]
        sentence = DocumentSentence(
            [Word(text[start:end]) for start, end in words],
            [start > 0 and text[start - 1].isspace() for start, _ in words],
        )
        example = build_document(row["ID"], [sentence], spans)
        # only these three are marked: the other name may well be mentioned again
        mentions = [
            replace(mention, kind=kind, is_singleton=False)
            for mention, kind in zip(example.mentions or (), KINDS_IN_ORDER, strict=True)
        ]
        return replace(example, mentions=tuple(mentions), document=row.get("URL") or row["ID"])

    def _find(self, number: int, row: Mapping[str, str], name: str) -> tuple[int, int]:
        """Where the pronoun or name stands in the text, without spaces around it."""
        form, offset = row[name], row[f"{name}-offset"]
        start = int(offset) if offset.isdecimal() else -1
        in_text = row["Text"][start : start + len(form)] if start >= 0 else ""
        if not form.strip() or in_text != form:
            raise InputError(
                f"{self.path}:{number}: {name} is {form!r}, but at offset {offset} the text has "
                f"{in_text!r}. Expected offsets in characters from 0; mend the row, or check that "
                "the text was not altered."
            )
        start += len(form) - len(form.lstrip())
        return start, start + len(form.strip())

    def _read_answer(self, number: int, row: Mapping[str, str], name: str) -> bool:
        if row[name].upper() not in ANSWERS:
            raise InputError(
                f"{self.path}:{number}: {name} is {row[name]!r}. Expected TRUE or FALSE; mend it."
            )
        return ANSWERS[row[name].upper()]


def _split_words(text: str, edges: set[int]) -> list[tuple[int, int]]:
    """Where each word begins and ends; no word reaches across an edge of a mention."""
    words: list[tuple[int, int]] = []
    for match in WORD.finditer(text):
        inner = sorted(edge for edge in edges if match.start() < edge < match.end())
        words += pairwise([match.start(), *inner, match.end()])
    return words
