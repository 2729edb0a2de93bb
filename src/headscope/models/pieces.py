"""Where the pieces of SentencePiece stand in a text, of a tokenizer that does not say it."""

import re
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int
from numpy.typing import NDArray

__all__ = ["MARK", "piece_offsets"]

MARK = "\u2581"  # stands for the space before a word
WORD = re.compile(r"\S+")
MOST_PIECES, MOST_CHARACTERS = 20, 200  # in which the next piece that is in the text is looked for


def piece_offsets(text: str, pieces: Sequence[str]) -> Int[NDArray[np.int64], "piece 2"]:
    """The first character of each piece in the text, and the one after its last.

    Pieces are walked along the text. One that is not there, as it is unknown or was normalized,
    has what stands before the next piece that is there; several in a row have it together.

    >>> piece_offsets("a fine boat", ["▁a", "▁", "<unk>", "ne", "▁boat"]).tolist()
    [[0, 1], [2, 2], [2, 4], [4, 6], [7, 11]]
    """
    offsets, place, number = list[tuple[int, int]](), 0, 0
    while number < len(pieces):
        place = _skip_space(text, place)
        surface = pieces[number].removeprefix(MARK).replace(MARK, " ")
        if text.startswith(surface, place):
            offsets.append((place, place + len(surface)))
            place, number = place + len(surface), number + 1
            continue
        next_number, next_place = _find_next(text, place, pieces, number)
        end = place + len(text[place:next_place].rstrip())
        offsets += [(place, end)] * (next_number - number)
        place, number = next_place, next_number
    return np.array(offsets, dtype=np.int64).reshape(-1, 2)


def _skip_space(text: str, place: int) -> int:
    found = WORD.search(text, place)
    return found.start() if found else len(text)


def _find_next(text: str, place: int, pieces: Sequence[str], number: int) -> tuple[int, int]:
    """The next piece that is in the text, and where: one with a mark where a word begins, another
    within the word. Else the piece has the rest of the word."""
    word = WORD.match(text, place)
    word_end = word.end() if word else len(text)
    for later in range(number + 1, min(number + MOST_PIECES, len(pieces))):
        surface = pieces[later].removeprefix(MARK).replace(MARK, " ")
        if not surface:
            continue
        if not pieces[later].startswith(MARK):
            found = text.find(surface, place + 1, word_end)
        else:
            begins = (w.start() for w in WORD.finditer(text, word_end, place + MOST_CHARACTERS))
            found = next((start for start in begins if text.startswith(surface, start)), -1)
        if found >= 0:
            return later, found
    return number + 1, word_end
