"""Words in running text and in tokens, and attention between them.

Attention to a word is the sum over its pieces, attention from it their mean.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any
from unicodedata import category

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray

from headscope.data.attention import LayerAttention
from headscope.data.encoding import Batch, Encoding, TokenKind
from headscope.data.example import Example
from headscope.data.reading import Pooled, PooledReading, Pooling
from headscope.lazy import Tensor, torch
from headscope.options import QUERY_PIECES, QUERY_PIECES_HELP, option, require

__all__ = [
    "Span", "WordReading", "align", "check_query_pieces", "count_words", "first_word_option",
    "lay_out", "make_pooling", "query_pieces_option", "query_units", "special_weights",
    "split_words", "visible_words", "word_means", "word_spans", "word_weights", "words_with_tokens",
]  # fmt: skip

NO_UNIT = -1

Ids = Int[np.ndarray, "example token"]
Shares = Float[np.ndarray, "example token"]


@dataclass(frozen=True)
class WordReading(PooledReading):
    """Attention among words, and after them special tokens: each of these is a unit of its own.

    Sums over the pieces attended to; means over the pieces that attend, or with `first` the first
    piece of a word attends for it.
    """

    query_pieces: str = QUERY_PIECES[0]

    def pool(self, layer: LayerAttention) -> Pooling:
        batch: Batch = layer.batch
        n_words = count_words(batch)
        n_special = max(int((e.kinds != TokenKind.TEXT).sum()) for e in batch.encodings)
        units = np.stack([_number_units(e, n_words) for e in batch.encodings])  # [example, token]
        rows, shares = query_units(units, self.query_pieces)
        n = n_words + n_special
        return make_pooling(batch, rows, shares, units, n, n)


def make_pooling(
    batch: Batch, rows: Ids, shares: Shares, keys: Ids | Tensor, n_units: int, n_others: int
) -> Pooling:
    """A pooling, where the batch is."""
    units, own_shares, others = (
        torch.as_tensor(part).to(batch.device) for part in (rows, shares, keys)
    )
    return Pooling(units, own_shares, others, n_units, n_others)


def query_units(units: Ids, query_pieces: str) -> tuple[Ids, Shares]:
    """The unit that each query attends for, and its share of that unit's row."""
    apart = units + (units.max(initial=0) + 2) * np.arange(len(units))[:, None]
    _, first, inverse, counts = np.unique(
        apart, return_index=True, return_inverse=True, return_counts=True
    )
    if query_pieces == "first":
        is_first = np.zeros(units.size, bool)
        is_first[first] = True
        return np.where(is_first.reshape(units.shape), units, NO_UNIT), np.ones(units.shape)
    return units, 1 / counts[inverse].reshape(units.shape)


def word_means(batch: Batch, query_pieces: str) -> Float[Tensor, "example word token"]:
    """The share of each token in its word: rows sum to 1 for words that have tokens."""
    words = np.stack([encoding.word_ids for encoding in batch.encodings])
    rows, shares = query_units(words, query_pieces)
    is_piece = rows[:, None] == np.arange(count_words(batch))[:, None]  # [example, word, token]
    return torch.from_numpy(is_piece * shares[:, None]).float().to(batch.device)


def _number_units(encoding: Encoding, n_words: int) -> Int[np.ndarray, " token"]:
    """The word of each token; special tokens are counted on after the words."""
    is_special = encoding.kinds != TokenKind.TEXT
    units = np.where(is_special, NO_UNIT, encoding.word_ids)
    units[is_special] = n_words + np.arange(is_special.sum())
    return units


def count_words(batch: Batch) -> int:
    """The most words that an example has."""
    return max(len(encoding.example.words or ()) for encoding in batch.encodings)


def query_pieces_option() -> Any:
    """The option of every analysis that reads attention between words."""
    return option(QUERY_PIECES[0], QUERY_PIECES_HELP)


def first_word_option() -> Any:
    """The option of every analysis in which words compete for attention."""
    return option(
        False,
        "Ignore attention to the first word, a sink in many decoders.",
        flag="--ignore-first-word",
    )


def check_query_pieces(query_pieces: str) -> None:
    """An error for a value that the option cannot have."""
    require(query_pieces in QUERY_PIECES, "query_pieces", query_pieces, " or ".join(QUERY_PIECES))


def words_with_tokens(batch: Batch) -> Bool[np.ndarray, "example word"]:
    """Which words have tokens, known without asking the device; padding has none."""
    has_tokens = np.zeros((len(batch), count_words(batch)), bool)
    for i, encoding in enumerate(batch.encodings):
        has_tokens[i, encoding.word_ids[encoding.word_ids >= 0]] = True
    return has_tokens


def word_weights(
    attention: LayerAttention, query_pieces: str = "mean"
) -> Float[Tensor, "example head word other"]:
    """Attention from word to word; a row sums to the attention that stays on words.

    Attention to special tokens is left out. Words without tokens, and padding, have zeros.
    """
    pooled: Pooled = attention.read(WordReading(query_pieces))
    n_words = count_words(attention.batch)
    return pooled.weights[:, :, :n_words, :n_words]


def special_weights(
    attention: LayerAttention, query_pieces: str = "mean"
) -> tuple[Float[Tensor, "example head word special"], Float[Tensor, "example head special word"]]:
    """Attention from words to special tokens, in their order, and from those to words."""
    pooled: Pooled = attention.read(WordReading(query_pieces))
    n_words = count_words(attention.batch)
    return pooled.weights[:, :, :n_words, n_words:], pooled.weights[:, :, n_words:, :n_words]


def visible_words(
    attention: LayerAttention, query_pieces: str = "mean"
) -> Bool[Tensor, "example word other"]:
    """Which words each word may look at: some piece of it may look at some piece of the other."""
    visible = attention.visible  # kept beside what follows from it, so that its id stays its own
    key = ("visible words", query_pieces, id(visible))
    build = lambda: (_find_visible(attention, query_pieces), visible)  # noqa: E731
    return attention.batch.remember(key, build)[0]


def _find_visible(attention: LayerAttention, query_pieces: str) -> Tensor:
    batch, (back, ahead) = attention.batch, attention.reach
    position = torch.arange(batch.n_tokens, device=batch.device)
    distance = position - position[:, None]  # [query, key]
    pairs = ((-back <= distance) & (distance <= ahead)).float().expand(len(batch), 1, -1, -1)
    pooled: Pooled = replace(attention, weights=pairs, readings={}).read(WordReading(query_pieces))
    n_words = count_words(batch)
    return pooled.weights[:, 0, :n_words, :n_words] > 0  # [example, word, other]


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
