"""The gate for corpora in files: lines, plain or gzipped, with errors that say where.

Whatever a reader stumbles over becomes one short error with file and line, and a file that changes
between two readings is refused.
"""

import gzip
import hashlib
import os
import stat
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BufferedReader
from logging import getLogger
from pathlib import Path
from typing import ClassVar, TypeVar

from headscope.contracts import CorpusRole
from headscope.corpora.collection import BaseCorpus
from headscope.data.example import Example
from headscope.errors import HeadscopeError, InputError, say_count, shorten

__all__ = ["FileCorpus", "Lines", "file_digest", "read_lines", "strip_gz"]

LONGEST_LINE = 16_000_000  # bytes; a long novel has three million
LONGEST_GAP = 1_000_000  # bytes of blank lines in a row; a small .gz can hold any number
MOST_NOTES = 5  # different ones; others are only counted
SHOWN_ERRORS = 20
LEFT_OUT = "left out"

T = TypeVar("T")

log = getLogger("headscope")


class Lines:
    """The lines of a file with their numbers from 1, without line ends. It knows where it is.

    After the last line, `digest` is the sha256 of what was read. `notes` counts what a reader
    leaves out without an error; it is told at the end. So are the `errors` of single sentences.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.number = path, 0
        self.errors: list[str] = []
        self.digest: str | None = None
        self.notes: Counter[str] = Counter()

    def __iter__(self) -> Iterator[tuple[int, str]]:
        digest, gap = hashlib.sha256(), 0
        with open_bytes(self.path) as stream:
            while raw := self._read_line(stream):
                self.number += 1
                digest.update(raw)
                gap = gap + len(raw) if raw.isspace() else 0
                if gap > LONGEST_GAP:
                    raise self.error(
                        f"more than {LONGEST_GAP:,} bytes of blank lines in a row. Expected text; "
                        "remove them."
                    )
                yield self.number, self._decode(raw)
        self.digest = digest.hexdigest()

    def error(self, what: str, number: int | None = None) -> InputError:
        """An error that names this line, or another one."""
        return InputError(f"{self.path}:{number or self.number or 1}: {what}")

    def gather(self, read: Callable[[], T]) -> T | None:
        """What is read; None where that fails, which is told with all such errors at the end."""
        try:
            return read()
        except InputError as error:
            self.errors.append(str(error))
            return None

    def note(self, what: str) -> None:
        """Count something that is left out."""
        is_new = what not in self.notes and len(self.notes) >= MOST_NOTES
        self.notes["notes of other kinds are not shown." if is_new else what] += 1

    def _read_line(self, stream: BufferedReader | gzip.GzipFile) -> bytes:
        number = self.number + 1
        try:
            raw = stream.readline(LONGEST_LINE + 1)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            what = (
                f"the gzip data is damaged ({error}). Expected a whole .gz file; compress it "
                "again, or pass it uncompressed."
            )
            raise self.error(what, number) from error
        except OSError as error:
            what = (
                f"the rest of the file cannot be read ({error.strerror}). Expected a readable "
                "file; check the disk or the network drive."
            )
            raise self.error(what, number) from error
        if len(raw) > LONGEST_LINE:
            what = f"this line is longer than {LONGEST_LINE:,} bytes. Expected lines of text; "
            raise self.error(f"{what}break it into several.", number)
        return raw

    def _decode(self, raw: bytes) -> str:
        if b"\0" in raw:
            raise self.error(
                "this is a binary file (it holds a NUL byte). Expected UTF-8 text; pass the text "
                "itself, or convert it first."
            )
        try:
            line = raw.decode("utf-8-sig" if self.number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            name = self.path.name
            raise self.error(
                f"byte {error.start + 1} of the line is not valid UTF-8. Expected UTF-8 text; "
                "convert the file first, for example: "
                f"iconv -f latin1 -t utf-8 {name} > utf8-{name}"
            ) from error
        return line.rstrip("\r\n")


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Each line with its number, counted from 1, without its line end."""
    return iter(Lines(path))


