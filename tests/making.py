"""Made-up examples, encodings and attention for tests: small, seeded, and free of any model."""

from collections.abc import Sequence

import torch

from headscope.data.attention import LayerAttention
from headscope.data.encoding import Encoding
from headscope.data.example import Example
from headscope.testing.made import (
    N_HEADS,
    N_LAYERS,
    RELATIONS,
    VOCABULARY,
    MadeSource,
    encode_pair,
    encode_words,
    make_example,
    make_pair,
    random_maps,
    random_mentions,
    random_tree,
    split_evenly,
)

__all__ = [
    "N_HEADS",
    "N_LAYERS",
    "RELATIONS",
    "VOCABULARY",
    "MadeSource",
    "encode_pair",
    "encode_words",
    "first_or_even",
    "make_example",
    "make_pair",
    "random_attention",
    "random_maps",
    "random_mentions",
    "random_tree",
    "split_evenly",
]


def first_or_even(encoding: Encoding) -> torch.Tensor:
    """Layer 1 looks at the first token, layer 2 at all tokens alike; both heads."""
    n = len(encoding)
    first = torch.zeros(n, n, dtype=torch.float64)
    first[:, 0] = 1
    even = torch.full((n, n), 1 / n, dtype=torch.float64)
    return torch.stack([first, even])[:, None].repeat(1, 2, 1, 1)


def random_attention(examples: Sequence[Example], layer: int = 0) -> LayerAttention:
    """One layer of random attention over examples of equal length."""
    source = MadeSource()
    batch = source.batch(source.encode(examples, 512))
    seen: list[LayerAttention] = []
    source.attend(batch, seen.append)
    return seen[layer]
