"""What every corpus can be asked, with defaults; and corpora of other classes in this form."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol, Self, TypeGuard, runtime_checkable

from headscope.contracts import Corpus
from headscope.data.example import Example

__all__ = ["BaseCorpus", "adopt", "is_corpus"]


class BaseCorpus:
    """A corpus that need not say more than its name, what it provides, examples and a digest."""

    if TYPE_CHECKING:  # each class has them; none here, as dataclasses take them for defaults

        @property
        def name(self) -> str: ...

        @property
        def provides(self) -> frozenset[str]: ...

        def __iter__(self) -> Iterator[Example]: ...

        def digest(self) -> str: ...

    scheme: ClassVar[str] = ""  # with which its addresses begin

    @property
    def location(self) -> str:
        """The path of its file; empty if it is not a file."""
        return ""

    @property
    def documents(self) -> str:
        """How documents are known, where that is not a fact of the format."""
        return ""

    @property
    def has_blocks(self) -> bool:
        """Whether blocks of sentences stand for documents."""
        return False

    @property
    def mixes_targets(self) -> bool:
        """Whether some of its files have targets and others have none."""
        return False

    @property
    def skipped_files(self) -> Mapping[str, str]:
        """The files that are left out, and why."""
        return {}

    def with_blocks(self, n_sentences: int) -> Self:
        """The same corpus, with blocks of so many sentences where documents are unknown."""
        return self


@dataclass(frozen=True)
class AdoptedCorpus(BaseCorpus):
    """A corpus of a class that is not derived from `BaseCorpus`."""

    corpus: Corpus

    @property
    def name(self) -> str:
        return self.corpus.name

    @property
    def provides(self) -> frozenset[str]:
        return self.corpus.provides

    def __iter__(self) -> Iterator[Example]:
        return iter(self.corpus)

    def digest(self) -> str:
        return self.corpus.digest()


def adopt(corpus: Corpus) -> BaseCorpus:
    """The corpus as one that can be asked all of `BaseCorpus`."""
    return corpus if isinstance(corpus, BaseCorpus) else AdoptedCorpus(corpus)


def is_corpus(item: object) -> TypeGuard[Corpus]:
    """Whether it is a corpus, of whatever class."""
    return isinstance(item, _Digested)


@runtime_checkable
class _Digested(Protocol):
    """By which a corpus of any class is recognized."""

    def __iter__(self) -> Iterator[Example]: ...

    def digest(self) -> str: ...
