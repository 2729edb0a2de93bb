"""Where the examples of a corpus stand: it is read once, and any of them can be read alone."""

import json
from array import array
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from headscope.contracts import Corpus
from headscope.corpora.collection import FilesCorpus
from headscope.corpora.lines import FileCorpus, Opening
from headscope.data.example import Example, stable_hash
from headscope.errors import InputError, WriteError
from headscope.files import write_atomically

__all__ = ["CorpusIndex", "CorpusReader", "find_index", "rank_of"]

VERSION = 1
LEAST_BYTES = 16 << 20  # a smaller corpus is read again as quickly as its index
NEAR = 32  # examples: so many are read on rather than jumped over
DIGESTS = "digests"


@dataclass(frozen=True)
class CorpusIndex:
    """What is known of each example, in the order of the corpus: some 30 bytes."""

    keys: NDArray[np.uint64]  # the hash of its id
    contents: NDArray[np.uint64]  # the hash of all that it holds
    ranks: NDArray[np.uint64]  # its place in a seeded sample; empty where none is drawn
    lengths: NDArray[np.uint32]  # characters
    begins: NDArray[np.bool_]  # whether a document begins with it
    places: NDArray[np.uint32]  # from which opening it is read
    openings: NDArray[np.int64]  # [place, (member, line, byte)]
    digests: tuple[str, ...] = ()  # of each member

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
    for member, digest in zip(_members(corpus).values(), index.digests, strict=False):
        if isinstance(member, FileCorpus):
            member.remember_digest(digest or member.digest())
    return index


def build_index(corpus: Corpus, seed: int | None = None) -> CorpusIndex:
    """Read the corpus once, from start to end."""
    follower = _Follower()
    keys, contents, ranks = array("Q"), array("Q"), array("Q")
    lengths, begins, places = array("I"), array("B"), array("I")
    document: str | None = None
    for example in follower.follow(corpus):
        keys.append(example.key)
        contents.append(hash_content(example))
        lengths.append(_count_characters(example))
        begins.append(example.document is None or example.document != document)
        places.append(len(follower.openings) // 3 - 1)
        if seed is not None:
            ranks.append(rank_of(seed, example))
        document = example.document
    return CorpusIndex(
        np.frombuffer(keys, np.uint64),
        np.frombuffer(contents, np.uint64),
        np.frombuffer(ranks, np.uint64),
        np.frombuffer(lengths, np.uint32),
        np.frombuffer(begins, np.bool_),
        np.frombuffer(places, np.uint32),
        np.frombuffer(follower.openings, np.int64).reshape(-1, 3),
        follower.digests(),
    )


def rank_of(seed: int, example: Example) -> int:
    """A number that orders examples as if at random."""
    return stable_hash(f"{seed} {example.id}")


def hash_content(example: Example) -> int:
    """A number that any change of the example changes."""
    return stable_hash(repr(example))


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


class _Follower:
    """Follows the reading of a corpus: where it could be opened, and the hashes of its files."""

    def __init__(self) -> None:
        self.openings = array("q")  # member, line, byte; member, line, byte; ...
        self._hashes: list[Any] = []  # of each member; None where it does not tell its lines

    def follow(self, corpus: Corpus) -> Iterator[Example]:
        """The examples of the corpus, read while this takes notes."""
        members: dict[str, Any] = {
            key: _Followed(number, member, self)
            for number, (key, member) in enumerate(_members(corpus).items())
        }
        if isinstance(corpus, FilesCorpus):
            yield from replace(corpus, members=members, skip_bad=False)
        else:
            yield from members[""]

    def begin(self, number: int, corpus: Any) -> Any:
        """The member, which now tells what is read of it."""
        self.openings.extend((number, 1, 0))
        self._hashes += [None] * (number + 1 - len(self._hashes))
        after = getattr(corpus, "opens_after", "")
        if not after:
            return corpus
        hash = self._hashes[number] = sha256()
        byte, was_blank = 0, False

        def tell(line: int, raw: bytes) -> None:
            nonlocal byte, was_blank
            is_blank = not raw.strip()
            if line > 1 and not is_blank and (was_blank or after == FileCorpus.LINE):
                self.openings.extend((number, line, byte))
            hash.update(raw)
            byte, was_blank = byte + len(raw), is_blank

        return corpus.opened(Opening(tell=tell))

    def digests(self) -> tuple[str, ...]:
        """The hash of each member that was read to its end; "" for one that is not known."""
        return tuple(hash.hexdigest() if hash else "" for hash in self._hashes)


@dataclass(frozen=True)
class _Followed:
    """A member of a corpus while it is followed."""

    number: int
    corpus: Any
    follower: _Follower

    def __iter__(self) -> Iterator[Example]:
        opened = self.follower.begin(self.number, self.corpus)
        yield from opened
        if opened is not self.corpus:  # it may have found out something about itself
            known = vars(self.corpus)
            known.update({n: v for n, v in vars(opened).items() if n not in known})


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
        facts = (key, str(member.path.absolute()), status.st_size, status.st_mtime_ns)
        files.append((type(member).__name__, *facts))
    return [VERSION, seed, files]


def _write(path: Path, index: CorpusIndex) -> None:
    arrays = {name: value for name, value in vars(index).items() if name != DIGESTS}
    write_atomically(path, save(arrays, metadata={DIGESTS: json.dumps(index.digests)}))


def _read(path: Path) -> CorpusIndex | None:
    """The index in a file; None where the file is damaged, so that it is made again."""
    try:
        with safe_open(path, framework="numpy") as stream:
            arrays = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118
            digests = tuple(json.loads(stream.metadata()[DIGESTS]))
        return CorpusIndex(**arrays, digests=digests)
    except (SafetensorError, OSError, ValueError, KeyError, TypeError):
        return None
