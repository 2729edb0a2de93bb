"""Where the examples of a corpus stand: it is read once, and any of them can be read alone."""

import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from headscope.contracts import Corpus
from headscope.corpora.collection import FilesCorpus
from headscope.corpora.lines import FileCorpus, Opening
from headscope.data.example import Example, stable_hash
from headscope.engine.array_file import describe_arrays, read_arrays
from headscope.errors import InputError, OutputError, WriteError
from headscope.files import write_atomically

__all__ = ["CorpusIndex", "CorpusReader", "find_index", "rank_of"]

VERSION = 4
LEAST_BYTES = 16 << 20  # a smaller corpus is read again as quickly as its index
NEAR = 32  # examples: so many are read on rather than jumped over
FACTS = "facts"


@dataclass(frozen=True)
class CorpusIndex:
    """What is known of each example, in the order of the corpus: some 30 bytes."""

    keys: NDArray[np.uint64]  # the hash of its id
    contents: NDArray[np.uint64]  # the hash of all that it holds
    ranks: NDArray[np.uint64]  # its place in a seeded sample; empty where none is drawn
    lengths: NDArray[np.uint32]  # characters
    begins: NDArray[np.bool_]  # whether a document begins with it
    documents: NDArray[np.uint32]  # the number of its document
    document_keys: NDArray[np.uint64]  # the hash of all texts of its document
    places: NDArray[np.uint32]  # from which opening it is read
    openings: NDArray[np.int64]  # [place, (member, line, byte)]
    facts: tuple[Mapping[str, str], ...] = ()  # that the reading has shown of each member

    def __len__(self) -> int:
        return len(self.keys)


def find_index(corpus: Corpus, seed: int | None, folder: Path | None) -> CorpusIndex:
    """The index kept in a folder for these very files, or made and, of a large corpus, kept.

    With a `seed` it has the ranks of a sample.
    """
    stamp = _stamp(corpus, seed)
    path = None
    if folder is not None and stamp is not None:
        name = sha256(json.dumps(stamp).encode()).hexdigest()[:16]
        path = folder / f"{corpus.name[:100].replace('/', '-')}-{name}.safetensors"
    index = _read(path) if path is not None and path.exists() else None
    if index is None:
        index = build_index(corpus, seed)
        if path is not None and sum(size for *_, size, _ in stamp[-1]) >= LEAST_BYTES:  # type: ignore[index]  # path: so is the stamp
            with suppress(WriteError):  # it is read again the next time
                _write(path, index)
    for member, facts in zip(_members(corpus).values(), index.facts, strict=False):
        if isinstance(member, FileCorpus):
            member.remember(facts)
    return index


def build_index(corpus: Corpus, seed: int | None = None) -> CorpusIndex:
    """Read the corpus once, from start to end."""
    return _Builder(seed).build(corpus)


def rank_of(seed: int, example: Example) -> int:
    """A number that orders examples as if at random."""
    return stable_hash(f"{seed} {example.id}")


def hash_content(example: Example) -> int:
    """A number that any change of the example changes."""
    return stable_hash(repr(example))


def hash_text(example: Example) -> int:
    """A number of what the example says, whatever it is called, with or without a target."""
    return stable_hash(example.text or " ".join(example.words or ()))


def _count_characters(example: Example) -> int:
    if example.words is not None:
        return sum(len(word) + 1 for word in example.words)
    return len(example.text or "") + len(example.text_pair or "")


