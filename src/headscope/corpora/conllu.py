"""CoNLL-U and its ten-column relatives: sentences of words, or the text they stand for."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import cached_property, partial
from itertools import accumulate, groupby, pairwise
from pathlib import Path
from typing import NamedTuple, Self

from headscope.contracts import Annotation, CorpusRole
from headscope.corpora.document_names import NEWDOC, Documents, find_documents
from headscope.corpora.lines import FileCorpus, Lines
from headscope.corpora.text import Paragraph, pair_paragraphs
from headscope.data.example import Example, Tree, find_problem
from headscope.errors import InputError, shorten
from headscope.options import BLOCK_SENTENCES

__all__ = [
    "ConlluFile", "ConlluSentence", "ConlluText", "ConlluTreebank", "read_sentences", "read_tree",
]  # fmt: skip

N_COLUMNS = 10
SUFFIXES = (".conllu", ".conllx", ".conll")
FORM, TAG, FINE_TAG, HEAD, RELATION, MISC = 1, 3, 4, 6, 7, 9
ID = re.compile(r"[0-9]{1,9}([-.][0-9]{1,9})?")
MARK = re.compile(r"newdoc$|newpar$|global\.")  # also counts for a sentence after a blank line
MOST_COMPARED = 40_000  # characters of a multiword token times those of its words


class Range(NamedTuple):
    """A multiword token: its first and last word, counted from 1, and its row."""

    first: int
    last: int
    row: list[str]


@dataclass(frozen=True)
class ConlluSentence:
    """One sentence block: its comments and its word rows, without ranges and empty nodes."""

    document: int  # its number in the file; `# newdoc` begins one
    document_id: str | None  # as `# newdoc id` says
    line: int  # of the first row or comment
    comments: dict[str, str]
    rows: list[list[str]]
    lines: list[int]  # of each word
    spaces: list[bool]  # whether a space stands before each word
    others: list[tuple[int, list[str]]]  # ranges and empty nodes, with their lines
    surfaces: list[str] | None = None  # the words as they stand in the text, where they differ

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(row[FORM] for row in self.rows)

    @property
    def tags(self) -> tuple[str, ...] | None:
        """Parts of speech: universal ones, else the treebank's own; None where there are none."""
        for column in (TAG, FINE_TAG):
            if any(row[column] != "_" for row in self.rows):
                return tuple(row[column] for row in self.rows)
        return None

    @property
    def has_no_heads(self) -> bool:
        """Whether the head column is left empty."""
        return all(row[HEAD] == "_" for row in self.rows)

    @property
    def text(self) -> str:
        """The sentence as running text: the `# text` comment, else the words by their spaces."""
        parts = zip(self.spaces, self.surfaces or self.words, strict=True)
        joined = "".join(" " * space + part for space, part in parts)
        return self.comments.get("text") or joined.strip()

    def name_in(self, path: Path) -> str:
        """The sentence's id: its own, else its line in the file."""
        return self.comments.get("sent_id", f"{path.name}:{self.line}")


@dataclass(frozen=True)
class ConlluFile(FileCorpus):
    """A treebank file whose sentences are in documents, marked or guessed."""

    suffixes = SUFFIXES
    block_sentences: int = BLOCK_SENTENCES  # of a block where documents are unknown

    @property
    def documents(self) -> str:
        return self._documents.known_by

    @property
    def has_blocks(self) -> bool:
        return bool(self._documents.block_lines)

    def with_blocks(self, n_sentences: int) -> Self:
        return replace(self, block_sentences=n_sentences)

    def document_of(self, sentence: ConlluSentence) -> str:
        """The name of a sentence's document."""
        if self._documents.known_by == NEWDOC:
            name = str(sentence.document_id or sentence.document)
        else:
            name = self._documents.name(sentence.line, sentence.comments.get("sent_id", ""))
        return f"{self.name}:{name}"

    @cached_property
    def _documents(self) -> Documents:
        """Found by a reading of its own: whether ids name documents shows at the end."""

        def list_blocks() -> Iterator[tuple[int, dict[str, str]]]:
            for has_text, group in groupby(
                Lines(self.path), key=lambda line: bool(line[1].strip())
            ):
                block = list(group) if has_text else []
                comments = _read_comments(block)
                if "newdoc" in comments or any(not line.startswith("#") for _, line in block):
                    yield block[0][0], comments

        return find_documents(list_blocks(), self.block_sentences)


