"""The examples of a run: all of a corpus, or a seeded random sample of it; and its shards.

The corpus is read once for a few numbers about each example, and again whenever its examples are
needed: a plain loop from start to end. A shard is what is measured at once and saved at once. Where
it begins and ends depends on the corpus and `--shard-examples` alone, so that any job, worker or
machine measures the same shards, and their sums are the same to the last bit.
"""

from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from logging import getLogger

import numpy as np
from numpy.typing import NDArray

from headscope.contracts import CorpusRole
from headscope.corpora.base import BaseCorpus
from headscope.data.counts import ExampleCounts
from headscope.data.example import Example, stable_hash
from headscope.errors import InputError, name_parameters, shorten
from headscope.options import RunOptions, flag_of

__all__ = [
    "Sample", "Shard", "cut_shards", "draw_sample", "hash_text", "refuse_unused", "tell_samples",
]  # fmt: skip

log = getLogger("headscope")

LONG_SHARE = 0.4  # of the examples, in the largest tenth of the documents
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


@dataclass(frozen=True, eq=False)
class ExampleFacts:
    """What is known of each example after a reading, in the order of the corpus: 60 bytes."""

    numbers: NDArray[np.int64]  # its number in the corpus, from 0
    keys: NDArray[np.uint64]  # the hash of its id
    contents: NDArray[np.uint64]  # the hash of all that it holds
    lengths: NDArray[np.uint32]  # characters
    stretches: NDArray[np.int64]  # neighbours of one document have the same number
    documents: NDArray[np.uint32]  # the number of its document
    document_keys: NDArray[np.uint64]  # the hash of all texts of its document
    weights: NDArray[np.float64]  # one over the number of chosen examples of its document

    def __len__(self) -> int:
        return len(self.keys)

    def choose(self, is_chosen: NDArray[np.bool_]) -> "ExampleFacts":
        """Those of some examples."""
        return ExampleFacts(**{name: values[is_chosen] for name, values in vars(self).items()})


@dataclass(frozen=True, eq=False)
class Sample:
    """The chosen examples of a corpus, in its order, with the keys of their documents and weights.

    `loaded` has them in memory, if they are.
    """

    corpus: BaseCorpus
    seed: int
    n_available: int
    facts: ExampleFacts = field(repr=False)
    without_targets: bool = False  # for an encoder alone, which does not read them
    loaded: Sequence[Example] | None = field(default=None, repr=False)

    @property
    def n_examples(self) -> int:
        return len(self.facts)

    @property
    def is_drawn(self) -> bool:
        """Whether it leaves examples out."""
        return self.n_examples < self.n_available

    @property
    def document_sizes(self) -> NDArray[np.int64]:
        """The number of chosen examples of each document."""
        return np.unique(self.facts.documents, return_counts=True)[1]

    def __iter__(self) -> Iterator[Example]:
        """The examples; an error if the corpus has changed since it was first read."""
        if self.loaded is not None:
            yield from self.loaded
            return
        examples = enumerate(self.corpus)
        for position, chosen in enumerate(self.facts.numbers.tolist()):
            example = next((example for number, example in examples if number == chosen), None)
            if example is None or _hash_content(example) != self.facts.contents[position]:
                raise InputError(
                    f"{self.corpus.location or self.corpus.name} has changed since the run first "
                    "read it. Expected the same content until the run ends; restore it, or start "
                    "a new run."
                )
            yield self._complete(position, example)

    def shards(self, shard_examples: int) -> list[Shard]:
        """What is measured at once: whole documents, one after the other."""
        stretches = self.facts.stretches
        begins = np.append(True, stretches[1:] > stretches[:-1])
        return cut_shards(self.facts.lengths, begins, shard_examples)

    def read(self, shards: Iterable[Shard]) -> Iterator[tuple[Shard, list[Example]]]:
        """The examples of these shards, which come in order, in one reading of the corpus."""
        shards = list(shards)
        chosen = np.zeros(self.n_examples, bool)
        for shard in shards:
            chosen[shard.start : shard.stop] = True
        examples = iter(self._restrict(chosen))
        for shard in shards:
            yield shard, [next(examples) for _ in range(len(shard))]

    def find(self, keys: Collection[int]) -> Iterator[Example]:
        """The examples that have these hashes of ids, in order."""
        yield from self._restrict(np.isin(self.facts.keys, np.array(list(keys), np.uint64)))

    def load_into_memory(self) -> "Sample":
        """The same sample, which is read once more and then kept."""
        return self if self.loaded is not None else replace(self, loaded=list(self))

    def _restrict(self, is_wanted: NDArray[np.bool_]) -> "Sample":
        """Some of its examples, with the weights that they have among all of them."""
        loaded = self.loaded and [self.loaded[i] for i in is_wanted.nonzero()[0].tolist()]
        return replace(self, facts=self.facts.choose(is_wanted), loaded=loaded)

    def _complete(self, position: int, example: Example) -> Example:
        """The example with what the whole corpus shows of it, and without a target if need be."""
        if self.without_targets:
            example = replace(example, text_pair=None, links=None)
        key, weight = int(self.facts.document_keys[position]), float(self.facts.weights[position])
        return replace(example, document_key=key, weight=weight)


