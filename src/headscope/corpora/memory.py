"""Examples that are already in memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256

from headscope.data.example import Example
from headscope.errors import InputError

__all__ = ["MemoryCorpus"]


@dataclass(frozen=True)
class MemoryCorpus:
    """A list of texts or of examples; a text's id is its place in the list."""

    items: Sequence[str | Example]
    name: str = "memory"

    @property
    def provides(self) -> frozenset[str]:
        has_words = all(isinstance(item, Example) and item.words for item in self.items)
        return frozenset({"text", "words"} if has_words else {"text"})

    def __iter__(self) -> Iterator[Example]:
        for place, item in enumerate(self.items, start=1):
            if not isinstance(item, (str, Example)):
                raise InputError(
                    f"Item {place} of the list is a {type(item).__name__}. Expected strings or "
                    "headscope.Example objects; convert it first."
                )
            yield item if isinstance(item, Example) else Example(f"memory:{place}", text=item)

    def digest(self) -> str:
        return sha256("\n".join(map(repr, self)).encode()).hexdigest()