@dataclass(frozen=True)
class ConlluTreebank(ConlluFile):
    """A treebank file: every sentence is an example of words."""

    roles = frozenset({CorpusRole.TREEBANK})

    @cached_property
    def provides(self) -> frozenset[str]:
        """Words; dependencies and parts of speech if a sentence has them."""
        provided, is_empty = {Annotation.TEXT, Annotation.WORDS}, True
        lines = Lines(self.path)
        for sentence in read_sentences(lines, gathers_errors=True):
            is_empty = False
            if not sentence.has_no_heads:
                provided.add(Annotation.DEPENDENCIES)
            if sentence.tags:
                provided.add(Annotation.TAGS)
            if len(provided) == 4:  # in most files after the first sentence
                break
        if is_empty and lines.errors:
            self._tell_errors(lines.errors, can_skip=False)
        if is_empty:
            raise self.empty()
        return frozenset(provided)

    def read(self, lines: Lines) -> Iterator[Example]:
        for sentence in read_sentences(lines, gathers_errors=True):
            example = lines.gather(partial(self._read_sentence, sentence))
            if example is not None:
                yield example

    def _read_sentence(self, sentence: ConlluSentence) -> Example:
        has_tags = Annotation.TAGS in self.provides
        has_trees = Annotation.DEPENDENCIES in self.provides
        return Example(
            sentence.name_in(self.path),
            words=sentence.words,
            spaces=tuple(sentence.spaces),
            tags=(sentence.tags or ("_",) * len(sentence.rows)) if has_tags else None,
            surfaces=tuple(sentence.surfaces) if sentence.surfaces else None,
            tree=read_tree(self.path, sentence) if has_trees else None,
            document=self.document_of(sentence),
        )


@dataclass(frozen=True)
class ConlluText(ConlluFile):
    """A treebank file as running text, in segments of two consecutive paragraphs.

    `# newpar` and `# newdoc` mark the paragraphs; in a file without them a sentence is a paragraph.
    """

    roles = frozenset({CorpusRole.TEXT})
    provides = frozenset({Annotation.TEXT})

    @property
    def has_trees(self) -> bool:
        first = next(read_sentences(Lines(self.path)), None)
        return first is not None and not first.has_no_heads

    def read(self, lines: Lines) -> Iterator[Example]:
        for name, document in groupby(read_sentences(lines), key=self.document_of):
            yield from pair_paragraphs(self._paragraphs(document), name)

    def _paragraphs(self, document: Iterable[ConlluSentence]) -> Iterator[Paragraph]:
        first, texts, is_marked = "", list[str](), False
        for sentence in document:
            starts_paragraph = not sentence.comments.keys().isdisjoint(("newdoc", "newpar"))
            is_marked = is_marked or starts_paragraph
            if texts and (starts_paragraph or not is_marked):
                yield Paragraph(first, " ".join(texts))
                texts = []
            first = first if texts else sentence.name_in(self.path)
            texts.append(sentence.text)
        yield Paragraph(first, " ".join(texts))


def read_sentences(lines: Lines, gathers_errors: bool = False) -> Iterator[ConlluSentence]:
    """The sentences of a file, one at a time; a bad one is an error, at once or at the end."""
    before: ConlluSentence | None = None
    marks: dict[str, str] = {}  # of blocks without words
    for has_text, group in groupby(lines, key=lambda line: bool(line[1].strip())):
        if not has_text:
            continue
        block = list(group)
        comments = marks | _read_comments(block)
        read = partial(_read_block, lines, block, comments, before)
        n_errors = len(lines.errors)
        sentence = lines.gather(read) if gathers_errors else read()
        if sentence:
            before, marks = sentence, {}
            yield sentence
        elif len(lines.errors) == n_errors:
            marks = {name: v for name, v in comments.items() if MARK.match(name)}


def _read_comments(block: Iterable[tuple[int, str]]) -> dict[str, str]:
    """Comments by name; "# newdoc id = x" and "# newpar" count under their first word."""
    comments: dict[str, str] = {}
    for _, line in block:
        if line.startswith("#"):
            key, _, value = line[1:].partition("=")
            names = key.split()
            is_mark = bool(names) and names[0] in ("newdoc", "newpar")
            comments[names[0] if is_mark else " ".join(names)] = value.strip()
    return comments