@dataclass
class CorpusReader:
    """Reads some examples of a corpus; what stands one after the other is read without a jump."""

    corpus: Corpus
    index: CorpusIndex
    _examples: Iterator[Example] | None = field(default=None, init=False)
    _next: int = field(default=0, init=False)  # the number of the example that is read next
    _is_whole: bool = field(default=False, init=False)  # whether files are read from their start

    def read(self, numbers: Iterable[int]) -> Iterator[Example]:
        """The examples of these numbers, in order; an error if they are not those of the index."""
        for number in numbers:
            example = self._find(number)
            if example is None and not self._is_whole:  # it depends on what stands before it
                self._is_whole, self._examples = True, None
                example = self._find(number)
            if example is None:
                raise self._changed()
            yield example

    def _find(self, number: int) -> Example | None:
        """The example, if it is there and as it was."""
        self._open(number)
        assert self._examples is not None
        example = next(islice(self._examples, number - self._next, None), None)
        self._next = number + 1
        is_right = example is not None and hash_content(example) == self.index.contents[number]
        return example if is_right else None

    def __getstate__(self) -> dict[str, Any]:
        """What another process needs: it opens files of its own."""
        return {**vars(self), "_examples": None}

    def _open(self, number: int) -> None:
        """Go to the nearest place from which the example can be read, unless to read on will do."""
        is_ahead = self._examples is not None and self._next <= number
        if is_ahead and number - self._next < NEAR:
            return
        place = int(self.index.places[number])
        member = int(self.index.openings[place, 0])
        start = self._starts[member]
        place = start if self._is_whole else place
        # From here on a jump saves nothing: to jump into a .gz file is to decompress it.
        reach = start if self._is_gz(member) else place
        if is_ahead and self._first_from(reach) <= self._next:
            return
        _, line, byte = self.index.openings[place].tolist()
        self._examples = _open_at(self.corpus, member, Opening(line, byte))
        self._next = self._first_from(place)

    def _first_from(self, place: int) -> int:
        """The number of the first example that is read from a place."""
        places = self.index.places
        return int(np.searchsorted(places, places.dtype.type(place)))

    @cached_property
    def _starts(self) -> dict[int, int]:
        """The place at which each member starts."""
        members, places = np.unique(self.index.openings[:, 0], return_index=True)
        return dict(zip(members.tolist(), places.tolist(), strict=True))

    def _is_gz(self, member: int) -> bool:
        path = getattr(list(_members(self.corpus).values())[member], "path", None)
        return path is not None and path.suffix == ".gz"

    def _changed(self) -> InputError:
        path = getattr(self.corpus, "path", self.corpus.name)
        return InputError(
            f"{path} has changed since the run first read it. Expected the same content until the "
            f"run ends, and on every machine; restore it, or start a new run."
        )


def _open_at(corpus: Corpus, number: int, opening: Opening) -> Iterator[Example]:
    """The examples of a corpus from a line of one of its members on."""
    members = list(_members(corpus).items())[number:]
    if not members:
        return iter(())
    key, first = members[0]
    opened: Any = first.opened(opening) if isinstance(first, FileCorpus) else first
    if not isinstance(corpus, FilesCorpus):
        return iter(opened)
    return iter(replace(corpus, members={key: opened, **dict(members[1:])}, skip_bad=False))


def _members(corpus: Corpus) -> Mapping[str, Any]:
    """The files of a corpus that are read, or the corpus itself."""
    if not isinstance(corpus, FilesCorpus):
        return {"": corpus}
    return {k: m for k, m in corpus.members.items() if k not in corpus.skipped_files}


