"""Made-up examples, encodings and attention for tests: small, seeded, and free of any model."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from headscope.data.attention import LayerAttention
from headscope.data.encoding import Batch, Encoding, TokenKind
from headscope.data.example import Example
from headscope.data.mention import KINDS, Mention
from headscope.data.tree import ROOT, Tree

N_LAYERS, N_HEADS = 3, 5  # unequal primes: a swapped axis fails

RELATIONS = ["nsubj", "obj", "nsubj:pass", "punct", "poss"]
VOCABULARY = ["the", "boat", "sails", ".", ",", "home", "'s", "old"]


def make_example(seed: int, n_words: int | None = None) -> Example:
    """A sentence of known words."""
    rng = np.random.default_rng(seed)
    n_words = n_words or int(rng.integers(1, 9))
    words = tuple(rng.choice(VOCABULARY, n_words).tolist())
    return Example(
        f"made:{seed}",
        words=words,
        tree=random_tree(rng, n_words),
        mentions=random_mentions(rng, n_words),
        sentences=(0,),
    )


def random_mentions(rng: np.random.Generator, n_words: int) -> tuple[Mention, ...]:
    """Mentions anywhere, nested and crossing, of few things; what is known of them is random."""
    spans = []
    for start in range(n_words):
        if rng.random() < 0.7:
            end = int(rng.integers(start + 1, min(start + 4, n_words + 1)))
            spans.append((start, end, str(rng.integers(3)), int(rng.integers(start, end))))
    sizes = Counter(cluster for *_, cluster, _ in spans)
    return tuple(
        Mention(
            start,
            end,
            cluster,
            head,
            kind=str(rng.choice(KINDS)),
            number=[None, "singular", "plural"][rng.integers(3)],
            gender=[None, "masculine", "feminine"][rng.integers(3)],
            person=[None, "2", "3"][rng.integers(3)],
            is_singleton=sizes[cluster] == 1,
        )
        for start, end, cluster, head in spans
    )


def random_tree(rng: np.random.Generator, n_words: int) -> Tree:
    """A tree in which every word but the root hangs on one that was placed before it."""
    order = rng.permutation(n_words)
    heads = [ROOT] * n_words
    for place, word in enumerate(order[1:], start=1):
        heads[word] = int(order[rng.integers(place)])
    relations = rng.choice(RELATIONS, n_words).tolist()
    return Tree(
        tuple(heads),
        tuple(r if h != ROOT else "root" for r, h in zip(relations, heads, strict=True)),
    )


def split_evenly(word: str, place: int) -> int:
    """How many pieces a word has: every third word is split in two or three."""
    return 1 + place % 3 if place % 2 else 1


def encode_words(
    example: Example, pieces: Callable[[str, int], int] = split_evenly, n_closing: int = 1
) -> Encoding:
    """[CLS], the words in pieces, then [SEP]s."""
    words = example.words or tuple((example.text or "").split())
    ids = [i for i, word in enumerate(words) for _ in range(pieces(word, i))]
    surfaces = ["[CLS]", *(words[i] for i in ids), *["[SEP]"] * n_closing]
    kinds = [TokenKind.CLS, *[TokenKind.TEXT] * len(ids), *[TokenKind.SEP] * n_closing]
    return Encoding(
        example=example,
        inputs={"input_ids": np.arange(len(surfaces))},
        surfaces=tuple(surfaces),
        kinds=np.array(kinds, dtype=np.int64),
        word_ids=np.array([-1, *ids, *[-1] * n_closing], dtype=np.int64),
    )


def random_maps(encoding: Encoding, seed: int = 0) -> torch.Tensor:
    """Attention that depends on the example alone: [layer, head, query, key], rows sum to 1."""
    rng = np.random.default_rng([encoding.example.key, seed])
    scores = 3 * rng.standard_normal((N_LAYERS, N_HEADS, len(encoding), len(encoding)))
    return torch.from_numpy(scores).softmax(-1)


@dataclass(frozen=True)
class MadeSource:
    """A source of attention without a model: `maps` says what each example looks like inside."""

    maps: Callable[[Encoding], torch.Tensor] = random_maps
    pieces: Callable[[str, int], int] = split_evenly
    name: str = "made"
    n_layers: int = N_LAYERS
    n_heads: int = N_HEADS
    max_tokens: int = 512

    def encode(self, examples: Sequence[Example], max_tokens: int) -> list[Encoding]:
        return [encode_words(example, self.pieces) for example in examples]

    def batch(self, encodings: Sequence[Encoding]) -> Batch:
        return Batch(tuple(encodings))

    def attend(self, batch: Batch, observe: Callable[[LayerAttention], None]) -> None:
        stacked = torch.stack([self.maps(encoding) for encoding in batch.encodings], dim=1)
        for layer, weights in enumerate(stacked):  # [example, head, query, key]
            observe(LayerAttention.full(layer, weights, batch))

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "digest": "made"}


def random_attention(examples: Sequence[Example], layer: int = 0) -> LayerAttention:
    """One layer of random attention over examples of equal length."""
    source = MadeSource()
    batch = source.batch(source.encode(examples, 512))
    seen: list[LayerAttention] = []
    source.attend(batch, seen.append)
    return seen[layer]
