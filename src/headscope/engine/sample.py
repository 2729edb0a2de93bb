"""The examples of a run: all of a corpus, or a seeded random sample of it; and its shards.

A shard is what is measured at once and saved at once. Where it begins and ends depends on the
corpus and `--shard-examples` alone, so that any job, worker or machine measures the same shards,
and their sums are the same to the last bit.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headscope.contracts import Corpus
from headscope.data.counts import ExampleCounts
from headscope.data.example import Example
from headscope.engine.index import CorpusIndex, CorpusReader, find_index, rank_of
from headscope.errors import InputError, StudyError, shorten

__all__ = [
    "HeldSample", "Part", "Sample", "Shard", "cut_shards", "draw_sample", "hold", "name_numbers",
    "part_of", "refuse_unused",
]  # fmt: skip

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


@dataclass(frozen=True)
class Sample:
    """The examples whose rank, a hash of seed and id, is not above the highest; in corpus order."""

    corpus: Corpus
    seed: int
    reader: CorpusReader = field(repr=False)
    highest_rank: int | None = None  # None: all
    without_targets: bool = False  # for an encoder alone, which does not read them

    @property
    def index(self) -> CorpusIndex:
        return self.reader.index

    @property
    def n_available(self) -> int:
        return len(self.index)

    @property
    def n_examples(self) -> int:
        return self.n_available if self._chosen is None else len(self._chosen)

    def __iter__(self) -> Iterator[Example]:
        for number, example in enumerate(self.corpus):
            if self.highest_rank is None or rank_of(self.seed, example) <= self.highest_rank:
                yield self._complete(number, example)

    @cached_property
    def document_sizes(self) -> NDArray[np.int64]:
        """The number of chosen examples of each document."""
        documents = self.index.documents
        return np.bincount(documents if self._chosen is None else documents[self._chosen])

    def shards(self, shard_examples: int) -> list[Shard]:
        """What is measured at once: whole documents, one after the other."""
        if self._chosen is None:
            return cut_shards(self.index.lengths, self.index.begins, shard_examples)
        document = np.cumsum(self.index.begins)[self._chosen]
        begins = np.append(True, document[1:] > document[:-1])
        return cut_shards(self.index.lengths[self._chosen], begins, shard_examples)

    def read(self, shard: Shard) -> list[Example]:
        """The examples of a shard, and no others."""
        numbers: Iterable[int] = range(shard.start, shard.stop)
        if self._chosen is not None:
            numbers = self._chosen[shard.start : shard.stop].tolist()
        return list(self._read(numbers))

    def find(self, keys: Sequence[int]) -> Iterator[Example]:
        """The examples that have these hashes of ids, in order."""
        wanted = np.isin(self.index.keys, np.array(keys, np.uint64)).nonzero()[0]
        return self._read(wanted.tolist())

    def _read(self, numbers: Iterable[int]) -> Iterator[Example]:
        for number, example in zip(numbers, self.reader.read(numbers), strict=True):
            yield self._complete(number, example)

    @cached_property
    def _chosen(self) -> NDArray[np.int64] | None:
        """The numbers of the chosen examples in the corpus; None: all are."""
        if self.highest_rank is None:
            return None
        return (self.index.ranks <= np.uint64(self.highest_rank)).nonzero()[0]

    def _complete(self, number: int, example: Example) -> Example:
        """The example with what the whole corpus shows of it, and without a target if need be."""
        if self.without_targets:
            example = replace(example, text_pair=None, links=None)
        size = int(self.document_sizes[self.index.documents[number]])
        key = int(self.index.document_keys[number])
        return replace(example, document_key=key, weight=1 / max(size, 1))


@dataclass(frozen=True, kw_only=True)
class HeldSample(Sample):
    """A sample whose examples stay in memory; another process reads files of its own."""

    examples: Sequence[Example] = field(repr=False)

    def __iter__(self) -> Iterator[Example]:
        return iter(self.examples)

    def read(self, shard: Shard) -> list[Example]:
        return list(self.examples[shard.start : shard.stop])

    def draw(self, limit: int) -> "HeldSample":
        """At most `limit` of its examples, as `draw_sample` would draw them from the corpus."""
        if limit >= self.n_examples:
            return self
        ranks = np.array([rank_of(self.seed, example) for example in self.examples], np.uint64)
        highest = np.partition(ranks, limit - 1)[limit - 1]
        chosen = [self.examples[i] for i in (ranks <= highest).nonzero()[0]]
        sizes = Counter(example.own_document for example in chosen)
        index = self.index if self._chosen is not None else replace(self.index, ranks=ranks)
        return replace(
            self,
            reader=CorpusReader(self.corpus, index),
            highest_rank=int(highest),
            examples=[replace(e, weight=1 / sizes[e.own_document]) for e in chosen],
        )

    def __reduce__(self) -> tuple[type[Sample], tuple[Any, ...]]:
        return Sample, tuple(getattr(self, part.name) for part in fields(Sample))


def hold(sample: Sample) -> HeldSample:
    """The sample with its examples, which are read once."""
    if isinstance(sample, HeldSample):
        return sample
    own = {part.name: getattr(sample, part.name) for part in fields(Sample)}
    return HeldSample(**own, examples=sample.read(Shard(0, 0, sample.n_examples, 0)))


def draw_sample(
    corpus: Corpus, limit: int | None, seed: int, indexes: Path | None = None
) -> Sample:
    """Read the corpus once, find what is wrong with it, and choose at most `limit` examples.

    What is known of where its examples stand is kept in the folder `indexes`.
    """
    index = find_index(corpus, None if limit is None else seed, indexes)
    if not len(index):
        raise InputError(
            f"{corpus.name} is empty: it has no example. Expected at least one line of text or one "
            "sentence; check the file."
        )
    keys = np.sort(index.keys)
    if (keys[1:] == keys[:-1]).any():
        _refuse_repeated_ids(corpus)
    reader = CorpusReader(corpus, index)
    if limit is None or limit >= len(index):
        return Sample(corpus, seed, reader)
    return Sample(corpus, seed, reader, int(np.partition(index.ranks, limit - 1)[limit - 1]))


def refuse_unused(corpus: str, counts: ExampleCounts) -> None:
    """An error where nothing of a corpus could be measured: there would be nothing to say."""
    if not counts.used:
        reasons = "; ".join(f"{n} {reason}" for reason, n in counts.skipped.items())
        raise InputError(
            f"No example of {corpus} could be measured ({shorten(reasons) or 'there is none'}). "
            "Expected at least one that the model can read; check the file, or raise --max-tokens."
        )


def _refuse_repeated_ids(corpus: Corpus) -> None:
    example_id, count = Counter(example.id for example in corpus).most_common(1)[0]
    raise InputError(
        f"{corpus.name}: the id {shorten(example_id)!r} occurs {count} times. Expected a different "
        f"id for every example; rename or remove the repeated ones."
    )


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
