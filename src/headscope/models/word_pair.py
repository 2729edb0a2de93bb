"""Two models with different tokenizers that read the same text, seen word by word."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
import torch
from torch import Tensor

from headscope.data.attention import LayerAttention
from headscope.data.encoding import Batch, Encoding, TokenKind
from headscope.data.example import Example
from headscope.data.running_text import word_spans
from headscope.data.words import word_weights
from headscope.models.loaded import LoadedModel
from headscope.models.pair import ModelPair

__all__ = ["WordPair", "WordPairEncoding", "pair_models", "split_words"]


@dataclass(frozen=True, eq=False)
class WordPairEncoding(Encoding):
    """The words that both models have tokens of, and the encodings of the two."""

    parts: tuple[Encoding, ...] = ()


@dataclass(frozen=True)
class WordPair(ModelPair):
    """Two models as one source of attention between words, whatever their tokens.

    Weights are summed over the pieces attended to, and averaged over those that attend. A word
    counts if both models have all of it. What goes to special tokens, and to words that do not
    count, is one more key, the last.
    """

    def _refuse_other_tokens(self) -> None:
        """None are refused: words are compared."""

    def encode(self, examples: Sequence[Example], max_tokens: int) -> list[Encoding]:
        """The words of each example that both models see whole."""
        split = [split_words(example) for example in examples]
        both = (model.encode(split, max_tokens) for model in (self.first, self.second))
        return [_join(one, other) for one, other in zip(*both, strict=True)]

    def attend(self, batch: Batch, observe: Callable[[LayerAttention], None]) -> None:
        """Run both, in batches of equal length each, and show their layers one after the other."""
        n_before = 0
        for place, model in enumerate((self.first, self.second)):
            for layer, weights in enumerate(_attend_words(model, batch, place)):
                shown = LayerAttention.full(n_before + layer, weights, batch)
                observe(replace(shown, has_sink=True))
            n_before += model.n_layers

    def describe(self) -> dict[str, object]:
        """What the manifest says of both."""
        return {**super().describe(), "compared": "words"}


def pair_models(first: LoadedModel, second: LoadedModel) -> ModelPair:
    """Both as one source: over tokens where they have the same, else over words."""
    one, other = (model.encoder.tokenizer.get_vocab() for model in (first, second))
    return ModelPair(first, second) if one == other else WordPair(first, second)


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


def _join(one: Encoding, other: Encoding) -> WordPairEncoding:
    """The words that both have whole: of a text that was cut, not the last."""
    words = one.example.words or ()
    whole = [_whole_words(part) for part in (one, other)]
    kept = sorted(whole[0] & whole[1])
    places = np.full(len(words) + 1, -1)  # the last is for tokens of no word
    places[kept] = np.arange(len(kept))
    surfaces = tuple(words[word] for word in kept)
    example = Example(one.example.id, words=surfaces, document=one.example.document)
    return WordPairEncoding(
        example=example,
        inputs={},
        surfaces=surfaces,
        kinds=np.full(len(kept), TokenKind.TEXT, dtype=np.int64),
        word_ids=np.arange(len(kept)),
        is_truncated=one.is_truncated or other.is_truncated,
        n_shared=one.n_shared + other.n_shared,
        tokenization=one.tokenization,
        parts=tuple(replace(p, example=example, word_ids=places[p.word_ids]) for p in (one, other)),
    )


def _whole_words(encoding: Encoding) -> set[int]:
    found = set(encoding.word_ids.tolist()) - {-1}
    return found - {max(found, default=-1)} if encoding.is_truncated else found


def _attend_words(model: LoadedModel, batch: Batch, place: int) -> list[Tensor]:
    """The word maps of every layer, `[example, head, word, other]`."""
    parts = [e.parts[place] for e in batch.encodings if isinstance(e, WordPairEncoding)]
    order = sorted(range(len(parts)), key=lambda i: len(parts[i]))
    maps: list[list[Tensor]] = [[] for _ in range(model.n_layers)]

    def keep(attention: LayerAttention) -> None:
        maps[attention.layer].append(word_weights(attention))

    for _, group in groupby(order, key=lambda i: len(parts[i])):
        model.attend(model.batch([parts[i] for i in group]), keep)
    back = torch.argsort(torch.tensor(order))
    return [torch.cat(layer)[back] for layer in maps]
