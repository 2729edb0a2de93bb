"""Attention between words: sums over the pieces attended to, means over the pieces that attend."""

from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headscope.data.attention import LayerAttention
from headscope.data.encoding import Batch
from headscope.options import QUERY_PIECES, QUERY_PIECES_HELP, option, require

__all__ = [
    "WordPooling", "check_query_pieces", "first_word_option", "pool_words", "query_pieces_option",
    "visible_words", "word_weights", "words_with_tokens",
]  # fmt: skip


class WordPooling(NamedTuple):
    """How the tokens of a batch make words; examples with fewer words than the most are padded."""

    keys: Float[Tensor, "example token word"]  # 1 where a token is a piece of a word
    queries: Float[Tensor, "example word token"]  # rows sum to 1 for words that have tokens
    has_tokens: Bool[Tensor, "example word"]


def query_pieces_option() -> Any:
    """The option of every analysis that reads attention between words."""
    return option(QUERY_PIECES[0], QUERY_PIECES_HELP)


def first_word_option() -> Any:
    """The option of every analysis in which words compete for attention."""
    return option(
        False,
        "Words: ignore attention to the first one, a sink in many decoders.",
        flag="--ignore-first-word",
    )


def check_query_pieces(query_pieces: str) -> None:
    """An error for a value that the option cannot have."""
    require(query_pieces in QUERY_PIECES, "query_pieces", query_pieces, " or ".join(QUERY_PIECES))


def pool_words(batch: Batch, query_pieces: str = "mean") -> WordPooling:
    """The pooling of a batch, built once. `first` lets a word's first piece attend for it."""
    return batch.remember(("words", query_pieces), lambda: _build_pooling(batch, query_pieces))


def words_with_tokens(batch: Batch) -> Bool[np.ndarray, "example word"]:
    """Which words have tokens, known without asking the device; padding has none."""
    n_words = max(len(encoding.example.words or ()) for encoding in batch.encodings)
    has_tokens = np.zeros((len(batch), n_words), bool)
    for i, encoding in enumerate(batch.encodings):
        has_tokens[i, encoding.word_ids[encoding.word_ids >= 0]] = True
    return has_tokens


def word_weights(
    attention: LayerAttention, query_pieces: str = "mean"
) -> Float[Tensor, "example head word other"]:
    """Attention from word to word; a row sums to the attention that stays on words.

    Attention to special tokens is left out. Words without tokens, and padding, have zeros.
    """
    key = ("words", query_pieces)
    return attention.remember(key, lambda: _build_weights(attention, query_pieces))


def visible_words(
    attention: LayerAttention, query_pieces: str = "mean"
) -> Bool[Tensor, "example word other"]:
    """Which words each word may look at: some piece of it may look at some piece of the other."""
    key = ("visible words", query_pieces)
    return attention.remember(key, lambda: _find_visible(attention, query_pieces))


def _find_visible(attention: LayerAttention, query_pieces: str) -> Tensor:
    batch, (back, ahead) = attention.batch, attention.reach
    pooling = pool_words(batch, query_pieces)
    place = torch.arange(batch.n_tokens, device=batch.device)
    distance = place - place[:, None]  # [query, key]
    pairs = ((-back <= distance) & (distance <= ahead)).to(pooling.keys.dtype)
    return (pooling.queries @ pairs @ pooling.keys) > 0  # [example, word, other]


def _build_weights(attention: LayerAttention, query_pieces: str) -> Tensor:
    pooling = pool_words(attention.batch, query_pieces)
    weights = attention.weights
    keys, queries = pooling.keys.to(weights.dtype), pooling.queries.to(weights.dtype)
    n_examples, n_heads, n_tokens, _ = weights.shape
    to_words = weights.reshape(n_examples, n_heads * n_tokens, n_tokens) @ keys
    to_words = to_words.reshape(n_examples, n_heads, n_tokens, -1)  # [example, head, query, word]
    return torch.einsum("ewq,ehqv->ehwv", queries, to_words)


def _build_pooling(batch: Batch, query_pieces: str) -> WordPooling:
    word_ids = np.stack([encoding.word_ids for encoding in batch.encodings])  # [example, token]
    n_words = max(len(encoding.example.words or ()) for encoding in batch.encodings)
    keys = word_ids[:, :, None] == np.arange(n_words)  # [example, token, word]
    queries = keys.transpose(0, 2, 1)  # [example, word, token]
    if query_pieces == "first":
        queries = queries & (queries.cumsum(-1) == 1)
    n_pieces = queries.sum(-1, keepdims=True)  # [example, word, 1]
    return WordPooling(
        keys=torch.from_numpy(keys).double().to(batch.device),
        queries=torch.from_numpy(queries / np.maximum(n_pieces, 1)).to(batch.device),
        has_tokens=torch.from_numpy(n_pieces[..., 0] > 0).to(batch.device),
    )
