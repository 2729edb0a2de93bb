"""Corpora in a file: its lines, plain or gzipped, with errors that say where."""

import gzip
import hashlib
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import ClassVar

from headscope.contracts import CorpusRole
from headscope.errors import InputError

__all__ = ["FileCorpus", "file_digest", "read_lines", "strip_gz"]


@dataclass(frozen=True)
class FileCorpus:
    """What all formats share; each adds its `roles`, `suffixes`, `provides` and `__iter__`."""

    roles: ClassVar[frozenset[CorpusRole]]
    suffixes: ClassVar[tuple[str, ...]]
    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    def digest(self) -> str:
        return file_digest(self.path)


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


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Each line with its number, counted from 1, without its line end."""
    with open_bytes(path) as stream:
        number = 0
        try:
            for number, raw in enumerate(stream, start=1):
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
