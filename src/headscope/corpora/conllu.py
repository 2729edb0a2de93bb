"""CoNLL-U and its ten-column relatives: sentences of words, or the text they stand for."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import ClassVar

from headscope.corpora.lines import file_digest, read_lines
from headscope.corpora.paragraphs import Paragraph, pair_paragraphs
from headscope.data.example import Example
from headscope.data.tree import Tree, find_problem
from headscope.errors import InputError

__all__ = ["ConlluText", "ConlluTreebank", "Sentence", "read_sentences"]

N_COLUMNS = 10
SUFFIXES = (".conllu", ".conllx", ".conll")
FORM, HEAD, RELATION, MISC = 1, 6, 7, 9


@dataclass(frozen=True)
class Sentence:
    """One sentence block: its comments and its word rows, without ranges and empty nodes."""

    line: int  # of the first row or comment
    comments: dict[str, str]
    rows: list[list[str]]
    lines: list[int]  # of each word
    spaces: list[bool]  # whether a space stands before each word

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(row[FORM] for row in self.rows)

    @property
    def has_no_heads(self) -> bool:
        """Whether the head column is left empty."""
        return all(row[HEAD] == "_" for row in self.rows)

    @property
    def text(self) -> str:
        """The sentence as running text: the `# text` comment, else the words by their spaces."""
        joined = "".join(" " * s + w for s, w in zip(self.spaces, self.words, strict=True))
        return self.comments.get("text", joined.strip())

    def name_in(self, path: Path) -> str:
        """The sentence's id: its own, else its place in the file."""
        return self.comments.get("sent_id", f"{path.name}:{self.line}")


@dataclass(frozen=True)
class ConlluTreebank:
    """A treebank file: every sentence is an example of words."""

    path: Path

    roles: ClassVar[frozenset[str]] = frozenset({"treebank"})
    suffixes: ClassVar[tuple[str, ...]] = SUFFIXES

    @property
    def name(self) -> str:
        return self.path.name

    @cached_property
    def provides(self) -> frozenset[str]:
        """Words, and dependencies if the first sentence has heads."""
        first = next(read_sentences(self.path), None)
        has_heads = first is not None and not first.has_no_heads
        return frozenset({"text", "words", *["dependencies"] * has_heads})

    def __iter__(self) -> Iterator[Example]:
        for sentence in read_sentences(self.path):
            yield Example(
                sentence.name_in(self.path),
                words=sentence.words,
                spaces=tuple(sentence.spaces),
                tree=read_tree(self.path, sentence) if "dependencies" in self.provides else None,
            )

    def digest(self) -> str:
        return file_digest(self.path)


@dataclass(frozen=True)
class ConlluText:
    """A treebank file as running text, in segments of two consecutive paragraphs.

    `# newpar` and `# newdoc` mark the paragraphs; in a file without them a sentence is a paragraph.
    """

    path: Path

    roles: ClassVar[frozenset[str]] = frozenset({"text"})
    suffixes: ClassVar[tuple[str, ...]] = SUFFIXES
    provides: ClassVar[frozenset[str]] = frozenset({"text"})

    @property
    def name(self) -> str:
        return self.path.name

    def __iter__(self) -> Iterator[Example]:
        for _, document in groupby(self._paragraphs(), key=lambda item: item[0]):
            yield from pair_paragraphs(paragraph for _, paragraph in document)

    def digest(self) -> str:
        return file_digest(self.path)

    def _paragraphs(self) -> Iterator[tuple[int, Paragraph]]:
        """Each paragraph with the number of its document."""
        document, first, texts, is_marked = 0, "", list[str](), False
        for sentence in read_sentences(self.path):
            starts_document = "newdoc" in sentence.comments
            starts_paragraph = starts_document or "newpar" in sentence.comments
            is_marked = is_marked or starts_paragraph
            if texts and (starts_paragraph or not is_marked):
                yield document, Paragraph(first, " ".join(texts))
                texts = []
            document += starts_document
            first = first if texts else sentence.name_in(self.path)
            texts.append(sentence.text)
        if texts:
            yield document, Paragraph(first, " ".join(texts))


