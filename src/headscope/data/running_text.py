"""Words as they stand in running text: where each begins and ends, and which tokens are its."""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from unicodedata import category

import numpy as np
from jaxtyping import Int
from numpy.typing import NDArray

from headscope.data.example import Example

__all__ = ["Span", "align", "lay_out", "split_words", "word_spans"]

Span = tuple[int, int]  # the first character, and the one after the last
Ints = NDArray[np.int64]

HAN = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # each is a word, as nothing stands between
CHUNK = re.compile(f"[{HAN}]|[^\\s{HAN}]+")


def word_spans(text: str) -> Iterator[Span]:
    """The words of a text, and each sign of the punctuation around them.

    >>> text = "(Don't go!)"
    >>> [text[start:end] for start, end in word_spans(text)]
    ['(', "Don't", 'go', '!', ')']
    """
    for chunk in CHUNK.finditer(text):
        start, end = chunk.span()
        if chunk[0].isalnum():  # most are: no punctuation to look for
            yield start, end
            continue
        while start < end and _is_punctuation(text[start]):
            yield start, start + 1
            start += 1
        while end > start and _is_punctuation(text[end - 1]):
            end -= 1
        if start < end:
            yield start, end
        yield from ((place, place + 1) for place in range(end, chunk.end()))


def split_words(example: Example) -> Example:
    """The example as words; a second text follows the first.

    >>> split_words(Example("a", text="So, no.")).words
    ('So', ',', 'no', '.')
    """
    if example.words is not None:
        return example
    text = " ".join(filter(None, (example.text, example.text_pair)))
    spans = list(word_spans(text))
    ends = [0, *(end for _, end in spans)]
    return Example(
        example.id,
        words=tuple(text[start:end] for start, end in spans),
        spaces=tuple(start > end for (start, _), end in zip(spans, ends, strict=False)),
        document=example.document,
    )


def lay_out(example: Example) -> tuple[str, list[Span]]:
    """The running text of an example's words, and where each word stands in it.

    >>> lay_out(Example("a", words=("de", "le", "lac"), surfaces=("d", "u", "lac"),
    ...                 spaces=(False, False, True)))
    ('du lac', [(0, 1), (1, 2), (3, 6)])
    """
    words = example.surfaces or example.words or ()
    spaces = example.spaces or [index > 0 for index in range(len(words))]
    text, spans = "", []
    for word, space in zip(words, spaces, strict=True):
        text += " " * space
        spans.append((len(text), len(text) + len(word)))
        text += word
    return text, spans


def align(offsets: Int[Ints, "token 2"], spans: Sequence[Span]) -> tuple[Int[Ints, " token"], int]:
    """The word of each token, -1 without words; and how many tokens cover more than one word.

    Such a token belongs to the word of which it has the most characters, of equal ones to the
    first. A token of spaces alone belongs to the word after it.

    >>> word_ids, n_shared = align(np.array([(0, 3), (3, 4), (4, 5)]), [(0, 2), (2, 5)])  # do n't
    >>> word_ids.tolist(), n_shared
    ([0, 1, 1], 1)
    """
    places = np.array([index for index, (start, end) in enumerate(spans) if end > start], np.int64)
    if not len(places):
        return np.full(len(offsets), -1), 0
    starts, ends = np.array(spans, np.int64)[places].T  # [word] each
    first = np.searchsorted(ends, offsets[:, 0], side="right")  # [token]
    last = np.searchsorted(starts, offsets[:, 1], side="left") - 1
    chosen = first.clip(max=len(places) - 1)
    shared = np.flatnonzero(last > first)
    for token in shared:
        covered = slice(first[token], last[token] + 1)
        begin, end = offsets[token]
        size = np.minimum(ends[covered], end) - np.maximum(starts[covered], begin)
        chosen[token] += size.argmax()
    return places[chosen], len(shared)


@cache
def _is_punctuation(character: str) -> bool:
    return category(character).startswith("P")
