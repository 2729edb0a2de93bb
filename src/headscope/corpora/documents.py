"""Documents with mentions: the brackets that mark them, and the example they become.

`(1` opens a mention of cluster 1, `1)` closes it, `(1)` is one word.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, chain
from pathlib import Path

from headscope.corpora.mentions import (
    HeadFinder,
    Span,
    Word,
    describe_mentions,
    find_head_in_tree,
    guess_head,
)
from headscope.data.example import Example
from headscope.data.tree import ROOT
from headscope.errors import InputError, shorten

__all__ = ["Brackets", "DocumentSentence", "build_document", "require_mentions"]

BRACKET = re.compile(r"\((?P<single>[^()]+)\)|\((?P<open>[^()]+)|(?P<close>[^()]+)\)")


@dataclass
class Brackets:
    """The brackets of a document, read word by word."""

    path: Path
    id_field: int = 0  # which field of "e1-person-..." names the cluster
    spans: set[Span] = field(default_factory=set)
    _open: dict[str, list[tuple[int, int]]] = field(default_factory=dict)  # (word, line)

    def read(self, word: int, line: int, text: str) -> None:
        """Take in the brackets that stand at a word."""
        if "[" in text:
            raise InputError(
                f"{self.path}:{line}: {shorten(text)!r} is part of a mention in several parts. "
                "Expected mentions without gaps; keep its main part, or leave the mention out."
            )
        position = 0
        while match := BRACKET.match(text, position):  # a search would try every position
            position = match.end()
            if match["close"]:
                self._close(self._name(match["close"]), word, line)
            else:
                cluster = self._name(match["single"] or match["open"])
                self._open.setdefault(cluster, []).append((word, line))
                if match["single"]:
                    self._close(cluster, word, line)
        if position != len(text):
            raise InputError(
                f"{self.path}:{line}: {shorten(text)!r} is not a mention. Expected brackets such "
                "as (1, 1) or (1), with or without fields after the number; fix the row."
            )

    def finish(self) -> list[Span]:
        """All mentions in order, outer ones first; an error if one is still open."""
        for cluster, opened in self._open.items():
            if opened:
                raise InputError(
                    f"{self.path}:{opened[-1][1]}: the mention of {shorten(cluster)!r} that "
                    "begins here never ends. Expected a closing bracket in the same document; "
                    "add it, or remove the opening one."
                )
        return sorted(self.spans, key=lambda span: (span.start, -span.end, span.cluster))

    def _close(self, cluster: str, word: int, line: int) -> None:
        if not self._open.get(cluster):
            raise InputError(
                f"{self.path}:{line}: a mention of {shorten(cluster)!r} ends here that did not "
                "begin. Expected an opening bracket before it in the same document; add it, or "
                "remove the closing one."
            )
        start, _ = self._open[cluster].pop()
        span = Span(start, word + 1, cluster)
        if span in self.spans:
            raise InputError(
                f"{self.path}:{line}: the same mention of {shorten(cluster)!r} is marked twice. "
                "Expected each span once in a cluster; remove one of its brackets."
            )
        self.spans.add(span)

    def _name(self, text: str) -> str:
        fields = text.split("-")
        return fields[self.id_field] if self.id_field < len(fields) else fields[0]


@dataclass(frozen=True)
class DocumentSentence:
    """The words of a sentence, whether each has a space before it, and heads if there is a tree.

    `surfaces` are the words as they stand in the text, where they differ.
    """

    words: Sequence[Word]
    spaces: Sequence[bool]
    heads: Sequence[int] | None = None
    surfaces: Sequence[str] | None = None


def build_document(
    id: str,
    sentences: Sequence[DocumentSentence],
    spans: Sequence[Span],
    find_head: HeadFinder | None = None,
) -> Example:
    """One example of all sentences; heads of mentions by `find_head`, the trees, or the words."""
    words = list(chain.from_iterable(sentence.words for sentence in sentences))
    forms = tuple(word.form for word in words)
    starts = list(accumulate((len(sentence.words) for sentence in sentences[:-1]), initial=0))
    finder = find_head or _find_by_trees(sentences, starts) or partial(guess_head, forms)
    spaces = [
        space or (i == 0 and start > 0)  # sentences stand apart
        for start, sentence in zip(starts, sentences, strict=True)
        for i, space in enumerate(sentence.spaces)
    ]
    surfaces = [
        surface
        for sentence in sentences
        for surface in sentence.surfaces or (word.form for word in sentence.words)
    ]
    return Example(
        id,
        words=forms,
        spaces=tuple(spaces),
        surfaces=tuple(surfaces) if any(s.surfaces for s in sentences) else None,
        mentions=describe_mentions(words, spans, finder),
        sentences=tuple(starts),
        document=id,
    )


def _find_by_trees(
    sentences: Iterable[DocumentSentence], starts: Sequence[int]
) -> HeadFinder | None:
    parents: list[int] = []
    for start, sentence in zip(starts, sentences, strict=True):
        if sentence.heads is None:
            return None
        parents += [head if head == ROOT else start + head for head in sentence.heads]
    return partial(find_head_in_tree, parents)


def require_mentions(documents: Iterable[Example], path: Path, expected: str) -> Iterator[Example]:
    """The documents of a file; an error after the last if none has a mention."""
    has_mentions = False
    for document in documents:
        has_mentions = has_mentions or bool(document.mentions)
        yield document
    if not has_mentions:
        raise InputError(
            f"{path}: no mention in the whole file. Expected {expected}; pass a file with "
            "coreference."
        )
