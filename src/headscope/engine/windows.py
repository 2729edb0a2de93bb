"""Documents cut into windows that a model takes, at the ends of sentences where possible."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from jaxtyping import Int
from numpy.typing import NDArray

from headscope.contracts import AttentionSource
from headscope.data.counts import ExampleCounts
from headscope.data.example import Example

__all__ = ["cut_windows"]

UNLIMITED = 10**9  # tokens

SPLIT = "sentences split to fit"
PARTED = "mentions not scored because every antecedent is in another window"
UNREAD = "mentions after the end of the truncated document"
SINGLE = "singletons"


def cut_windows(
    documents: Sequence[Example],
    source: AttentionSource,
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
