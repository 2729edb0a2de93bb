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
    role: str = "text"  # mentions are read where documents are cut into windows: as "coref"

    @property
    def provides(self) -> frozenset[str]:
        examples = [item for item in self.items if isinstance(item, Example)]
        if len(examples) < len(self.items) or not all(example.words for example in examples):
            return frozenset({"text"})
        has = {
            "dependencies": all(example.tree for example in examples),
            "coreference": self.role == "coref" and all(e.mentions is not None for e in examples),
        }
        return frozenset({"text", "words", *(what for what, is_there in has.items() if is_there)})

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