class _Builder:
    """Reads a corpus, and notes what is known of each example and where files can be opened."""

    def __init__(self, seed: int | None) -> None:
        self.seed = seed
        self.keys, self.contents, self.ranks = array("Q"), array("Q"), array("Q")
        self.lengths, self.begins, self.places = array("I"), array("B"), array("I")
        self.documents, self.texts = array("Q"), array("Q")  # hashes of names, and of texts
        self.openings = array("q")  # member, line, byte; member, line, byte; ...
        self.facts: list[Mapping[str, str]] = []  # of each member
        self._wrong = array("q")  # openings that turned out to be none
        # of the member that is read:
        self._member: Any = None
        self._key: str | None = None
        self._alone = array("Q")  # the hashes of its examples without a document

    def build(self, corpus: Corpus) -> CorpusIndex:
        document: str | None = None
        for example in self._read(corpus):
            self._add(example, example.document is None or example.document != document)
            document = example.document
        is_right = np.ones(self._n_openings, bool)
        is_right[np.frombuffer(self._wrong, np.int64)] = False
        places = (np.cumsum(is_right) - 1)[np.frombuffer(self.places, np.uint32)]
        hashes = np.frombuffer(self.documents, np.uint64)
        _, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
        documents = first.argsort().argsort()[inverse]  # numbered as they come
        sums = np.zeros(len(first), np.uint64)
        np.add.at(sums, documents, np.frombuffer(self.texts, np.uint64))  # in whatever order
        return CorpusIndex(
            np.frombuffer(self.keys, np.uint64),
            np.frombuffer(self.contents, np.uint64),
            np.frombuffer(self.ranks, np.uint64),
            np.frombuffer(self.lengths, np.uint32),
            np.frombuffer(self.begins, np.bool_),
            documents.astype(np.uint32),
            sums[documents],
            places.astype(np.uint32),
            np.frombuffer(self.openings, np.int64).reshape(-1, 3)[is_right],
            tuple(self.facts),
        )

    @property
    def _n_openings(self) -> int:
        return len(self.openings) // 3

    def _read(self, corpus: Corpus) -> Iterable[Example]:
        """The corpus, whose members are followed."""
        members: dict[str, Any] = {
            key: _Followed(partial(self._follow, number, key, member))
            for number, (key, member) in enumerate(_members(corpus).items())
        }
        if isinstance(corpus, FilesCorpus):
            return replace(corpus, members=members, skip_bad=False)
        return members[""]  # type: ignore[no-any-return]

    def _add(self, example: Example, begins: bool) -> None:
        self.keys.append(example.key)
        self.contents.append(hash_content(example))
        self.lengths.append(_count_characters(example))
        self.begins.append(begins)
        self.documents.append(stable_hash(example.own_document))
        self.texts.append(hash_text(example))
        self.places.append(self._n_openings - 1)
        if self._is_open():
            self._alone.append(hash_content(replace(example, document=self._key)))
        if self.seed is not None:
            self.ranks.append(rank_of(self.seed, example))

    def _follow(self, number: int, key: str, corpus: Any) -> Iterator[Example]:
        """The examples of a member, read while this takes notes.

        Whether a text marks documents is known after the first of them. Until then both answers
        are kept: the hashes of its examples without a document, and openings that need none.
        """
        self.openings.extend((number, 1, 0))
        n_before, tentative = len(self.keys), array("q")
        self._member, self._key, self._alone = corpus, key or None, array("Q")
        if getattr(corpus, "opens_after", ""):
            yield from corpus.opened(Opening(tell=self._note(number, corpus, tentative)))
            if corpus.has_documents:
                self._wrong.extend(tentative)
            elif self._alone:
                self.contents[n_before:] = self._alone
                if not key:  # each of them is a document
                    self.begins[n_before:] = array("B", [1]) * len(self._alone)
                    self.documents[n_before:] = self.keys[n_before:]
        else:
            yield from corpus
        self.facts.append(corpus.facts if isinstance(corpus, FileCorpus) else {})

    def _is_open(self) -> bool:
        return getattr(self._member, "has_documents", True) is None

    def _note(
        self, number: int, corpus: Any, tentative: "array[int]"
    ) -> Callable[[int, bytes], None]:
        """What is told of every line: it notes after which the file can be opened."""
        byte, was_blank, first = 0, False, 0

        def tell(line: int, raw: bytes) -> None:
            nonlocal byte, was_blank, first
            is_blank = not raw.strip()
            first = first or (0 if is_blank else line)
            if line > 1 and not is_blank:
                if was_blank or corpus.opens_after == FileCorpus.LINE:
                    self.openings.extend((number, line, byte))
                elif not corpus.has_documents and (line - first) % corpus.opens_every == 0:
                    tentative.append(self._n_openings)
                    self.openings.extend((number, line, byte))
            byte, was_blank = byte + len(raw), is_blank

        return tell


@dataclass(frozen=True)
class _Followed:
    """A member of a corpus while it is followed."""

    read: Callable[[], Iterator[Example]]

    def __iter__(self) -> Iterator[Example]:
        return self.read()


def _stamp(corpus: Corpus, seed: int | None) -> list[Any] | None:
    """What an index depends on; None where it is not known."""
    members = _members(corpus)
    if not all(isinstance(member, FileCorpus) for member in members.values()):
        return None
    files = []
    for key, member in members.items():
        try:
            status = member.path.stat()
        except OSError:  # a link that leads nowhere, or a file that is gone: told when it is read
            return None
        facts = (str(member.path.absolute()), status.st_size, status.st_mtime_ns)
        files.append((repr(member), key, *facts))
    return [VERSION, seed, files]


def _write(path: Path, index: CorpusIndex) -> None:
    arrays = {name: value for name, value in vars(index).items() if name != FACTS}
    write_atomically(path, save(arrays, metadata=describe_arrays(arrays, index.facts)))


def _read(path: Path) -> CorpusIndex | None:
    """The index in a file; None where the file is damaged, so that it is made again."""
    try:
        arrays, facts = read_arrays(path, "numpy")
        return CorpusIndex(**arrays, facts=tuple(facts))
    except (OutputError, TypeError):
        return None
