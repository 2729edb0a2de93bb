"""Corpora in a file: its lines, plain or gzipped, with errors that say where."""

import gzip
import hashlib
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from io import BufferedReader
from pathlib import Path
from typing import Any, ClassVar, Self

from headscope.contracts import CorpusRole
from headscope.errors import InputError

__all__ = ["FROM_START", "FileCorpus", "Opening", "file_digest", "read_lines", "strip_gz"]


@dataclass(frozen=True)
class Opening:
    """Where the reading of a file begins, and who is told of every line that is read."""

    line: int = 1  # the number of the first line that is read
    byte: int = 0  # where it begins, in the uncompressed content
    tell: Callable[[int, bytes], None] | None = None  # the number of a line, and its bytes


FROM_START = Opening()


@dataclass(frozen=True)
class FileCorpus:
    """What all formats share; each adds its `roles`, `suffixes`, `provides` and `__iter__`.

    A format whose examples do not depend on what stands before them says after what it can be
    `opened` in the middle: after any LINE, or after a BLANK one.
    """

    LINE: ClassVar[str] = "line"
    BLANK: ClassVar[str] = "blank line"
    roles: ClassVar[frozenset[CorpusRole]]
    suffixes: ClassVar[tuple[str, ...]]
    opens_after: ClassVar[str] = ""
    path: Path
    opening: Opening = field(default=FROM_START, repr=False, compare=False, kw_only=True)

    @property
    def name(self) -> str:
        return self.path.name

    def digest(self) -> str:
        known: str | None = vars(self).get("known_digest")
        return known or file_digest(self.path)

    def remember_digest(self, digest: str) -> None:
        """Keep the digest of what was read, so that the file need not be read for it again."""
        vars(self)["known_digest"] = digest

    def opened(self, opening: Opening) -> Self:
        """The same file read from another line on."""
        return self._changed(opening=opening)

    def moved(self, path: Path) -> Self:
        """A copy of the same file."""
        return self._changed(path=path)

    def _changed(self, **fields: Any) -> Self:
        """What is known of the file stays known."""
        changed = replace(self, **fields)
        vars(changed).update({n: v for n, v in vars(self).items() if n not in vars(changed)})
        return changed


def strip_gz(path: Path) -> Path:
    """The path without `.gz`: its suffix is that of the content."""
    return path.with_suffix("") if path.suffix == ".gz" else path


def open_bytes(path: Path) -> BufferedReader | gzip.GzipFile:
    """The file's content, uncompressed."""
    try:
        return gzip.open(path) if path.suffix == ".gz" else path.open("rb")
    except OSError as error:
        raise InputError(
            f"{path} cannot be read: {error.strerror}. Expected a readable file; "
            "check the path and its permissions."
        ) from error


def read_lines(path: Path, opening: Opening = FROM_START) -> Iterator[tuple[int, str]]:
    """Each line with its number, counted from 1, without its line end."""
    with open_bytes(path) as stream:
        number = opening.line - 1
        try:
            stream.seek(opening.byte)
            for number, raw in enumerate(stream, start=opening.line):
                if opening.tell:
                    opening.tell(number, raw)
                yield number, _decode(raw, path, number)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InputError(
                f"{path}:{number + 1}: the gzip data is damaged ({error}). Expected a whole .gz "
                "file; compress it again, or pass it uncompressed."
            ) from error


def _decode(raw: bytes, path: Path, number: int) -> str:
    if b"\0" in raw:
        raise InputError(
            f"{path}:{number}: this is a binary file (it holds a NUL byte). Expected UTF-8 text; "
            "pass the text itself, or convert it first."
        )
    try:
        line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}:{number}: byte {error.start + 1} of the line is not valid UTF-8. Expected "
            f"UTF-8 text; convert the file first, for example: "
            f"iconv -f latin1 -t utf-8 {path.name} > utf8-{path.name}"
        ) from error
    return line.rstrip("\r\n")


def file_digest(path: Path) -> str:
    """The sha256 of the uncompressed content, so that zipping a corpus does not change it."""
    with open_bytes(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
