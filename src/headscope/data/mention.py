"""A mention: a span of words that refers to something, and what is known of it."""

from dataclasses import dataclass, replace

__all__ = ["KINDS", "Mention"]

KINDS = ("pronoun", "proper", "nominal")


@dataclass(frozen=True)
class Mention:
    """Words `start` to `end` (not included); mentions of one `cluster` refer to the same thing.

    `number`, `gender` and `person` are None where they are not known.
    """

    start: int
    end: int
    cluster: str
    head: int  # the word that stands for the span
    kind: str = "nominal"  # one of KINDS
    number: str | None = None  # singular, plural
    gender: str | None = None  # masculine, feminine, neuter
    person: str | None = None  # 1, 2, 3
    is_singleton: bool = False  # whether the whole document mentions its cluster but once

    def moved(self, by: int) -> "Mention":
        """The same mention, counted from another word."""
        start, end, head = self.start + by, self.end + by, self.head + by
        return replace(self, start=start, end=end, head=head)
