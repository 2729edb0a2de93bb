"""The examples of a run: all of a corpus, or a seeded random sample of it."""

from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from headscope.contracts import Corpus
from headscope.data.counts import ExampleCounts
from headscope.data.example import Example, stable_hash
from headscope.errors import InputError, shorten

__all__ = ["Sample", "draw_sample", "refuse_unused"]


@dataclass(frozen=True)
class Sample:
    """The examples whose rank, a hash of seed and id, is not above the highest; in corpus order."""

    corpus: Corpus
    seed: int
    n_available: int
    n_examples: int
    highest_rank: int | None = None  # None: all
    without_targets: bool = False  # for an encoder alone, which does not read them

    def __iter__(self) -> Iterator[Example]:
        for example in self.corpus:
            if self.highest_rank is None or _rank(self.seed, example) <= self.highest_rank:
                bare = self.without_targets
                yield replace(example, text_pair=None, links=None) if bare else example


def draw_sample(corpus: Corpus, limit: int | None, seed: int) -> Sample:
    """Read the corpus once, find what is wrong with it, and choose at most `limit` examples.

    Only 16 bytes an example are kept, so a corpus of any size is sampled without holding it.
    """
    keys, ranks = array("Q"), array("Q")
    for example in corpus:
        keys.append(example.key)
        if limit is not None:
            ranks.append(_rank(seed, example))
    n_available = len(keys)
    if n_available == 0:
        raise InputError(
            f"{corpus.name} is empty: it has no example. Expected at least one line of text or one "
            "sentence; check the file."
        )
    sorted_keys = np.frombuffer(keys, dtype=np.uint64)
    sorted_keys.sort()  # in place: no copy of a number per example
    if (sorted_keys[1:] == sorted_keys[:-1]).any():
        _refuse_repeated_ids(corpus)
    if limit is None or limit >= n_available:
        return Sample(corpus, seed, n_available, n_available)
    ordered = np.frombuffer(ranks, dtype=np.uint64)
    ordered.partition(limit - 1)
    return Sample(corpus, seed, n_available, limit, int(ordered[limit - 1]))


def refuse_unused(corpus: str, counts: ExampleCounts) -> None:
    """An error where nothing of a corpus could be measured: there would be nothing to say."""
    if not counts.used:
        reasons = "; ".join(f"{n} {reason}" for reason, n in counts.skipped.items())
        raise InputError(
            f"No example of {corpus} could be measured ({shorten(reasons) or 'there is none'}). "
            "Expected at least one that the model can read; check the file, or raise --max-tokens."
        )


def _rank(seed: int, example: Example) -> int:
    return stable_hash(f"{seed} {example.id}")


def _refuse_repeated_ids(corpus: Corpus) -> None:
    example_id, count = Counter(example.id for example in corpus).most_common(1)[0]
    raise InputError(
        f"{corpus.name}: the id {shorten(example_id)!r} stands {count} times. Expected every "
        "example to have an id of its own; rename or remove the repeated ones."
    )
