"""GAP: a paragraph, a pronoun in it, and two names of which at most one is its antecedent."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from headscope.contracts import Annotation, CorpusRole
from headscope.corpora.lines import FileCorpus, Lines
from headscope.corpora.mentions import DocumentSentence, Span, Word, build_document
from headscope.data.example import Example
from headscope.errors import shorten

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

    def read(self, lines: Lines) -> Iterator[Example]:
        header: list[str] | None = None
        for _, line in lines:
            cells = line.split("\t")
            if header is None:
                header = cells
                if wrong := [name for name in COLUMNS if header.count(name) != 1]:
                    problem = "repeated" if wrong[0] in header else "no"
                    raise lines.error(
                        f"{problem} column {', '.join(wrong)}. Expected the header of GAP: "
                        f"{', '.join(COLUMNS)}; check that the file is GAP's .tsv."
                    )
            elif line.strip():
                yield self._read(lines, header, cells)

    def _read(self, lines: Lines, header: list[str], cells: list[str]) -> Example:
        if len(cells) != len(header):
            raise lines.error(
                f"{len(cells)} columns. Expected {len(header)}, as in the header; check that the "
                "row's tabs are kept."
            )
        row = dict(zip(header, cells, strict=True))
        text = row["Text"]
        offsets = {name: _find(lines, row, name) for name in ("Pronoun", "A", "B")}
        same: dict[str, bool] = {}
        for name in ("A", "B"):
            answer = row[f"{name}-coref"]
            if answer.upper() not in ANSWERS:
                raise lines.error(
                    f"{name}-coref is {shorten(answer)!r}. Expected TRUE or FALSE; fix it."
                )
            same[name] = ANSWERS[answer.upper()]
        _refuse_contradictions(lines, offsets, same)
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


def _find(lines: Lines, row: Mapping[str, str], name: str) -> tuple[int, int]:
    """Where the pronoun or name stands in the text, without spaces around it."""
    form, offset = row[name], row[f"{name}-offset"]
    start = int(offset) if re.fullmatch("[0-9]{1,9}", offset) else -1
    in_text = row["Text"][start : start + len(form)] if start >= 0 else ""
    if not form.strip() or in_text != form:
        raise lines.error(
            f"{name} is {shorten(form)!r}, but at offset {shorten(offset)} the text has "
            f"{shorten(in_text)!r}. Expected offsets in characters from 0; fix the row, or check "
            "that the text was not altered."
        )
    start += len(form) - len(form.lstrip())
    return start, start + len(form.strip())


def _refuse_contradictions(
    lines: Lines, offsets: Mapping[str, tuple[int, int]], same: Mapping[str, bool]
) -> None:
    if all(same.values()):
        raise lines.error(
            "A-coref and B-coref are both TRUE. Expected at most one antecedent; fix the row."
        )
    for (name, (_, end)), (other, (start, _)) in pairwise(
        sorted(offsets.items(), key=lambda item: item[1])
    ):
        if start < end:
            raise lines.error(
                f"{name} and {other} overlap in the text. Expected three separate spans; fix the "
                f"offsets."
            )


def _split_words(text: str, edges: set[int]) -> list[tuple[int, int]]:
    """Where each word begins and ends; no word reaches across an edge of a mention."""
    words: list[tuple[int, int]] = []
    for match in WORD.finditer(text):
        inner = sorted(edge for edge in edges if match.start() < edge < match.end())
        words += pairwise([match.start(), *inner, match.end()])
    return words
