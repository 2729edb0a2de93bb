"""The examples of a run: all of a corpus, or a seeded random sample of it; shards; and windows.

The corpus is read once for a few numbers about each example, and again whenever its examples are
needed: a plain loop from start to end. A shard is what is measured at once and saved at once. Where
it begins and ends depends on the corpus and `--shard-examples` alone, so that any job, worker or
machine measures the same shards, and their sums are the same to the last bit.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from logging import getLogger
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headscope.contracts import Annotation, CorpusRole
from headscope.corpora.collection import BaseCorpus, MemoryCorpus
from headscope.data.example import WINDOWS, Example, stable_hash
from headscope.errors import InputError, StudyError, name_parameters, say_count, shorten
from headscope.options import RunOptions, flag_of

__all__ = [
    "MADE_UP", "Part", "Sample", "Shard", "cut_shards", "draw_sample", "hash_text", "part_of",
    "tell_samples",
]  # fmt: skip

log = getLogger("headscope")

MADE_UP = {Annotation.REPEATS, Annotation.NEEDLES}  # in which no natural text is read
SHOWN_FILES = 5
LONG_SHARE = 0.4  # of the examples, in the largest tenth of the documents
MOST_CHARACTERS = 1 << 20  # some 250,000 tokens: long documents make shards of few examples

# What is known of each example after a reading, in the order of the corpus.
FACTS = np.dtype(
    [
        ("number", np.int64),  # in the corpus, from 0
        ("id", np.uint64),  # hash of its id
        ("content", np.uint64),  # hash of all that it holds
        ("length", np.uint32),  # characters
        ("stretch", np.int64),  # neighbours of one document have the same number
        ("document", np.uint64),  # hash of its document's name; then the document's number
        ("text", np.uint64),  # hash of its text; then of all texts of its document
        ("rank", np.uint64),  # the lowest are drawn
        ("weight", np.float64),  # one over the number of chosen examples of its document
    ]
)
Facts = NDArray[Any]  # of the dtype FACTS


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
class Sample:
    """The chosen examples of a corpus, in its order, with the keys of their documents and weights.

    `loaded` has them in memory, if they are.
    """

    corpus: BaseCorpus
    seed: int
    n_available: int
    facts: Facts = field(repr=False)
    without_targets: bool = False  # for an encoder alone, which does not read them
    loaded: Sequence[Example] | None = field(default=None, repr=False)

    @property
    def n_examples(self) -> int:
        return len(self.facts)

    def __iter__(self) -> Iterator[Example]:
        """The examples; an error if the corpus has changed since it was first read."""
        if self.loaded is not None:
            yield from self.loaded
            return
        examples = enumerate(self.corpus)
        for facts in self.facts:
            example = next((e for number, e in examples if number == facts["number"]), None)
            if example is None or _hash_content(example) != facts["content"]:
                raise InputError(
                    f"{self.corpus.location or self.corpus.name} has changed since the run first "
                    "read it. Expected the same content until the run ends; restore it, or start "
                    "a new run."
                )
            if self.without_targets:
                example = replace(example, text_pair=None, links=None)
            key, weight = int(facts["text"]), float(facts["weight"])
            yield replace(example, document_key=key, weight=weight)

    def shards(self, shard_examples: int) -> list[Shard]:
        """What is measured at once: whole documents, one after the other."""
        begins = np.diff(self.facts["stretch"], prepend=-1) > 0
        return cut_shards(self.facts["length"], begins, shard_examples)

    def read(self, shards: Iterable[Shard]) -> Iterator[tuple[Shard, list[Example]]]:
        """The examples of these shards, which come in order, in one reading of the corpus."""
        shards = list(shards)
        is_wanted = np.zeros(self.n_examples, bool)
        for shard in shards:
            is_wanted[shard.start : shard.stop] = True
        examples = iter(self._restrict(is_wanted))
        for shard in shards:
            yield shard, [next(examples) for _ in range(len(shard))]

    def find(self, keys: Collection[int]) -> Iterator[Example]:
        """The examples that have these keys, or have windows with them, in order."""
        wanted = np.array([key // WINDOWS for key in keys], np.uint64)
        yield from self._restrict(np.isin(self.facts["id"] // np.uint64(WINDOWS), wanted))

    def load_into_memory(self) -> "Sample":
        """The same sample, which is read once more and then kept."""
        return self if self.loaded is not None else replace(self, loaded=list(self))

    def _restrict(self, is_wanted: NDArray[np.bool_]) -> "Sample":
        """Some of its examples, with the weights that they have among all of them."""
        loaded = self.loaded and [self.loaded[i] for i in is_wanted.nonzero()[0].tolist()]
        return replace(self, facts=self.facts[is_wanted], loaded=loaded)


def draw_sample(corpus: BaseCorpus, limit: int | None, seed: int) -> Sample:
    """Read the corpus once, find what is wrong with it, and choose at most `limit` examples.

    They are those whose rank, a hash of seed and id, is lowest.
    """
    facts = np.fromiter(_read_facts(corpus, None if limit is None else seed), FACTS)
    n_available = len(facts)
    if not n_available and isinstance(corpus, MemoryCorpus):
        raise InputError(
            "The list is empty: it has no text and no example. Expected at least one; check how "
            "the list was made."
        )
    if not n_available:
        raise InputError(
            f"{corpus.name} is empty: it has no example. Expected at least one line of text or one "
            "sentence; check the file."
        )
    if len(np.unique(facts["id"])) < n_available:
        example_id, count = Counter(example.id for example in corpus).most_common(1)[0]
        raise InputError(
            f"{corpus.name}: the id {shorten(example_id)!r} occurs {count} times. Expected a "
            "different id for every example; rename or remove the repeated ones."
        )
    is_chosen = np.ones(n_available, bool)
    if limit is not None and limit < n_available:
        is_chosen = facts["rank"] <= np.partition(facts["rank"], limit - 1)[limit - 1]
    names, documents = np.unique(facts["document"], return_inverse=True)
    texts = np.zeros(len(names), np.uint64)
    np.add.at(texts, documents, facts["text"])  # in whatever order, so that names do not matter
    facts["document"], facts["text"] = documents, texts[documents]
    facts["weight"] = 1 / np.maximum(np.bincount(documents, weights=is_chosen), 1)[documents]
    return Sample(corpus, seed, n_available, facts[is_chosen])


def _read_facts(corpus: BaseCorpus, seed: int | None) -> Iterator[tuple[Any, ...]]:
    stretch, document = -1, None
    for number, example in enumerate(corpus):
        stretch += example.document is None or example.document != document
        document = example.document
        if example.words is not None:
            length = sum(len(word) + 1 for word in example.words)
        else:
            length = len(example.text or "") + len(example.text_pair or "")
        rank = 0 if seed is None else stable_hash(f"{seed} {example.id}")
        name, text = stable_hash(example.own_document), hash_text(example)
        content = _hash_content(example)
        yield number, example.key, content, length, stretch, name, text, rank, 0.0


def hash_text(example: Example) -> int:
    """A number of what the example says, whatever it is called, with or without a target."""
    return stable_hash(example.text or " ".join(example.words or ()))


def _hash_content(example: Example) -> int:
    return stable_hash(repr(example))


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
        numbers = re.fullmatch(r"(\d{1,18})/(\d{1,18})", text)
        part = cls(int(numbers[1]), int(numbers[2])) if numbers else None
        if part is None or not 1 <= part.number <= part.of:
            raise StudyError(
                f"--shard {shorten(text)} cannot be used. Expected the number of the part, counted "
                f"from 1, and the number of parts; write, for example, 3/64."
            )
        return part


def part_of(shards: Sequence[Shard], part: Part | None) -> Sequence[Shard]:
    """The shards of one part: neighbours, so many that all parts are of about the same length."""
    if part is None:
        return shards
    length = max(sum(shard.length for shard in shards), 1)
    before, chosen = 0, []
    for shard in shards:
        middle = before + shard.length / 2
        if min(int(middle * part.of / length), part.of - 1) == part.number - 1:
            chosen.append(shard)
        before += shard.length
    return chosen


def tell_samples(samples: Iterable[tuple[CorpusRole, Sample]], options: RunOptions) -> None:
    """Say which files are read, what a limit cut, and where a corpus has fewer examples than were
    asked for; with a warning where few documents hold much of a corpus whose segments weigh alike.
    """
    samples = list(samples)
    has_treebank = any(role is CorpusRole.TREEBANK for role, _ in samples)
    for role, sample in samples:
        if files := sample.corpus.file_names:
            more = f" and {len(files) - SHOWN_FILES:,} more" * (len(files) > SHOWN_FILES)
            shown = ", ".join(files[:SHOWN_FILES])
            log.info(
                "%s: %s: %s%s.", sample.corpus.name, say_count(len(files), "file"), shown, more
            )
        if role is CorpusRole.TEXT and not has_treebank and sample.corpus.has_trees:
            message = f"{sample.corpus.name} holds trees; --treebank reads them too."
            log.info("%s", name_parameters(message))
        limit, name = options.limit_of(role)
        corpus, flag, n_all = sample.corpus.name, flag_of(name), sample.n_available
        if limit is not None and not MADE_UP & sample.corpus.provides:
            message = f"{corpus}: {sample.n_examples:,} of {n_all:,} {role.unit} ({flag})."
            if n_all < limit:
                n_shown = say_count(n_all, role.unit.removesuffix("s"))
                message = f"{corpus} has {n_shown}, fewer than {flag} {limit}."
            log.info("%s", name_parameters(message))
        sizes = np.sort(np.unique(sample.facts["document"], return_counts=True)[1])[::-1]
        n_largest = max(1, len(sizes) // 10)
        share = sizes[:n_largest].sum() / sizes.sum()
        if options.weigh == "segments" and len(sizes) > 1 and share > LONG_SHARE:
            log.warning(
                "%s: %d of %d documents hold %.0f %% of the examples, so intervals of means over "
                "text are too narrow. Leave %s out to weigh documents equally.",
                corpus, n_largest, len(sizes), 100 * share, name_parameters("--weigh"),
            )  # fmt: skip
