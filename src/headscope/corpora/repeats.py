"""Made-up input: random tokens, and the same tokens once more. No text, no tokenizer.

A corpus knows no vocabulary, so a word is a number from 0 to 1, for which the encoder of a model
takes a token of its own vocabulary. In such a sequence only what stood in the first copy can tell
the second one, so heads that do so are seen without the help of any language.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256

import numpy as np

from headscope.contracts import Annotation
from headscope.corpora.collection import BaseCorpus
from headscope.data.example import Example
from headscope.options import require

__all__ = ["N_SEQUENCES", "N_TOKENS", "Repeats"]

N_TOKENS, N_SEQUENCES = 50, 32


@dataclass(frozen=True)
class Repeats(BaseCorpus):
    """Sequences `X X` of random tokens; each is a document of its own.

    >>> [len(example.words) for example in Repeats(n_tokens=5, n_sequences=2)]
    [10, 10]
    """

    n_tokens: int = N_TOKENS  # of X
    n_sequences: int = N_SEQUENCES
    seed: int = 0
    name: str = "repeats"
    provides = frozenset({Annotation.REPEATS})

    def __post_init__(self) -> None:
        require(self.n_tokens > 1, "repeat_tokens", self.n_tokens, "2 or more")
        require(self.n_sequences > 0, "repeat_sequences", self.n_sequences, "1 or more")

    def __iter__(self) -> Iterator[Example]:
        rng = np.random.default_rng(self.seed)
        for number in range(1, self.n_sequences + 1):
            words = tuple(f"{draw:.9f}" for draw in rng.random(self.n_tokens) * (1 - 1e-9))
            name = f"{self.name}:{number}"
            yield Example(name, words=words * 2, document=name, is_drawn=True)

    def digest(self) -> str:
        return sha256(repr(self).encode()).hexdigest()
