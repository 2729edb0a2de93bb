"""Needles in a haystack: made-up facts hidden in the user's own text, with question and answer."""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256

import numpy as np

from headscope.contracts import Annotation
from headscope.corpora.collection import BaseCorpus
from headscope.data.example import Example
from headscope.errors import InputError
from headscope.options import require

__all__ = ["ANSWER", "NEEDLE", "N_TOKENS", "N_TRIALS", "QUESTION", "Needles"]

N_TOKENS, N_TRIALS = 1000, 20
CHARACTERS = 4  # of a token of English, about
BEFORE, NEEDLE, AFTER, QUESTION, ANSWER = range(5)  # the words of an example
PLACES = ("harbour", "library", "museum", "station", "theatre", "hospital", "castle", "market")
THINGS = ("door", "safe", "gate", "cabinet", "locker", "archive", "garage", "vault")


@dataclass(frozen=True)
class Needles(BaseCorpus):
    """Trials: a fact at a random depth of consecutive text, then its beginning once more.

    The five words of an example are the text before the fact, the fact, the text after it, the
    question (the fact up to its number), and the answer (the number).
    """

    text: BaseCorpus
    n_tokens: int = N_TOKENS  # of the text, about
    n_trials: int = N_TRIALS
    seed: int = 0
    name: str = "needles"
    provides = frozenset({Annotation.NEEDLES})

    def __post_init__(self) -> None:
        require(self.n_tokens >= 50, "haystack", self.n_tokens, "50 or more")
        require(self.n_trials > 0, "trials", self.n_trials, "1 or more")

    @property
    def most_tokens(self) -> int:
        """About the longest input, with room for text of short tokens."""
        return 2 * self.n_tokens + 100

    def __iter__(self) -> Iterator[Example]:
        rng = np.random.default_rng(self.seed)
        for number, words in enumerate(self._stretches(), start=1):
            depth = int(len(words) * rng.random())
            place, thing, digits = rng.choice(PLACES), rng.choice(THINGS), rng.integers(10, size=5)
            question = f"The number of the {thing} in the {place} is"
            answer = "".join(map(str, digits))
            parts = (" ".join(words[:depth]) or "Once.", f"{question} {answer}",
                     " ".join(words[depth:]), question, answer)  # fmt: skip
            name = f"{self.name}:{number}"
            yield Example(name, words=parts, document=name)

    def _stretches(self) -> Iterator[list[str]]:
        """The words of consecutive texts, cut to the length, one stretch after the other."""
        n_made, words, length = 0, list[str](), 0
        for example in self.text:
            for word in (example.text or " ".join(example.words or ())).split():
                words.append(word)
                length += len(word) + 1
                if length >= CHARACTERS * self.n_tokens:
                    yield words
                    n_made, words, length = n_made + 1, [], 0
                    if n_made == self.n_trials:
                        return
        if not n_made:
            raise InputError(
                f"{self.text.name} is too short for a haystack of {self.n_tokens} tokens. Expected "
                "a longer text; give one, or lower --haystack."
            )

    def digest(self) -> str:
        facts = (self.text.digest(), self.n_tokens, self.n_trials, self.seed)
        return sha256(repr(facts).encode()).hexdigest()
