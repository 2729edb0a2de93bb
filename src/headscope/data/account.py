"""What became of every example: used, truncated, or skipped and why. Accounts add."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Account"]

SHOWN_IDS = 20


@dataclass
class Account:
    """Counts of examples; nothing is dropped in silence."""

    used: int = 0
    truncated: int = 0
    tokens: int = 0
    unaligned_words: int = 0  # words of which the tokenizer leaves nothing
    skipped: dict[str, int] = field(default_factory=dict)  # by reason
    skipped_ids: dict[str, list[str]] = field(default_factory=dict)  # the first few, by reason
    notes: dict[str, int] = field(default_factory=dict)  # what else was met, and how often

    def note(self, what: str, n: int) -> None:
        """Count something that a reader of the numbers should know."""
        if n:
            self.notes[what] = self.notes.get(what, 0) + n

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

    def __add__(self, other: "Account") -> "Account":
        reasons = list(dict.fromkeys([*self.skipped, *other.skipped]))
        return Account(
            used=self.used + other.used,
            truncated=self.truncated + other.truncated,
            tokens=self.tokens + other.tokens,
            unaligned_words=self.unaligned_words + other.unaligned_words,
            skipped={r: self.skipped.get(r, 0) + other.skipped.get(r, 0) for r in reasons},
            skipped_ids={
                r: (self.skipped_ids.get(r, []) + other.skipped_ids.get(r, []))[:SHOWN_IDS]
                for r in reasons
            },
            notes={
                what: self.notes.get(what, 0) + other.notes.get(what, 0)
                for what in dict.fromkeys([*self.notes, *other.notes])
            },
        )

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "Account":
        """The account that `dataclasses.asdict` wrote."""
        return cls(**fields)
