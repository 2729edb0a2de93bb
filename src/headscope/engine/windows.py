"""Examples in tokens; documents and texts that are too long for the model are cut into windows.

Documents with mentions are cut at the ends of sentences where possible, texts between words.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Int
from numpy.typing import NDArray

from headscope.contracts import CorpusRole, Source
from headscope.data.counts import ExampleCounts
from headscope.data.encoding import Encoding, TokenKind
from headscope.data.example import Example
from headscope.data.words import split_words, word_spans

__all__ = ["cut_documents", "encode_windows"]

UNLIMITED = 10**9  # tokens
SPARE = 1  # a word may have one token more at the start of a text than within it

SPLIT = "sentences split to fit"
PARTED = "mentions not scored because every antecedent is in another window"
UNREAD = "mentions after the end of the truncated document"
SINGLE = "singletons"


def encode_windows(
    examples: Sequence[Example],
    source: Source[Any],
    role: CorpusRole,
    max_tokens: int,
    counts: ExampleCounts,
    is_truncated: bool = False,
) -> list[Encoding]:
    """The examples in tokens: of text and documents all windows, or with `is_truncated` the first.

    Annotated sentences are never cut here, nor are texts that a decoder translates.
    """
    if role is CorpusRole.COREF:
        examples = cut_documents(examples, source, max_tokens, counts, is_truncated)
    encodings = source.encode(examples, max_tokens)
    if role is not CorpusRole.TEXT or is_truncated:
        return encodings
    return [window for e in encodings for window in _cut_text(e, source, max_tokens)]


def _cut_text(encoding: Encoding, source: Source[Any], max_tokens: int) -> list[Encoding]:
    """A text in windows that fit; of a pair of paragraphs each window has two pieces in a row, as
    other segments have two paragraphs.

    The windows have the document of the text, and together its weight.
    """
    text = encoding.example
    if not encoding.is_truncated or text.text is None or encoding.target is not None:
        return [encoding]
    n_special = int((encoding.kinds != TokenKind.TEXT).sum())
    n_together = 1 if text.text_pair is None else 2
    budget = max((max_tokens - n_special) // n_together - SPARE, 1)
    whole = [part for part in (text.text, text.text_pair) if part]
    pieces = [piece for part in whole for piece in _cut_words(part, source, budget)]
    parts = [pieces[start : start + n_together] for start in range(0, len(pieces), n_together)]
    windows = [
        replace(
            text,
            text=part[0],
            text_pair=part[1] if len(part) > 1 else None,
            document=text.own_document,
            weight=text.weight / len(parts),
            window=number,
        )
        for number, part in enumerate(parts, start=1)
    ]
    return source.encode(windows, max_tokens)


def _cut_words(text: str, source: Source[Any], budget: int) -> Iterator[str]:
    """The text in pieces of whole words, of at most so many tokens."""
    spans = list(word_spans(text))
    if not spans:
        return
    [whole] = source.encode([split_words(Example("", text=text))], UNLIMITED)
    word_ids = whole.word_ids[whole.word_ids >= 0]
    n_tokens = np.bincount(word_ids, minlength=len(spans))  # [word]
    for start, end in pairwise(_pack(n_tokens.tolist(), budget)):
        yield text[spans[start][0] : spans[end - 1][1]]


def cut_documents(
    documents: Sequence[Example],
    source: Source[Any],
    max_tokens: int,
    counts: ExampleCounts,
    is_truncated: bool = False,
) -> list[Example]:
    """The documents in windows of at most `max_tokens`; what is cut is counted.

    With `is_truncated` only the words of the first `max_tokens` are read, as in the paper.
    """
    windows: list[Example] = []
    with_mentions = []
    for document in documents:
        if document.mentions:
            with_mentions.append(document)
        else:
            counts.skip("no mentions", document.id)
    encodings = source.encode(with_mentions, UNLIMITED)
    for document, encoding in zip(with_mentions, encodings, strict=True):
        of_words = encoding.word_ids[encoding.word_ids >= 0]
        n_tokens = np.bincount(of_words, minlength=len(document.words or ()))  # [word]
        budget = max_tokens - (len(encoding) - len(of_words))  # without special tokens
        if is_truncated:
            bounds = _pack(n_tokens.tolist(), budget)[:2]
        else:
            parts = list(_split_long(document, n_tokens, budget, counts))
            cuts = _pack([int(n_tokens[start:end].sum()) for start, end in pairwise(parts)], budget)
            bounds = [parts[cut] for cut in cuts]
        weighed = replace(document, weight=document.weight / (len(bounds) - 1))
        cut = [_take(weighed, start, end) for start, end in pairwise(bounds)]
        n_lost = _n_resolvable(document) - sum(map(_n_resolvable, cut))
        counts.note(UNREAD if is_truncated else PARTED, n_lost)
        counts.note(SINGLE, sum(m.is_singleton for window in cut for m in window.mentions or ()))
        windows += cut
    return windows


def _split_long(
    document: Example, n_tokens: Int[NDArray[np.int64], " word"], budget: int, counts: ExampleCounts
) -> Iterator[int]:
    """Where sentences begin, and where those that are too long must be split; the end last."""
    n_words = len(document.words or ())
    starts = (*(document.sentences or (0,)), n_words)
    for start, end in pairwise(starts):
        cuts = _pack(n_tokens[start:end].tolist(), budget)
        counts.note(SPLIT, int(len(cuts) > 2))
        yield from (start + cut for cut in cuts[:-1])
    yield n_words


def _pack(sizes: Sequence[int], budget: int) -> list[int]:
    """Where to cut a row of things so that no piece is larger than the budget; both ends too.

    >>> _pack([3, 3, 3, 9, 1], budget=7)
    [0, 2, 3, 4, 5]
    """
    cuts, total = [0], 0
    for number, size in enumerate(sizes):
        if number > cuts[-1] and total + size > budget:
            cuts.append(number)
            total = 0
        total += size
    return [*cuts, len(sizes)]


def _take(document: Example, start: int, end: int) -> Example:
    inside = [m for m in document.mentions or () if start <= m.start and m.end <= end]
    return replace(
        document,
        id=f"{document.id}[{start}:{end}]",
        words=(document.words or ())[start:end],
        spaces=document.spaces and (False, *document.spaces[start + 1 : end]),
        tags=document.tags and document.tags[start:end],
        surfaces=document.surfaces and document.surfaces[start:end],
        mentions=tuple(mention.moved(-start) for mention in inside),
        sentences=tuple(s - start for s in document.sentences or () if start <= s < end),
        document=document.own_document,
    )


def _n_resolvable(example: Example) -> int:
    """How many mentions have an earlier one of their cluster (by head word)."""
    first: dict[str, int] = {}
    for mention in example.mentions or ():
        first[mention.cluster] = min(mention.head, first.get(mention.cluster, mention.head))
    return sum(mention.head > first[mention.cluster] for mention in example.mentions or ())
