"""Word vectors: read from text (GloVe, word2vec) for the words of a treebank, used in probes."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from headscope.errors import InputError

__all__ = ["UNKNOWN", "WordEmbedding", "WordVectors", "read_vectors"]

UNKNOWN = 0  # the row of all words without a vector; what stands there is learned
DIGIT_MARKS = ("0", "#")  # what files that fold digits write for each
NUMBER = re.compile(r"[-+\d]|\.\d")
UNKNOWN_TYPE, N_LEARNED = 0, 2  # of the first types, which are learned: unknown words, and ROOT
SPREAD = 0.1  # standard deviation of learned vectors before training


def spellings(word: str) -> list[str]:
    """How a word may stand in a file, the nearest first: as it is, in lower case, digits folded.

    >>> spellings("Rev2")
    ['Rev2', 'rev2', 'rev0', 'rev#']
    """
    folded = [re.sub(r"\d", mark, word.lower()) for mark in DIGIT_MARKS]
    return list(dict.fromkeys([word, word.lower(), *folded]))


@dataclass(frozen=True, eq=False)
class WordVectors:
    """Frozen vectors; row 0 is left for unknown words."""

    table: Float[NDArray[np.float32], "row dimension"]
    rows: dict[str, int]  # by spelling
    _row_of: dict[str, int] = field(default_factory=dict, init=False, repr=False)

    @property
    def dimension(self) -> int:
        return int(self.table.shape[1])

    def row_of(self, word: str) -> int:
        """The row of a word's vector, UNKNOWN where it has none."""
        if word not in self._row_of:
            rows = (self.rows[spelling] for spelling in spellings(word) if spelling in self.rows)
            self._row_of[word] = next(rows, UNKNOWN)
        return self._row_of[word]

    def coverage(self, words: Sequence[str]) -> float:
        """The share of words (counted as often as they occur) that have a vector."""
        n_known = sum(self.row_of(word) != UNKNOWN for word in words)
        return n_known / len(words) if words else float("nan")


class WordEmbedding(nn.Module):
    """Rows of the frozen table; for each seed one learned vector for unknown words and one for
    ROOT."""

    table: Tensor

    def __init__(self, vectors: WordVectors, seeds: Sequence[int]) -> None:
        super().__init__()
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        drawn = [torch.randn(2, vectors.dimension, generator=each) for each in generators]
        learned = SPREAD * torch.stack(drawn)  # [seed, unknown or ROOT, dimension]
        self.register_buffer("table", torch.from_numpy(vectors.table), persistent=False)
        self.unknown = nn.Parameter(learned[:, 0].clone())
        self.root = nn.Parameter(learned[:, 1].clone())

    def find_types(
        self, rows: Int[Tensor, "sentence word"]
    ) -> tuple[Int[Tensor, " type"], Int[Tensor, "sentence word"]]:
        """The rows of the word types in a batch, and where each word stands among what `project`
        gives."""
        types, places = torch.unique(rows, return_inverse=True)
        return types, torch.where(rows == UNKNOWN, UNKNOWN_TYPE, places + N_LEARNED)

    def project(
        self,
        types: Int[Tensor, " type"],
        weights: Float[Tensor, "seed dimension out"],
        seeds: slice,
    ) -> Float[Tensor, "seed place out"]:
        """The weights on the vectors of unknown words, of ROOT, and then of each type: of each
        once, however often it stands in a batch."""
        learned = torch.stack([self.unknown[seeds], self.root[seeds]], dim=1)
        return torch.cat([learned @ weights, self.table[types] @ weights], dim=1)


def read_vectors(path: Path, lines: Iterable[tuple[int, str]], words: Iterable[str]) -> WordVectors:
    """The vectors of these words; the file is given by its numbered lines, and read through."""
    wanted = {spelling for word in words for spelling in spellings(word)}
    rows: dict[str, int] = {}
    kept: list[NDArray[np.float32]] = []
    dimension = 0
    for number, word, values in _read_rows(path, lines):
        dimension = dimension or len(values)
        if len(values) != dimension:
            wrong = f"the vector of {word!r} has {len(values)} numbers"
            raise _bad_line(path, number, wrong, f"{dimension}, as in the lines before")
        if word in wanted and word not in rows:
            rows[word] = len(kept) + 1
            kept.append(_read_numbers(path, number, word, values))
    if not kept:
        raise InputError(
            f"{path} has no vector for any word of the treebanks. Expected GloVe or word2vec text: "
            "a word and its numbers on each line, separated by spaces; check the file."
        )
    return WordVectors(np.stack([np.zeros(dimension, np.float32), *kept]), rows)


def _read_rows(
    path: Path, lines: Iterable[tuple[int, str]]
) -> Iterator[tuple[int, str, list[str]]]:
    """The word and the numbers of each line; the first line of word2vec (its size) is left out."""
    for number, line in lines:
        parts = line.rstrip().split(" ")
        if number == 1 and len(parts) == 2 and all(part.isdecimal() for part in parts):
            continue
        # the word is one part, or more where it holds spaces (". . .")
        n_words = next((i for i in range(1, len(parts)) if NUMBER.match(parts[i])), None)
        if n_words is None:
            expected = "a word and its numbers, separated by single spaces"
            raise _bad_line(path, number, f"{line[:40]!r} is not a word vector", expected)
        yield number, " ".join(parts[:n_words]), parts[n_words:]


def _read_numbers(path: Path, number: int, word: str, values: list[str]) -> NDArray[np.float32]:
    vector_of = f"the vector of {word!r}"
    try:
        with np.errstate(over="ignore"):  # what is too large is refused below
            vector = np.array(values, dtype=np.float32)
    except ValueError as error:
        wrong = f"{vector_of} holds something that is not a number ({error})"
        raise _bad_line(path, number, wrong, "numbers separated by single spaces") from error
    if not np.isfinite(vector).all():
        raise _bad_line(path, number, f"{vector_of} is not finite", "plain numbers")
    return vector


def _bad_line(path: Path, number: int, wrong: str, expected: str) -> InputError:
    return InputError(f"{path}:{number}: {wrong}. Expected {expected}; fix or remove the line.")
