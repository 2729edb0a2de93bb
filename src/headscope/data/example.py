"""One unit of a corpus: a segment of text, a sentence of words, or a document of sentences."""

from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

from headscope.data.link import Link
from headscope.data.mention import Mention
from headscope.data.tree import Tree

__all__ = ["Example", "stable_hash"]


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
    `text_pair`, both split at spaces.

    A sample adds what only a reading of the whole corpus shows: `document_key`, a hash of all texts
    of the document, and `weight`, one over the number of its examples.
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
        """The number that decides what is drawn for the example at random."""
        return stable_hash(self.id)

    @property
    def own_document(self) -> str:
        """The name of its document, or its own id if the document is not known."""
        return self.id if self.document is None else self.document
