"""Made-up examples, encodings and attention for tests: small, seeded, and free of any model."""

from collections.abc import Sequence

from headscope.data.attention import LayerAttention
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
    "make_example",
    "make_pair",
    "random_attention",
    "random_maps",
    "random_mentions",
    "random_tree",
    "split_evenly",
]


def random_attention(examples: Sequence[Example], layer: int = 0) -> LayerAttention:
    """One layer of random attention over examples of equal length."""
    source = MadeSource()
    batch = source.batch(source.encode(examples, 512))
    seen: list[LayerAttention] = []
    source.attend(batch, seen.append)
    return seen[layer]