@dataclass(frozen=True)
class FileCorpus(BaseCorpus):
    """What all formats share; each adds its `roles`, `suffixes`, `provides` and `read`.

    The first whole reading fixes the content: a later one that finds another is an error.
    """

    roles: ClassVar[frozenset[CorpusRole]]  # the options that accept it
    suffixes: ClassVar[tuple[str, ...]]  # of the files that it reads
    path: Path
    skip_bad: bool = False  # leave out sentences that cannot be read
    _known: dict[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def location(self) -> str:
        return str(self.path)

    def read(self, lines: Lines) -> Iterator[Example]:
        """The examples of these lines; `lines.error` gives an error that names the line."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[Example]:
        lines, is_empty = Lines(self.path), True
        try:
            for example in self.read(lines):
                is_empty = False
                yield example
        except (HeadscopeError, GeneratorExit):
            raise
        except Exception as error:  # whatever it is: the file did not suit the reader
            reason = f"{type(error).__name__}: {shorten(str(error))}"
            raise lines.error(
                f"the file cannot be read from here on ({reason}). Expected the format described "
                "in docs/corpora.md; fix or remove the line."
            ) from error
        if lines.errors:
            self._tell_errors(lines.errors, can_skip=not is_empty)
        if is_empty:
            raise self.empty()
        if lines.digest is not None:  # it was read to its end
            self._check(lines.digest)
        if lines.notes and "told" not in self._known:
            self._known["told"] = "yes"
            for what, n in lines.notes.items():
                log.warning("%s: %s", self.path, shorten(f"{n:,} {what}", 200))

    @property
    def skipped_files(self) -> Mapping[str, str]:
        """Where sentences were left out: how many, and why the first; known after a reading."""
        return {self.name: self._known[LEFT_OUT]} if LEFT_OUT in self._known else {}

    def _tell_errors(self, errors: Sequence[str], can_skip: bool) -> None:
        """Say which sentences are left out, or refuse the file for them."""
        if self.skip_bad and can_skip:
            n = say_count(len(errors), "sentence")
            self._known[LEFT_OUT] = f"{self.path}: {n} left out that cannot be read. {errors[0]}"
            return
        n_more = len(errors) - SHOWN_ERRORS
        more = [f"... and {n_more:,} more."] * (n_more > 0)
        listed = "\n  ".join([*errors[:SHOWN_ERRORS], *more])
        if self.skip_bad:
            n = say_count(len(errors), "sentence")
            raise InputError(
                f"{self.path}: nothing is left without its {n} that cannot be read. Expected at "
                f"least one that can; mend some of them.\n  {listed}"
            )
        if len(errors) == 1:
            raise InputError(errors[0])
        raise InputError(
            f"{self.path} has {len(errors):,} sentences that cannot be read. Expected all to be as "
            f"described in docs/corpora.md; mend them, or leave them out with --skip-bad.\n  "
            f"{listed}"
        )

    def empty(self) -> InputError:
        """The error for a file without an example."""
        return InputError(
            f"{self.path} is empty: it has no example. Expected at least one line of text or one "
            "sentence; check the file."
        )

    def digest(self) -> str:
        if "digest" not in self._known:
            self._check(file_digest(self.path))
        return self._known["digest"]

    def _check(self, digest: str) -> None:
        if self._known.setdefault("digest", digest) != digest:
            raise InputError(
                f"{self.path} changed while it was being read: two readings gave different "
                "content. Expected a file that stays as it is until the run is done; run it again "
                "when nothing writes to the file."
            )


def strip_gz(path: Path) -> Path:
    """The path without `.gz`: its suffix is that of the content."""
    return path.with_suffix("") if path.suffix.lower() == ".gz" else path


def open_bytes(path: Path) -> BufferedReader | gzip.GzipFile:
    """The file's content, uncompressed."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise InputError(
                f"{path} is not an ordinary file, but a folder, a pipe or a device. Expected a "
                "file, which can be read more than once; save the data to one."
            )
        return gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb")
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or str(error)
        raise InputError(
            f"{path} cannot be read: {reason}. Expected a readable file; check the path "
            "and its permissions."
        ) from error


def file_digest(path: Path) -> str:
    """The sha256 of the uncompressed content, so that zipping a corpus does not change it."""
    try:
        with open_bytes(path) as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(
            f"{path} cannot be read to its end ({shorten(str(error))}). Expected a whole, readable "
            "file; check it, or compress it again."
        ) from error
