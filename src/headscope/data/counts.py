"""What became of every example: used, truncated, or skipped and why. Counts add."""

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["ExampleCounts"]

SHOWN_IDS = 20


@dataclass
class ExampleCounts:
    """Counts of examples; nothing is dropped in silence."""

    used: int = 0
    truncated: int = 0
    tokens: int = 0
    characters: int = 0  # of the texts
    unread: int = 0  # of these, after the cut
    without_document: int = 0  # used examples that count as documents of their own
    unaligned_words: int = 0  # words of which the tokenizer leaves nothing
    skipped: dict[str, int] = field(default_factory=dict)  # by reason
    skipped_ids: dict[str, list[str]] = field(default_factory=dict)  # a few, by reason
    notes: dict[str, int] = field(default_factory=dict)  # what else was met, and how often
    # how words became tokens: words, split words, pieces, unknown and single-character pieces
    tokenization: dict[str, int] = field(default_factory=dict)

    def note(self, what: str, n: int) -> None:
        """Count something that a reader of the numbers should know."""
        if n:
            self.notes[what] = self.notes.get(what, 0) + n

    def count_tokenization(self, counts: Mapping[str, int]) -> None:
        """Add how the words of an example became tokens."""
        self.tokenization = _add(self.tokenization, counts)

    def skip(self, reason: str, example_id: str) -> None:
        """Count an example that is not measured."""
        self.skipped[reason] = self.skipped.get(reason, 0) + 1
        ids = self.skipped_ids.setdefault(reason, [])
        if len(ids) < SHOWN_IDS:
            ids.append(example_id)

    @property
    def seen(self) -> int:
        """How many examples were met."""
        return self.used + sum(self.skipped.values())

    def __add__(self, other: "ExampleCounts") -> "ExampleCounts":
        first, two = self.skipped_ids, other.skipped_ids
        return ExampleCounts(
            used=self.used + other.used,
            truncated=self.truncated + other.truncated,
            tokens=self.tokens + other.tokens,
            characters=self.characters + other.characters,
            unread=self.unread + other.unread,
            without_document=self.without_document + other.without_document,
            unaligned_words=self.unaligned_words + other.unaligned_words,
            skipped=_add(self.skipped, other.skipped),
            skipped_ids={  # sorted: the same in whatever order shards are added
                r: sorted({*first.get(r, []), *two.get(r, [])})[:SHOWN_IDS] for r in first | two
            },
            notes=_add(self.notes, other.notes),
            tokenization=_add(self.tokenization, other.tokenization),
        )


def _add(first: Mapping[str, int], two: Mapping[str, int]) -> dict[str, int]:
    return {key: first.get(key, 0) + two.get(key, 0) for key in (*first, *two)}
