"""A document as an example: its sentences in one row of words, and its mentions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, chain

from headscope.corpora.brackets import Span
from headscope.corpora.mentions import (
    HeadFinder,
    Word,
    describe_mentions,
    find_head_in_tree,
    guess_head,
)
from headscope.data.example import Example
from headscope.data.tree import ROOT

__all__ = ["DocumentSentence", "build_document"]


@dataclass(frozen=True)
class DocumentSentence:
    """The words of a sentence, whether each has a space before it, and heads if there is a tree."""

    words: Sequence[Word]
    spaces: Sequence[bool]
    heads: Sequence[int] | None = None


def build_document(
    id: str,
    sentences: Sequence[DocumentSentence],
    spans: Sequence[Span],
    find_head: HeadFinder | None = None,
) -> Example:
    """One example of all sentences; heads of mentions by `find_head`, the trees, or the words."""
    words = list(chain.from_iterable(sentence.words for sentence in sentences))
    forms = tuple(word.form for word in words)
    starts = _starts(sentences)
    finder = find_head or _find_by_trees(sentences, starts) or partial(guess_head, forms)
    spaces = [
        space or (place == 0 and start > 0)  # sentences stand apart
        for start, sentence in zip(starts, sentences, strict=True)
        for place, space in enumerate(sentence.spaces)
    ]
    return Example(
        id,
        words=forms,
        spaces=tuple(spaces),
        mentions=describe_mentions(words, spans, finder),
        sentences=tuple(starts),
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


def _starts(sentences: Sequence[DocumentSentence]) -> list[int]:
    return list(accumulate((len(sentence.words) for sentence in sentences[:-1]), initial=0))
