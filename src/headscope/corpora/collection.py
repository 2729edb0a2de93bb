"""What every corpus can be asked; and corpora made of parts: of files, of examples, of a table."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeGuard, runtime_checkable

from headscope.contracts import Annotation, Corpus, CorpusRole
from headscope.corpora.document_names import LEAST_DOCUMENTS
from headscope.data.example import Example
from headscope.errors import InputError, shorten, suggest

__all__ = ["BaseCorpus", "FilesCorpus", "MemoryCorpus", "adopt", "is_corpus", "read_frame"]

ONE_A_FILE = "one a file"  # among files in which documents are unknown
SHOWN_FILES = 20  # of those that cannot be read
LONGEST_REASON = 400
COLUMNS = ("text", "text_pair", "id", "document")  # of a table that are read


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
    def most_tokens(self) -> int | None:
        """About the longest example in tokens, where it is known."""
        return None

    @property
    def mixes_targets(self) -> bool:
        """Whether some of its files have targets and others have none."""
        return False

    @property
    def has_trees(self) -> bool:
        """Whether its files hold trees, which are not read as text."""
        return False

    @property
    def file_names(self) -> Sequence[str]:
        """What it reads, where it is made of several files."""
        return ()

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
    def __iter__(self) -> Iterator[Example]: ...

    def digest(self) -> str: ...


@dataclass(frozen=True)
class FilesCorpus(BaseCorpus):
    """The files of a folder or a list, one after the other; an id begins with its file's key.

    A file in which documents are not marked is a document. Blocks of sentences stand for documents
    in a few files; among many, a file is one.

    A file that cannot be read stops the reading at the end, with all such files named; or it is
    left out, if `skip_bad` says so.
    """

    name: str
    members: Mapping[str, BaseCorpus]  # by key: the path within the folder, or the file's name
    skip_bad: bool = False

    @property
    def file_names(self) -> Sequence[str]:
        return list(self.members)

    @property
    def has_trees(self) -> bool:
        return any(member.has_trees for member in self._good_members.values())

    @property
    def provides(self) -> frozenset[str]:
        provided = self._provided()
        return frozenset.intersection(*provided) if provided else frozenset()

    @property
    def mixes_targets(self) -> bool:
        return len({Annotation.TARGETS in provided for provided in self._provided()}) == 2

    def _provided(self) -> list[frozenset[str]]:
        provided: list[frozenset[str]] = []
        for member in self._good_members.values():
            with suppress(InputError):  # told when it is read
                provided.append(member.provides)
        return provided

    @cached_property
    def skipped_files(self) -> dict[str, str]:
        """Every file is read once to find them."""
        bad: dict[str, str] = {}
        if self.skip_bad:
            for _ in self._read(self.members, bad):
                pass
        if bad and len(bad) == len(self.members):
            self._refuse(bad)
        parts = {
            f"{key} (sentences)": reason
            for key, member in self.members.items()
            for reason in member.skipped_files.values()
        }
        return bad | parts

    def __iter__(self) -> Iterator[Example]:
        bad: dict[str, str] = {}
        yield from self._read(self._good_members, bad)
        if bad:
            self._refuse(bad)

    def _read(self, members: Mapping[str, BaseCorpus], bad: dict[str, str]) -> Iterator[Example]:
        """All examples; `bad` is told which files cannot be read, and why."""
        for key, member in members.items():
            try:
                for example in member:
                    is_file = example.document is None or self._is_document(member)
                    document = key if is_file else f"{key}/{example.document}"
                    yield replace(example, id=f"{key}/{example.id}", document=document)
            except InputError as error:
                bad[key] = shorten(str(error), LONGEST_REASON)

    @property
    def documents(self) -> str:
        members = self._good_members.values()
        ways = {ONE_A_FILE if self._is_document(m) else m.documents for m in members}
        return "; ".join(sorted(ways - {""}))

    def with_blocks(self, n_sentences: int) -> Self:
        members = {key: member.with_blocks(n_sentences) for key, member in self.members.items()}
        return replace(self, members=members)

    def _is_document(self, member: BaseCorpus) -> bool:
        return member.has_blocks and len(self.members) >= LEAST_DOCUMENTS

    def digest(self) -> str:
        parts = (f"{key} {member.digest()}\n" for key, member in self._good_members.items())
        return sha256("".join(parts).encode()).hexdigest()

    @property
    def _good_members(self) -> dict[str, BaseCorpus]:
        return {k: m for k, m in self.members.items() if k not in self.skipped_files}

    def _refuse(self, bad: Mapping[str, str]) -> None:
        if len(self.members) == 1:
            raise InputError(next(iter(bad.values())))
        shown = list(bad.values())[:SHOWN_FILES]
        listed = "".join(f"  {reason}\n" for reason in shown)
        if len(bad) > len(shown):
            listed += f"  and {len(bad) - len(shown):,} more\n"
        raise InputError(
            f"{len(bad)} of the {len(self.members)} files in {self.name} cannot be read:\n{listed}"
            "Expected files without errors; fix them, or pass --skip-bad to skip them."
        )


@dataclass(frozen=True)
class MemoryCorpus(BaseCorpus):
    """A list of texts or of examples; a text's id is its number in the list."""

    items: Sequence[str | Example]
    name: str = "memory"
    role: CorpusRole = CorpusRole.TEXT  # coreference is read where documents are cut into windows

    @property
    def provides(self) -> frozenset[str]:
        examples = [item for item in self.items if isinstance(item, Example)]
        if len(examples) < len(self.items) or not all(example.words for example in examples):
            is_all = len(examples) == len(self.items)
            provides = {Annotation.TEXT}
            if is_all and any(example.text_pair is not None for example in examples):
                provides.add(Annotation.TARGETS)
                if any(example.links is not None for example in examples):
                    provides.add(Annotation.ALIGNMENTS)
            return frozenset(provides)
        provides = {Annotation.TEXT, Annotation.WORDS}
        if all(example.tree for example in examples):
            provides.add(Annotation.DEPENDENCIES)
        has_mentions = all(example.mentions is not None for example in examples)
        if has_mentions and self.role == CorpusRole.COREF:
            provides.add(Annotation.COREFERENCE)
        return frozenset(provides)

    def __iter__(self) -> Iterator[Example]:
        for number, item in enumerate(self.items, start=1):
            if not isinstance(item, (str, Example)):
                raise InputError(
                    f"Item {number} of the list is a {type(item).__name__}. Expected strings or "
                    "headscope.Example objects; convert it first."
                )
            example = item if isinstance(item, Example) else Example(f"memory:{number}", text=item)
            texts = (example.id, example.document, example.text, example.text_pair)
            try:
                "".join([*filter(None, texts), *(example.words or ())]).encode()
            except UnicodeEncodeError as error:
                raise InputError(
                    f"Item {number} of the list has half a character (a lone surrogate). Expected "
                    "text that UTF-8 can hold; decode it again, or replace the character."
                ) from error
            yield example

    def digest(self) -> str:
        return sha256("\n".join(map(repr, self)).encode()).hexdigest()


