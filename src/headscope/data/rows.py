"""Some query rows of every layer of a batch: what an analysis that compares layers measures."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from headscope.data.encoding import Batch

__all__ = ["AttentionRows", "choose_rows"]

OWN_STREAM = 2**63  # apart from the bootstrap's draws, whose seeds are below


@dataclass(frozen=True, eq=False)
class AttentionRows:
    """The same query rows of all heads; `weights[example, row, head, key]` sums to 1 over keys.

    Heads stand layer by layer, the first layer's first; `n_heads[layer]` says how many it has.
    """

    weights: Float[Tensor, "example row head key"]
    n_heads: tuple[int, ...]
    batch: Batch


def choose_rows(batch: Batch, n_rows: int, seed: int) -> Int[Tensor, "example row"]:
    """At most `n_rows` queries of each example in order, drawn by the seed and the example's id."""
    n_tokens = batch.n_tokens
    if n_tokens <= n_rows:
        return torch.arange(n_tokens, device=batch.device).expand(len(batch), -1)
    chosen = np.empty((len(batch), n_rows), dtype=np.int64)
    for i, encoding in enumerate(batch.encodings):
        bits = np.random.Philox(key=[seed + OWN_STREAM, encoding.example.key])
        drawn = np.random.Generator(bits).choice(n_tokens, n_rows, replace=False)
        chosen[i] = np.sort(drawn)
    return torch.from_numpy(chosen).to(batch.device)
