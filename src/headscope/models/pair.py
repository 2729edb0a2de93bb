"""Two models that read the same text at once: the layers of one, then those of the other.

Over tokens where both have the same, else over words.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from headscope.contracts import Source, Watch
from headscope.data.attention import LayerAttention
from headscope.data.encoding import Batch, Encoding, TokenKind
from headscope.data.example import Example
from headscope.data.words import split_words, word_weights
from headscope.errors import ModelError
from headscope.models.loaded import LoadedModel

__all__ = ["ModelPair", "WordPair", "WordPairEncoding", "pair_models"]

FIRST, SECOND = "first.", "second."  # before the names of each model's inputs


@dataclass(frozen=True)
class ModelPair(Source[LayerAttention]):
    """Two models with one tokenizer as one source of attention."""

    emits: ClassVar[Watch] = Watch.MODEL_PAIR
    first: LoadedModel
    second: LoadedModel

    def __post_init__(self) -> None:
        first, second = (model.encoder.tokenizer.get_vocab() for model in (self.first, self.second))
        if first != second and type(self) is ModelPair:  # else words are compared
            n_shared = len(first.items() & second.items())
            raise ModelError(
                f"{self.first.name} and {self.second.name} have different tokenizers "
                f"({len(first)} and {len(second)} tokens, {n_shared} of them the same), so their "
                "attention is over different tokens. Expected two models with one vocabulary; "
                "compare words instead (`pair_models`)."
            )

    @property
    def name(self) -> str:
        return f"{self.first.name} and {self.second.name}"

    @property
    def n_layers(self) -> int:
        return self.first.n_layers + self.second.n_layers

    @property
    def n_heads(self) -> int:
        """The most heads that a layer of either has."""
        return max(self.first.n_heads, self.second.n_heads)

    @property
    def max_tokens(self) -> int:
        return min(self.first.max_tokens, self.second.max_tokens)

    def encode(self, examples: Sequence[Example], max_tokens: int) -> list[Encoding]:
        """The examples in tokens, with the inputs of both models."""
        both = (model.encode(examples, max_tokens) for model in (self.first, self.second))
        return [_join(first, second) for first, second in zip(*both, strict=True)]

    def batch(self, encodings: Sequence[Encoding]) -> Batch:
        """Encodings of equal length, where the models are."""
        return Batch(tuple(encodings), self.first.device)

    def attend(self, batch: Batch, observe: Callable[[LayerAttention], None]) -> None:
        """Run both and show their layers, numbered on from one model to the other."""
        # Rows of both are compared, so both have the key that a learned sink is.
        n_before, has_sink = 0, self.first.has_sink or self.second.has_sink

        def show(attention: LayerAttention) -> None:
            layer = n_before + attention.layer
            shown = replace(attention, layer=layer, batch=batch, n_layers=self.n_layers)
            observe(replace(shown, has_sink=has_sink))

        self.first.attend(_part(self.first, batch, FIRST), show)
        n_before = self.first.n_layers
        self.second.attend(_part(self.second, batch, SECOND), show)

    def describe(self) -> dict[str, object]:
        """What the manifest says of both."""
        first, second = self.first.describe(), self.second.describe()
        both = {key: f"{first[key]}+{second[key]}" for key in ("digest", "tokenizer")}
        return {"name": self.name, **both, "first": first, "second": second}


def _join(first: Encoding, second: Encoding) -> Encoding:
    if first.surfaces != second.surfaces:
        raise ModelError(
            f"The two models cut example {first.example.id!r} into different tokens ({len(first)} "
            f"and {len(second)}). Expected models whose tokenizers agree; choose another pair."
        )
    inputs = {FIRST + name: values for name, values in first.inputs.items()}
    inputs |= {SECOND + name: values for name, values in second.inputs.items()}
    return replace(first, inputs=inputs)


def _part(model: LoadedModel, batch: Batch, prefix: str) -> Batch:
    """The batch with the inputs of one model alone."""
    parts = []
    for encoding in batch.encodings:
        chosen = {n: values for n, values in encoding.inputs.items() if n.startswith(prefix)}
        inputs = {name.removeprefix(prefix): values for name, values in chosen.items()}
        parts.append(replace(encoding, inputs=inputs))
    return model.batch(parts)


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

    def encode(self, examples: Sequence[Example], max_tokens: int) -> list[Encoding]:
        """The words of each example that both models see whole."""
        split = [split_words(example) for example in examples]
        both = (model.encode(split, max_tokens) for model in (self.first, self.second))
        return [_join_words(first, second) for first, second in zip(*both, strict=True)]

    def attend(self, batch: Batch, observe: Callable[[LayerAttention], None]) -> None:
        """Run both, in batches of equal length each, and show their layers one after the other."""
        n_before = 0
        for number, model in enumerate((self.first, self.second)):
            for layer, weights in enumerate(_attend_words(model, batch, number)):
                shown = LayerAttention.full(n_before + layer, weights, batch)
                observe(replace(shown, has_sink=True, n_layers=self.n_layers))
            n_before += model.n_layers

    def describe(self) -> dict[str, object]:
        """What the manifest says of both."""
        return {**super().describe(), "compared": "words"}


def pair_models(first: LoadedModel, second: LoadedModel) -> ModelPair:
    """Both as one source: over tokens where they have the same, else over words."""
    same = first.encoder.tokenizer.get_vocab() == second.encoder.tokenizer.get_vocab()
    return ModelPair(first, second) if same else WordPair(first, second)


def _join_words(first: Encoding, second: Encoding) -> WordPairEncoding:
    """The words that both have whole: of a text that was cut, not the last."""
    words, parts = first.example.words or (), (first, second)
    kept = set(range(len(words)))
    for part in parts:
        whole = set(part.word_ids.tolist()) - {-1}
        kept &= whole - {max(whole, default=-1)} if part.is_truncated else whole
    numbers = np.full(len(words) + 1, -1)  # the last is for tokens of no word
    numbers[sorted(kept)] = np.arange(len(kept))
    surfaces = tuple(words[word] for word in sorted(kept))
    example = Example(first.example.id, words=surfaces, document=first.example.document)
    return WordPairEncoding(
        example=example,
        inputs={},
        surfaces=surfaces,
        kinds=np.full(len(kept), TokenKind.TEXT, dtype=np.int64),
        word_ids=np.arange(len(kept)),
        is_truncated=first.is_truncated or second.is_truncated,
        n_shared=first.n_shared + second.n_shared,
        tokenization=first.tokenization,
        parts=tuple(replace(p, example=example, word_ids=numbers[p.word_ids]) for p in parts),
    )


def _attend_words(model: LoadedModel, batch: Batch, number: int) -> list[Tensor]:
    parts = [e.parts[number] for e in batch.encodings if isinstance(e, WordPairEncoding)]
    order = sorted(range(len(parts)), key=lambda i: len(parts[i]))
    maps: list[list[Tensor]] = [[] for _ in range(model.n_layers)]

    def keep(attention: LayerAttention) -> None:
        maps[attention.layer].append(word_weights(attention))

    for _, group in groupby(order, key=lambda i: len(parts[i])):
        model.attend(model.batch([parts[i] for i in group]), keep)
    back = torch.argsort(torch.tensor(order))
    return [torch.cat(layer)[back] for layer in maps]
