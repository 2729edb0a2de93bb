"""Word vectors in text form (GloVe, word2vec), as far as the words of a treebank need them."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from headscope.errors import InputError

__all__ = ["UNKNOWN", "WordVectors", "read_vectors"]

UNKNOWN = 0  # the row of all words without a vector; what stands there is learned
DIGIT_MARKS = ("0", "#")  # what files that fold digits write for each


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
    _found: dict[str, int] = field(default_factory=dict, init=False, repr=False)

    @property
    def dimension(self) -> int:
        return int(self.table.shape[1])

    def row_of(self, word: str) -> int:
        """The row of a word's vector, UNKNOWN where it has none."""
        if word not in self._found:
            known = [self.rows[s] for s in spellings(word) if s in self.rows]
            self._found[word] = known[0] if known else UNKNOWN
        return self._found[word]

    def coverage(self, words: Sequence[str]) -> float:
        """The share of words (counted as often as they stand there) that have a vector."""
        known = sum(self.row_of(word) != UNKNOWN for word in words)
        return known / len(words) if words else float("nan")


def read_vectors(path: Path, lines: Iterable[tuple[int, str]], words: Iterable[str]) -> WordVectors:
    """The vectors of these words; the file is given by its numbered lines, and read through."""
    wanted = {spelling for word in words for spelling in spellings(word)}
    rows: dict[str, int] = {}
    found: list[NDArray[np.float32]] = []
    dimension = 0
    for number, word, values in _read_rows(path, lines):
        if dimension == 0:
            dimension = len(values)
        if len(values) != dimension:
            raise InputError(
                f"{path}:{number}: the vector of {word!r} has {len(values)} numbers. Expected "
                f"{dimension}, as in the lines before; mend or remove the line."
            )
        if word in wanted and word not in rows:
            rows[word] = len(found) + 1
            found.append(_read_numbers(path, number, word, values))
    if not found:
        raise InputError(
            f"{path} has no vector for any word of the treebanks. Expected GloVe or word2vec text: "
            "a word and its numbers on each line, separated by spaces; check the file."
        )
    return WordVectors(np.stack([np.zeros(dimension, np.float32), *found]), rows)


def _read_rows(
    path: Path, lines: Iterable[tuple[int, str]]
) -> Iterator[tuple[int, str, list[str]]]:
    """The word and the numbers of each line; the first line of word2vec (its size) is left out."""
    for number, line in lines:
        parts = line.rstrip().split(" ")
        if number == 1 and len(parts) == 2 and all(part.isdecimal() for part in parts):
            continue
        n_words = _count_word_parts(parts)
        if len(parts) - n_words < 1:
            raise InputError(
                f"{path}:{number}: {line[:40]!r} is no word vector. Expected a word and its "
                "numbers, separated by single spaces; mend or remove the line."
            )
        yield number, " ".join(parts[:n_words]), parts[n_words:]


def _count_word_parts(parts: list[str]) -> int:
    """How many parts are the word: one, or more where a word holds spaces (". . .")."""
    n_words = 1
    while n_words < len(parts) and not _is_number(parts[n_words]):
        n_words += 1
    return n_words


def _is_number(text: str) -> bool:
    return text[:1].isdigit() or text[:1] in ("-", "+") or (text[:1] == "." and text[1:2].isdigit())


def _read_numbers(path: Path, number: int, word: str, values: list[str]) -> NDArray[np.float32]:
    try:
        with np.errstate(over="ignore"):  # what is too large is refused below
            vector = np.array(values, dtype=np.float32)
    except ValueError as error:
        raise InputError(
            f"{path}:{number}: the vector of {word!r} holds what is no number ({error}). Expected "
            "numbers separated by single spaces; mend or remove the line."
        ) from error
    if not np.isfinite(vector).all():
        raise InputError(
            f"{path}:{number}: the vector of {word!r} is not finite. Expected plain numbers; mend "
            "or remove the line."
        )
    return vector