def read_frame(table: Any) -> Iterator[Example]:
    """The rows of a DataFrame as examples: `text`, and if there `text_pair`, `id` and `document`.

    A table with one column needs no name for it. Other columns are not read.
    """
    columns = [str(name) for name in table.columns]
    if "text" not in columns and len(columns) != 1:
        raise InputError(
            f"The table has no column 'text'.{suggest('text', columns)} It has "
            f"{', '.join(columns)[:200] or 'none at all'}. Expected one named text; rename it, or "
            "pass hs.texts(table[COLUMN])."
        )
    kept = table if "text" in columns else table.set_axis(["text"], axis="columns")
    names = [name for name in COLUMNS if name in kept.columns]
    if repeated := [name for name in names if list(kept.columns).count(name) > 1]:
        raise InputError(
            f"The table has several columns {repeated[0]!r}. Expected one; rename the others."
        )
    known = kept[names].astype(object).where(kept[names].notna(), None)
    for number, row in enumerate(known.itertuples(index=False, name=None), start=1):
        yield _read_row(dict(zip(names, row, strict=True)), number)


def _read_row(row: dict[str, Any], number: int) -> Example:
    for name in {"text", "text_pair"} & row.keys():
        if not isinstance(row[name], str):
            raise InputError(
                f"Row {number} of the table has no text in its column {name!r}: "
                f"{shorten(row[name])}. Expected a string; leave such rows out (dropna)."
            )
    given_id, document = row.get("id"), row.get("document")
    return Example(
        f"table:{number}" if given_id is None else str(given_id),
        text=row["text"],
        text_pair=row.get("text_pair"),
        document=None if document is None else str(document),
    )
