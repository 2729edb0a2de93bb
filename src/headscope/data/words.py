"""Attention between words: sums over the pieces attended to, means over the pieces that attend."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from headscope.data.attention import LayerAttention
from headscope.data.encoding import Batch, Encoding, TokenKind
from headscope.data.reading import Pooled, PooledReading, Pooling
from headscope.lazy import Tensor, torch
from headscope.options import QUERY_PIECES, QUERY_PIECES_HELP, option, require

__all__ = [
    "WordReading", "check_query_pieces", "count_words", "first_word_option", "make_pooling",
    "query_pieces_option", "query_units", "special_weights", "visible_words", "word_means",
    "word_weights", "words_with_tokens",
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