def read_sentences(path: Path) -> Iterator[Sentence]:
    """The sentences of a file, one at a time."""
    block: list[tuple[int, str]] = []
    for number, line in read_lines(path):
        if line.strip():
            block.append((number, line))
        elif block:
            yield from _read_block(path, block)
            block = []
    if block:
        yield from _read_block(path, block)


def _read_block(path: Path, block: list[tuple[int, str]]) -> Iterator[Sentence]:
    comments: dict[str, str] = {}
    rows: list[list[str]] = []
    lines: list[int] = []
    ranges: list[list[str]] = []
    for number, line in block:
        if line.startswith("#"):
            key, _, value = line[1:].partition("=")
            names = key.split()  # "# newdoc id = x" and "# newpar" count under their first word
            comments[names[0] if names else ""] = value.strip()
            continue
        row = _read_row(path, number, line)
        if "-" in row[0]:
            ranges.append(row)
        elif "." not in row[0]:  # an empty node is not a word of the text
            _check_order(path, number, row, len(rows))
            rows.append(row)
            lines.append(number)
    if rows:
        yield Sentence(block[0][0], comments, rows, lines, _spaces_before(rows, ranges))


def read_tree(path: Path, sentence: Sentence) -> Tree:
    """The sentence's dependency tree, or an error that names the word's line."""
    for line, row in zip(sentence.lines, sentence.rows, strict=True):
        if not row[HEAD].isdecimal() or row[RELATION] in ("", "_"):
            raise InputError(
                f"{path}:{line}: word {row[0]} has head {row[HEAD]!r} and relation "
                f"{row[RELATION]!r}. Expected a word's number (0 for the root) in column 7 and a "
                "relation in column 8; annotate the word, or leave out the sentence."
            )
    heads = tuple(int(row[HEAD]) - 1 for row in sentence.rows)
    if problem := find_problem(heads):
        word, what = problem
        raise InputError(
            f"{path}:{sentence.lines[word]}: word {word + 1} {what}. Expected a tree, with one "
            "root (head 0) and every head a word of the sentence; mend or leave out the sentence."
        )
    return Tree(heads, tuple(row[RELATION] for row in sentence.rows))


def _spaces_before(rows: list[list[str]], ranges: list[list[str]]) -> list[bool]:
    """Whether a space stands before each word in the running text.

    The words of a range stand together where they spell it ("do", "n't"), else apart ("de", "le").
    """
    after = ["SpaceAfter=No" not in row[MISC].split("|") for row in rows]
    for row in ranges:
        first, last = map(int, row[0].split("-"))
        spelled = "".join(word[FORM] for word in rows[first - 1 : last])
        after[first - 1 : last - 1] = [spelled != row[FORM]] * (last - first)
        if last <= len(rows):
            after[last - 1] = "SpaceAfter=No" not in row[MISC].split("|")
    return [False, *after[:-1]]


def _check_order(path: Path, number: int, row: list[str], n_before: int) -> None:
    if int(row[0]) != n_before + 1:
        raise InputError(
            f"{path}:{number}: word {row[0]} follows word {n_before}. Expected ids 1, 2, 3, ... "
            "within a sentence and a blank line between sentences; mend the ids."
        )


def _read_row(path: Path, number: int, line: str) -> list[str]:
    row = line.split("\t")
    if len(row) != N_COLUMNS:
        raise InputError(
            f"{path}:{number}: {len(row)} columns. Expected {N_COLUMNS}, separated by tabs "
            "(CoNLL-U or CoNLL-X); check that the file is a treebank and its tabs are kept."
        )
    if not re.fullmatch(r"\d+([-.]\d+)?", row[0]):
        raise InputError(
            f"{path}:{number}: {row[0]!r} is not a word id. Expected a number, a range such as "
            "3-4 or an empty node such as 3.1 in the first column; mend the row."
        )
    if not row[FORM]:
        raise InputError(f"{path}:{number}: the word is empty. Expected a form; mend the row.")
    return row