def _read_block(
    file: Lines,
    block: list[tuple[int, str]],
    comments: dict[str, str],
    before: ConlluSentence | None,
) -> ConlluSentence | None:
    """The sentence of these lines, if they have words; it may go on with the document `before`."""
    rows: list[list[str]] = []
    lines: list[int] = []
    others: list[tuple[int, list[str]]] = []
    for number, line in block:
        if line.startswith("#"):
            continue
        row = _read_row(file, number, line)
        if row[0].isdecimal():
            if int(row[0]) != len(rows) + 1:
                raise file.error(
                    f"word {row[0]} follows word {len(rows)}. Expected ids 1, 2, 3, ... within a "
                    "sentence and a blank line between sentences; fix the ids.",
                    number,
                )
            rows.append(row)
            lines.append(number)
        else:  # an empty node is not a word of the text
            if "-" in row[0] and int(row[0].split("-")[0]) != len(rows) + 1:
                raise file.error(
                    f"the range {row[0]} follows word {len(rows)}. Expected a range right before "
                    "its first word, such as 3-4 before 3; fix the ids.",
                    number,
                )
            others.append((number, row))
    if not rows:
        if others:
            raise file.error(
                "a sentence without words. Expected words 1, 2, 3, ..., not only ranges and empty "
                "nodes; fix or remove it.",
                others[0][0],
            )
        return None
    ranges = _read_ranges(file, others, len(rows))
    words = [row[FORM] for row in rows]
    surfaces = list(words)
    after = ["SpaceAfter=No" not in row[MISC].split("|") for row in rows]  # spaces
    for first, last, row in ranges:  # the words of a range stand together
        after[first - 1 : last - 1] = [False] * (last - first)
        after[last - 1] = "SpaceAfter=No" not in row[MISC].split("|")
        surfaces[first - 1 : last] = split_surface(row[FORM], words[first - 1 : last])
    document, document_id = (before.document, before.document_id) if before else (0, None)
    if "newdoc" in comments:
        document, document_id = document + 1, comments["newdoc"] or None
    return ConlluSentence(
        document,
        document_id,
        block[0][0],
        comments,
        rows,
        lines,
        spaces=[False, *after[:-1]],
        others=others,
        surfaces=surfaces if surfaces != words else None,
    )


def read_tree(path: Path, sentence: ConlluSentence) -> Tree:
    """The sentence's dependency tree, or an error that names the word's line."""
    for line, row in zip(sentence.lines, sentence.rows, strict=True):
        if not re.fullmatch("[0-9]{1,9}", row[HEAD]) or row[RELATION] in ("", "_"):
            raise InputError(
                f"{path}:{line}: word {row[0]} has head {shorten(row[HEAD])!r} and relation "
                f"{shorten(row[RELATION])!r}. Expected a word's number (0 for the root) in column "
                "7 and a relation in column 8; annotate the word, or leave out the sentence."
            )
    heads = tuple(int(row[HEAD]) - 1 for row in sentence.rows)
    if problem := find_problem(heads):
        word, what = problem
        raise InputError(
            f"{path}:{sentence.lines[word]}: word {word + 1} {what}. Expected a tree, with one "
            "root (head 0) and every head a word of the sentence; fix or leave out the sentence."
        )
    return Tree(heads, tuple(row[RELATION] for row in sentence.rows))


def _read_ranges(file: Lines, others: Iterable[tuple[int, list[str]]], n_words: int) -> list[Range]:
    """The multiword tokens, each after the one before and within the sentence."""
    ranges: list[Range] = []
    for number, row in others:
        if "-" not in row[0]:
            continue
        first, last = map(int, row[0].split("-"))
        before = ranges[-1].last if ranges else 0
        if not before < first <= last <= n_words:
            raise file.error(
                f"the range {row[0]} does not fit into a sentence of {n_words} words, after word "
                f"{before}. Expected ranges such as 3-4 in rising order, without overlap; fix it.",
                number,
            )
        ranges.append(Range(first, last, row))
    return ranges


def split_surface(surface: str, words: Sequence[str]) -> list[str]:
    """The part of a multiword token that each of its words has: where the words end in it, if they
    are laid beside it as well as they fit; each has a character if there are enough.

    >>> split_surface("du", ["de", "le"]), split_surface("vámonos", ["vamos", "nos"])
    (['d', 'u'], ['vámo', 'nos'])
    """
    spelled = "".join(words)
    fits: Sequence[tuple[str, int, int, int, int]] = [("", 0, len(spelled), 0, len(surface))]
    if len(spelled) * len(surface) <= MOST_COMPARED:  # the time to compare grows with both
        matcher = SequenceMatcher(None, spelled.lower(), surface.lower(), autojunk=False)
        fits = matcher.get_opcodes()
    cuts = [0]
    for number, end in enumerate(accumulate(map(len, words[:-1])), start=1):
        _, start, stop, to, until = next(fit for fit in fits if fit[1] <= end <= fit[2])
        cut = to + round((end - start) / max(stop - start, 1) * (until - to))
        n_after = len(words) - number  # words that still need a character
        cuts.append(max(min(max(cut, cuts[-1] + 1), len(surface) - n_after), cuts[-1]))
    return [surface[start:end] for start, end in pairwise([*cuts, len(surface)])]


def _read_row(file: Lines, number: int, line: str) -> list[str]:
    row = line.split("\t")
    if len(row) != N_COLUMNS:
        raise file.error(
            f"{len(row)} columns. Expected {N_COLUMNS}, separated by tabs (CoNLL-U or CoNLL-X); "
            "check that the file is a treebank and its tabs are kept.",
            number,
        )
    if not ID.fullmatch(row[0]):
        raise file.error(
            f"{shorten(row[0])!r} is not a word id. Expected a number, a range such as 3-4 or an "
            "empty node such as 3.1 in the first column; fix the row.",
            number,
        )
    if not row[FORM].strip():
        raise file.error("the word is empty. Expected a form; fix the row.", number)
    return row