def draw_sample(corpus: BaseCorpus, limit: int | None, seed: int) -> Sample:
    """Read the corpus once, find what is wrong with it, and choose at most `limit` examples.

    They are those whose rank, a hash of seed and id, is lowest.
    """
    keys, contents, ranks, texts, documents = (array("Q") for _ in range(5))
    lengths, begins = array("I"), array("B")
    before: str | None = None
    for example in corpus:
        keys.append(example.key)
        contents.append(_hash_content(example))
        lengths.append(_count_characters(example))
        begins.append(example.document is None or example.document != before)
        documents.append(stable_hash(example.own_document))
        texts.append(hash_text(example))
        if limit is not None:
            ranks.append(stable_hash(f"{seed} {example.id}"))
        before = example.document
    n_available = len(keys)
    if not n_available:
        raise InputError(
            f"{corpus.name} is empty: it has no example. Expected at least one line of text or one "
            "sentence; check the file."
        )
    if len(np.unique(np.array(keys))) < n_available:
        _refuse_repeated_ids(corpus)
    hashes, numbers = np.unique(np.array(documents), return_inverse=True)
    sums = np.zeros(len(hashes), np.uint64)
    np.add.at(sums, numbers, np.array(texts))  # in whatever order, so that names do not matter
    is_chosen = np.ones(n_available, bool)
    if limit is not None and limit < n_available:
        is_chosen = np.array(ranks) <= np.partition(np.array(ranks), limit - 1)[limit - 1]
    facts = ExampleFacts(
        numbers=np.arange(n_available),
        keys=np.array(keys),
        contents=np.array(contents),
        lengths=np.array(lengths),
        stretches=np.cumsum(np.array(begins), dtype=np.int64),
        documents=numbers.astype(np.uint32),
        document_keys=sums[numbers],
        weights=1 / np.maximum(np.bincount(numbers, weights=is_chosen), 1)[numbers],
    )
    return Sample(corpus, seed, n_available, facts.choose(is_chosen))


def hash_text(example: Example) -> int:
    """A number of what the example says, whatever it is called, with or without a target."""
    return stable_hash(example.text or " ".join(example.words or ()))


def _hash_content(example: Example) -> int:
    """A number that any change of the example changes."""
    return stable_hash(repr(example))


def _count_characters(example: Example) -> int:
    if example.words is not None:
        return sum(len(word) + 1 for word in example.words)
    return len(example.text or "") + len(example.text_pair or "")


def refuse_unused(corpus: str, counts: ExampleCounts) -> None:
    """An error where nothing of a corpus could be measured: there would be nothing to say."""
    if not counts.used:
        reasons = "; ".join(f"{n} {reason}" for reason, n in counts.skipped.items())
        raise InputError(
            f"No example of {corpus} could be measured ({shorten(reasons) or 'there is none'}). "
            "Expected at least one that the model can read; check the file, or raise --max-tokens."
        )


def _refuse_repeated_ids(corpus: BaseCorpus) -> None:
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


def tell_samples(samples: Iterable[tuple[CorpusRole, Sample]], options: RunOptions) -> None:
    """Say what a limit cut, and where a corpus has fewer examples than were asked for; with a
    warning where few documents hold much of a corpus whose segments weigh alike."""
    for role, sample in samples:
        limit, name = options.limit_of(role)
        if limit is not None:
            flag, n_all = flag_of(name), sample.n_available
            message = (
                f"{sample.corpus.name}: {sample.n_examples:,} of {n_all:,} {role.unit} ({flag})."
            )
            if n_all < limit:
                message = (
                    f"{sample.corpus.name} has {n_all:,} {role.unit}, fewer than {flag} {limit}."
                )
            log.info("%s", name_parameters(message))
        sizes = np.sort(sample.document_sizes)[::-1]
        n_largest = max(1, len(sizes) // 10)
        share = sizes[:n_largest].sum() / sizes.sum()
        if options.weigh == "segments" and len(sizes) > 1 and share > LONG_SHARE:
            log.warning(
                "%s: %d of %d documents hold %.0f %% of the examples, so intervals of means over "
                "text are too narrow. Leave %s out to weigh documents equally.",
                sample.corpus.name, n_largest, len(sizes), 100 * share,
                name_parameters("--weigh"),
            )  # fmt: skip
