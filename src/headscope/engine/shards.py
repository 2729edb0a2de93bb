"""What is measured at once and saved at once: a shard; and the part of all shards that a job takes.

Where a shard begins and ends depends on the corpus and `--shard-examples` alone, so that any job,
worker or machine measures the same shards, and their sums are the same to the last bit.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headscope.errors import StudyError, shorten

__all__ = ["Part", "Shard", "cut_shards", "name_numbers", "part_of"]

MOST_CHARACTERS = 1 << 20  # some 250,000 tokens: long documents make shards of few examples


@dataclass(frozen=True)
class Shard:
    """Examples `start` up to `stop` of a sample."""

    number: int
    start: int
    stop: int
    length: int  # characters

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True)
class Part:
    """One of several equal parts of a run, counted from 1."""

    number: int
    of: int

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    @classmethod
    def parse(cls, text: str) -> "Part":
        """The part that "3/64" names."""
        found = re.fullmatch(r"(\d{1,18})/(\d{1,18})", text)
        part = cls(int(found[1]), int(found[2])) if found else None
        if part is None or not 1 <= part.number <= part.of:
            raise StudyError(
                f"--shard {shorten(text)} cannot be used. Expected the number of the part, counted "
                f"from 1, and the number of parts; write, for example, 3/64."
            )
        return part


def cut_shards(
    lengths: NDArray[np.integer], begins: NDArray[np.bool_], most_examples: int
) -> list[Shard]:
    """Whole documents, one after the other, as long as they fit into a shard.

    `begins` says with which examples documents begin. One that fits into no shard is cut.
    """
    n_examples = len(lengths)
    ends = np.append(0, np.cumsum(lengths, dtype=np.int64))  # characters before each example
    starts = np.append(np.where(begins, np.arange(n_examples), 0), n_examples)
    begun = np.maximum.accumulate(starts)  # where the document of each example begins
    shards: list[Shard] = []
    start = 0
    while start < n_examples:
        fitting = int(np.searchsorted(ends, ends[start] + MOST_CHARACTERS, side="right")) - 1
        stop = min(max(fitting, start + 1), start + most_examples, n_examples)
        if begun[stop] > start:
            stop = int(begun[stop])
        shards.append(Shard(len(shards), start, stop, int(ends[stop] - ends[start])))
        start = stop
    return shards


def part_of(shards: Sequence[Shard], part: Part) -> list[Shard]:
    """The shards of one part: neighbours, so many that all parts are of about the same length."""
    length = max(sum(shard.length for shard in shards), 1)
    before, chosen = 0, []
    for shard in shards:
        middle = before + shard.length / 2
        if min(int(middle * part.of / length), part.of - 1) == part.number - 1:
            chosen.append(shard)
        before += shard.length
    return chosen


def name_numbers(numbers: Collection[int]) -> str:
    """Numbers as one writes them, neighbours together.

    >>> name_numbers([7, 1, 2, 3])
    '1-3, 7'
    """
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ", ".join("-".join(map(str, run)) for run in runs)
