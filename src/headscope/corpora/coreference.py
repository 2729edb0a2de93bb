"""Coreference in the columns of CoNLL-2012 (OntoNotes), in LitBank's form of them, and in CoNLL-U.

In CoNLL-2012 a document stands between `#begin document (name); part 000` and `#end document`. Of a
row the third column numbers the word, then follow the word, its tag, and its bit of the parse; the
last column has the brackets of mentions. LitBank leaves the tag and the parse out, and ends rows
with a tab. CoNLL-U has `Entity=` brackets in MISC, as CorefUD, GUM and OntoGUM write them.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from headscope.contracts import Annotation, CorpusRole
from headscope.corpora.conllu import ConlluSentence, read_sentences, read_tree
from headscope.corpora.lines import FileCorpus, Lines
from headscope.corpora.mentions import (
    Brackets,
    DocumentSentence,
    HeadFinder,
    Word,
    build_document,
    require_mentions,
)
from headscope.data.example import Example
from headscope.errors import InputError, shorten

__all__ = ["Conll2012", "ConlluCoreference"]

FORM, TAG, PARSE, N_LEAST = 3, 4, 5, 6  # columns of CoNLL-2012
WORD, UPOS, XPOS, FEATURES, MISC = 1, 3, 4, 5, 9  # columns of CoNLL-U
ENTITY = "Entity="
ID_NAMES = ("eid", "GRP")  # what the header calls the field that names the cluster
EMPTY = ("-", "_", "")
BEGIN = re.compile(r"#begin document \(?(?P<name>.*?)\)?;?(?: part (?P<part>[0-9]{1,9}))?")
NO_SPACE_BEFORE = frozenset([".", ",", ";", ":", "?", "!", "'s", "’s", "n't", "'", "''", ")", "%"])
NOUN_TAGS = frozenset({"NN", "NNS", "NNP", "NNPS", "PRP", "PRP$", "WP", "WP$", "CD", "DT", "JJ"})
NOUNS = frozenset({"NN", "NNS", "NNP", "NNPS"})
PART = re.compile(r"\((?P<label>[^\s()*]+)|(?P<close>\))")

Sentence = list[tuple[int, list[str]]]  # each row with its line


@dataclass
class Rows:
    """The rows of a document in sentences, as they are read."""

    name: str
    document: str  # of which these may be a part
    line: int
    sentences: list[Sentence] = field(default_factory=lambda: [[]])


@dataclass
class Phrase:
    """A phrase over words `start` to `end` (not included)."""

    label: str
    start: int
    end: int = -1
    children: list["Phrase"] = field(default_factory=list)


@dataclass(frozen=True)
class Conll2012(FileCorpus):
    """A file of documents: each is an example with its mentions."""

    roles = frozenset({CorpusRole.COREF})
    suffixes = (".conll", "_conll")
    provides = frozenset({Annotation.TEXT, Annotation.WORDS, Annotation.COREFERENCE})

    def read(self, lines: Lines) -> Iterator[Example]:
        return require_mentions(
            (self._read(rows) for rows in _split_documents(lines)),
            self.path,
            "documents between '#begin document' and '#end document' with brackets in the last "
            "column",
        )

    def _read(self, rows: Rows) -> Example:
        brackets = Brackets(self.path)
        sentences = [sentence for sentence in rows.sentences if sentence]
        flat = [row for sentence in sentences for row in sentence]
        for word, (line, row) in enumerate(flat):
            for text in row[-1].split("|"):
                if text not in EMPTY:
                    brackets.read(word, line, text)
        annotated = [_annotate(sentence) for sentence in sentences]
        find_head = self._find_by_parse(sentences)
        example = build_document(rows.name, annotated, brackets.finish(), find_head)
        return replace(example, document=rows.document)

    def _find_by_parse(self, sentences: Sequence[Sentence]) -> HeadFinder | None:
        """Heads by the parse column; None where a sentence has none."""
        phrases: list[Phrase] = []
        tags: list[str] = []
        for sentence in sentences:
            bits = [row[PARSE] for _, row in sentence]
            if all(bit in EMPTY for bit in bits):
                return None
            phrases.append(read_parse(self.path, bits, [line for line, _ in sentence], len(tags)))
            tags += [row[TAG] for _, row in sentence]
        document = Phrase("", 0, len(tags), phrases)
        return lambda start, end: find_phrase_head(document, tags, start, end)


def _split_documents(lines: Lines) -> Iterator[Rows]:
    rows: Rows | None = None
    for number, line in lines:
        if line.startswith("#begin document"):
            _refuse_open(lines, rows)
            match = BEGIN.fullmatch(line.rstrip())
            name, part = (match["name"], match["part"]) if match else (line, None)
            rows = Rows(f"{name}.{int(part)}" if part else name, name, number)
        elif line.startswith("#end document"):
            if rows and any(rows.sentences):
                yield rows
            rows = None
        elif rows is None:
            if line.strip() and line.split()[0] != "#":  # which begins a comment
                raise lines.error(
                    "this row is outside a document. Expected '#begin document (name); part "
                    "000' before it; check that the file is CoNLL-2012."
                )
        elif not line.strip():
            rows.sentences.append([])
        else:
            rows.sentences[-1].append((number, _read_row(lines, line)))
    _refuse_open(lines, rows)


def _refuse_open(lines: Lines, rows: Rows | None) -> None:
    """An error for a document without an end: what follows may be missing."""
    if rows:
        raise lines.error(
            f"the document {shorten(rows.name)!r} that begins here never ends. Expected '#end "
            "document' after its last row; the file may be cut off.",
            rows.line,
        )


def _read_row(lines: Lines, line: str) -> list[str]:
    row = line.rstrip().split("\t") if "\t" in line else line.split()
    if len(row) < N_LEAST:
        raise lines.error(
            f"{len(row)} columns. Expected at least {N_LEAST}: document, part, number, word, tag, "
            "..., mentions; check that the file is CoNLL-2012."
        )
    if not row[FORM].strip():
        raise lines.error("the word is empty. Expected a form in column 4; fix the row.")
    return row


def _annotate(sentence: Sentence) -> DocumentSentence:
    words = [Word(row[FORM], None if row[TAG] in EMPTY else row[TAG]) for _, row in sentence]
    spaces = [i > 0 and row[FORM] not in NO_SPACE_BEFORE for i, (_, row) in enumerate(sentence)]
    return DocumentSentence(words, spaces)


def read_parse(path: Path, bits: Sequence[str], lines: Sequence[int], start: int) -> Phrase:
    """The tree of a sentence from its column of parse bits, such as `(TOP(S(NP*)`."""
    root = Phrase("", start)
    stack = [root]
    for word, (bit, line) in enumerate(zip(bits, lines, strict=True), start=start):
        for match in PART.finditer(bit):
            if match["label"]:
                phrase = Phrase(match["label"], word)
                stack[-1].children.append(phrase)
                stack.append(phrase)
            elif match["close"]:
                if len(stack) == 1:
                    _refuse(path, line, "closes a phrase that did not begin")
                stack.pop().end = word + 1
    if len(stack) > 1:
        _refuse(path, lines[-1], f"leaves the phrase {stack[-1].label} open")
    root.end = start + len(bits)
    return root


def find_phrase_head(phrase: Phrase, tags: Sequence[str], start: int, end: int) -> int:
    """The head of the smallest phrase that holds the span, looked for within the span.

    A noun phrase that begins with another one, which the rest modifies, has the head of that one;
    else the last noun counts, and else the last word.
    """
    first: Phrase | None = phrase
    while first:
        phrase = first
        while inner := [c for c in phrase.children if c.start <= start and end <= c.end]:
            phrase = inner[0]
        within = [c for c in phrase.children if start <= c.start and c.end <= end]
        # A noun phrase that is followed by what modifies it; after 's the head follows instead.
        noun_phrases = (c for c in within if c.label.startswith("NP") and c.end < end)
        first = next((c for c in noun_phrases if tags[c.end - 1] != "POS"), None)
        if first:
            start, end = first.start, first.end
    covered = {word for child in within for word in range(child.start, child.end)}
    uncovered = [word for word in range(start, end) if word not in covered] or list(
        range(start, end)
    )
    for wanted in (NOUNS, NOUN_TAGS):
        nouns = [word for word in uncovered if tags[word] in wanted]
        if nouns:
            return nouns[-1]
    return uncovered[-1]


def _refuse(path: Path, line: int, what: str) -> None:
    raise InputError(
        f"{path}:{line}: the parse {what}. Expected balanced brackets such as (NP* and *); fix "
        "the column, or fill it with '-' to read the file without a parse."
    )


@dataclass(frozen=True)
class ConlluCoreference(FileCorpus):
    """A file of documents: each is an example with its mentions. `# newdoc` begins a document."""

    roles = frozenset({CorpusRole.COREF})
    suffixes = (".conllu",)
    provides = frozenset({Annotation.TEXT, Annotation.WORDS, Annotation.COREFERENCE})

    def read(self, lines: Lines) -> Iterator[Example]:
        expected = "Entity= brackets in the last column (CorefUD, GUM, OntoGUM)"
        return require_mentions(self._read_documents(lines), self.path, expected)

    def _read_documents(self, lines: Lines) -> Iterator[Example]:
        id_field = 0
        documents = groupby(read_sentences(lines), key=attrgetter("document"))
        for number, (_, document) in enumerate(documents, start=1):
            sentences = list(document)
            if "global.Entity" in sentences[0].comments:  # the header: eid-etype-...
                names = sentences[0].comments["global.Entity"].split("-")
                id_field = next((names.index(name) for name in ID_NAMES if name in names), 0)
            for sentence in sentences:
                _tell_zeros(lines, sentence)
            yield self._read(sentences, f"{self.name}:{number}", id_field)

    def _read(self, sentences: Sequence[ConlluSentence], default: str, id_field: int) -> Example:
        brackets = Brackets(self.path, id_field)
        word = 0
        for sentence in sentences:
            for line, row in zip(sentence.lines, sentence.rows, strict=True):
                if text := _find_entity(self.path, line, row):
                    brackets.read(word, line, text)
                word += 1
        name = sentences[0].comments.get("newdoc") or default
        return build_document(name, [self._annotate(s) for s in sentences], brackets.finish())

    def _annotate(self, sentence: ConlluSentence) -> DocumentSentence:
        words = [_read_word(row) for row in sentence.rows]
        heads = None if sentence.has_no_heads else read_tree(self.path, sentence).heads
        return DocumentSentence(words, sentence.spaces, heads, sentence.surfaces)


def _find_entity(path: Path, line: int, row: Sequence[str]) -> str:
    """The brackets that a row has; "" for none."""
    marks = [item for item in row[MISC].split("|") if item.startswith(ENTITY)]
    if len(marks) > 1:
        raise InputError(
            f"{path}:{line}: {ENTITY} occurs {len(marks)} times. Expected all brackets of a word "
            "in one, such as Entity=(e1)(e2; join them."
        )
    return marks[0].removeprefix(ENTITY) if marks else ""


def _tell_zeros(lines: Lines, sentence: ConlluSentence) -> None:
    """Count the mentions that are no words of the text, and refuse brackets where none may be."""
    for number, row in sentence.others:
        text = _find_entity(lines.path, number, row)
        if text and ("-" in row[0] or not re.fullmatch(r"(\([^()]+\))+", text)):
            raise lines.error(
                f"{ENTITY}{shorten(text)} is at {row[0]}, a range or an empty node, where it "
                f"cannot be read. Expected brackets at words, or whole mentions such as (e1) at "
                "empty nodes; move it to a word.",
                number,
            )
        if text:
            left_out = "mentions at empty nodes, which are not in the text, are left out."
            lines.notes[left_out] += text.count("(")


def _read_word(row: Sequence[str]) -> Word:
    tag, fine = (None if row[column] == "_" else row[column] for column in (UPOS, XPOS))
    pairs = (item.partition("=") for item in row[FEATURES].split("|") if "=" in item)
    return Word(row[WORD], tag or fine, fine, {name: value for name, _, value in pairs})
