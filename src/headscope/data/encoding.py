"""Examples as a model sees them: one Encoding each, gathered in a Batch of equal token count."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Bool, Int
from numpy.typing import NDArray

from headscope.data.example import Example
from headscope.lazy import Tensor, torch

__all__ = ["Batch", "Encoding", "TokenKind"]

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Memory:
    """Keeps what several layers or analyses need."""

    _memory: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)

    def remember(self, key: Hashable, build: Callable[[], T]) -> T:
        """What `build` gives, built the first time it is asked for."""
        if key not in self._memory:
            self._memory[key] = build()
        value: T = self._memory[key]
        return value


class TokenKind(IntEnum):
    """What a token is to the model: text, or a special token that opens or closes the input."""

    TEXT = 0
    CLS = 1
    SEP = 2


@dataclass(frozen=True, eq=False)
class Encoding:
    """One example in tokens. All arrays have one entry per token."""

    example: Example
    inputs: Mapping[str, NDArray[np.int64]]  # what the model is called with, by argument name
    surfaces: tuple[str, ...]  # each token as text, without the tokenizer's marks
    kinds: NDArray[np.int64]  # TokenKind of each token
    word_ids: NDArray[np.int64]  # index of the word a token is a piece of, -1 where it has none
    is_truncated: bool = False
    target: Encoding | None = None  # what the decoder of an encoder-decoder reads
    n_shared: int = 0  # tokens that cover more than one word
    tokenization: Mapping[str, int] = field(default_factory=dict)  # as ExampleCounts keeps it
    n_characters: int = 0  # of its text
    n_unread: int = 0  # of these, after the cut

    def __len__(self) -> int:
        return len(self.surfaces)


@dataclass(frozen=True, eq=False)
class Batch(Memory):
    """Encodings of the same token count, so that no analysis ever meets padding."""

    encodings: tuple[Encoding, ...]
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    def __post_init__(self) -> None:
        lengths = {len(encoding) for encoding in self.encodings}
        if len(lengths) != 1:
            raise ValueError(f"A batch must hold encodings of one length; got {sorted(lengths)}.")

    @cached_property
    def target(self) -> Batch:
        """What the decoder reads."""
        return Batch(tuple(e.target for e in self.encodings if e.target), self.device)

    def __len__(self) -> int:
        return len(self.encodings)

    @property
    def n_tokens(self) -> int:
        """How many tokens each example has."""
        return len(self.encodings[0])

    @cached_property
    def inputs(self) -> dict[str, Int[Tensor, "example token"]]:
        """What the model is called with."""
        names = self.encodings[0].inputs
        return {name: self._stack([e.inputs[name] for e in self.encodings]) for name in names}

    @cached_property
    def kinds(self) -> Int[Tensor, "example token"]:
        """The TokenKind of every token."""
        return self._stack([encoding.kinds for encoding in self.encodings])

    @cached_property
    def word_ids(self) -> Int[Tensor, "example token"]:
        """The index of the word that each token is a piece of, -1 where it has none."""
        return self._stack([encoding.word_ids for encoding in self.encodings])

    def find_surfaces(self, surfaces: frozenset[str]) -> Bool[Tensor, "example token"]:
        """Mark the text tokens with one of these surfaces."""

        def build() -> Tensor:
            is_member = [[surface in surfaces for surface in e.surfaces] for e in self.encodings]
            return torch.tensor(is_member, device=self.device) & (self.kinds == TokenKind.TEXT)

        return self.remember(("surfaces", surfaces), build)

    def _stack(self, rows: list[NDArray[np.int64]]) -> Int[Tensor, "example token"]:
        return torch.from_numpy(np.stack(rows)).to(self.device)
