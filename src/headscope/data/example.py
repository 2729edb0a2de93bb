"""One unit of a corpus, a text, a sentence or a document, and its trees, mentions and links."""

import re
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from typing import NamedTuple

__all__ = [
    "KINDS",
    "ROOT",
    "WINDOWS",
    "Example",
    "Link",
    "Mention",
    "Tree",
    "parse_links",
    "stable_hash",
]

LINK = re.compile(r"([0-9]+)([-p])([0-9]+)")


class Link(NamedTuple):
    """Two words that translate each other, counted from 0; a link that is not sure is possible."""

    source: int
    target: int
    is_sure: bool = True


def parse_links(text: str) -> tuple[Link, ...]:
    """The links of a line: "0-1" links source word 0 with target word 1, "0p1" possibly so.

    >>> parse_links("0-0 1p2")
    (Link(source=0, target=0, is_sure=True), Link(source=1, target=2, is_sure=False))
    """
    matches = [LINK.fullmatch(part) for part in text.split()]
    if not all(matches):
        raise ValueError(f"{text!r:.60} is not an alignment in the Pharaoh format")
    return tuple(Link(int(m[1]), int(m[3]), m[2] == "-") for m in matches if m)


ROOT = -1  # the head of the root word
WINDOWS = 1 << 16  # more than a text has; keys of windows differ in these last bits


@dataclass(frozen=True)
class Tree:
    """Each word's head (a zero-based index, or ROOT) and its relation to it. One root, no cycle."""

    heads: tuple[int, ...]
    relations: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.heads) != len(self.relations):
            raise ValueError("a tree has one relation for every head")
        if problem := find_problem(self.heads):
            raise ValueError(f"word {problem[0] + 1} {problem[1]}")


def find_problem(heads: tuple[int, ...]) -> tuple[int, str] | None:
    """The first word that breaks the tree, and how; None for a tree.

    >>> find_problem((1, ROOT, 1)) is None
    True
    >>> find_problem((1, 0))
    (0, 'is part of a cycle')
    """
    roots = [word for word, head in enumerate(heads) if head == ROOT]
    if len(roots) > 1:
        return roots[1], f"is a second root, after word {roots[0] + 1}"
    for word, head in enumerate(heads):
        if not ROOT <= head < len(heads):
            return word, f"has head {head + 1}, outside the sentence of {len(heads)} words"
    is_grounded = [head == ROOT for head in heads]
    for word in range(len(heads)):
        path, here = set[int](), word
        while not is_grounded[here]:
            if here in path:
                return here, "is part of a cycle"
            path.add(here)
            here = heads[here]
        for passed in path:
            is_grounded[passed] = True
    return None


KINDS = ("pronoun", "proper", "nominal")


@dataclass(frozen=True)
class Mention:
    """Words `start` to `end` (not included); mentions of one `cluster` refer to the same thing.

    `number`, `gender` and `person` are None where they are not known.
    """

    start: int
    end: int
    cluster: str
    head: int  # the word that stands for the span
    kind: str = "nominal"  # one of KINDS
    number: str | None = None  # singular, plural
    gender: str | None = None  # masculine, feminine, neuter
    person: str | None = None  # 1, 2, 3
    is_singleton: bool = False  # whether the whole document mentions its cluster but once

    def moved(self, by: int) -> "Mention":
        """The same mention, counted from another word."""
        start, end, head = self.start + by, self.end + by, self.head + by
        return replace(self, start=start, end=end, head=head)


def stable_hash(text: str) -> int:
    """A 64-bit number that depends on the text alone: the same on every machine and in every run.

    >>> stable_hash("wiki.txt:1") == stable_hash("wiki.txt:1") != stable_hash("wiki.txt:2")
    True
    """
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


@dataclass(frozen=True)
class Example:
    """One example: either `text` (with or without `text_pair`), or `words`, with or without a tree.

    `spaces[i]` says whether there is a space before word i in the running text; None means a space
    before every word but the first. `surfaces` are the words as written in that text, where they
    differ: "du" is "d" and "u" for the words "de" and "le". Models read the running text. `tags`
    are the words' parts of speech. An example with coreference has its `mentions`, and in
    `sentences` the first word of each of its sentences. `document` names the document of the
    example. Examples of one document are alike, so intervals count documents, not examples. None:
    the example is a document by itself. `links` align the words of `text` with those of
    `text_pair`, both split at spaces. If it `is_drawn`, its words are numbers from 0 to 1, each of
    which stands for a token of the model's vocabulary.

    A sample adds what only a reading of the whole corpus shows: `document_key`, a hash of all texts
    of the document, and `weight`, one over the number of its examples. A long text is read in
    windows, which have its id and are numbered by `window`, from 1.
    """

    id: str
    text: str | None = None
    text_pair: str | None = None
    words: tuple[str, ...] | None = None
    spaces: tuple[bool, ...] | None = None
    tags: tuple[str, ...] | None = None
    surfaces: tuple[str, ...] | None = None
    tree: Tree | None = None
    mentions: tuple[Mention, ...] | None = None
    sentences: tuple[int, ...] | None = None
    document: str | None = None
    links: tuple[Link, ...] | None = None
    document_key: int | None = None
    weight: float = 1.0
    window: int = field(default=0, repr=False)
    is_drawn: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        if (self.text is None) == (self.words is None):
            raise ValueError(f"Example {self.id!r} must have either text or words.")
        if self.text_pair is not None and self.text is None:
            raise ValueError(f"Example {self.id!r} has a text_pair but no text.")
        n_words = len(self.words or ())
        if self.spaces is not None and len(self.spaces) != n_words:
            raise ValueError(f"Example {self.id!r} must have one entry of spaces per word.")
        if self.tags is not None and len(self.tags) != n_words:
            raise ValueError(f"Example {self.id!r} must have one entry of tags per word.")
        if self.surfaces is not None and len(self.surfaces) != n_words:
            raise ValueError(f"Example {self.id!r} must have one surface per word.")
        if self.tree is not None and len(self.tree.heads) != n_words:
            raise ValueError(f"Example {self.id!r} must have one head per word in its tree.")
        if any(not 0 <= m.start <= m.head < m.end <= n_words for m in self.mentions or ()):
            raise ValueError(f"Example {self.id!r} has a mention outside its words.")
        if self.links is not None:
            n_source, n_target = len((self.text or "").split()), len((self.text_pair or "").split())
            if any(not (0 <= s < n_source and 0 <= t < n_target) for s, t, _ in self.links):
                raise ValueError(f"Example {self.id!r} has a link outside its words.")

    @cached_property
    def key(self) -> int:
        """The number by which the example is found again, and random rows of it are drawn."""
        key = stable_hash(self.id)
        return key if not self.window else key // WINDOWS * WINDOWS + self.window

    @property
    def own_document(self) -> str:
        """The name of its document, or its own id if the document is not known."""
        return self.id if self.document is None else self.document
