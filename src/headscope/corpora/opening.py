"""From what a user typed to a corpus: a file, a folder of files, or a registered name."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from headscope.contracts import Corpus
from headscope.corpora.lines import strip_gz
from headscope.data.example import Example
from headscope.errors import InputError
from headscope.registry import CORPORA, suggest

__all__ = ["FolderCorpus", "open_corpus"]


@dataclass(frozen=True)
class FolderCorpus:
    """The files of a folder, one after the other; an id begins with its file's place in it."""

    path: Path
    members: dict[str, Corpus]  # by path within the folder

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def provides(self) -> frozenset[str]:
        return frozenset.intersection(*(member.provides for member in self.members.values()))

    def __iter__(self) -> Iterator[Example]:
        for place, member in self.members.items():
            for example in member:
                yield replace(example, id=f"{place}/{example.id}")

    def digest(self) -> str:
        parts = (f"{place} {member.digest()}\n" for place, member in self.members.items())
        return sha256("".join(parts).encode()).hexdigest()


def open_corpus(name: str | Path, role: str) -> Corpus:
    """The corpus behind a path or a registered name, read for a role: "text", "treebank"."""
    path = Path(name)
    if path.is_dir():
        return _open_folder(path, role)
    if path.exists():
        return _open_file(path, role)
    named = _load_named()
    if str(name) in named:
        found = named[str(name)]
        return _open_file(found, role) if isinstance(found, Path) else _build(found)
    raise InputError(
        f"No corpus {str(name)!r}: there is no such file or folder."
        f"{suggest(str(name), [*named, *_neighbours(path)])} Expected a path "
        f"({', '.join(_formats(role))}, also .gz) or a name: {', '.join(named)}."
    )


def _open_file(path: Path, role: str) -> Corpus:
    formats = _formats(role)
    suffix = strip_gz(path).suffix
    if suffix not in formats:
        raise InputError(
            f"{path} cannot be read as {role}: its ending is {suffix!r}. Expected "
            f"{', '.join(formats)} (also .gz); rename it to what it holds, or convert it."
        )
    return _build(formats[suffix], path)


def _open_folder(path: Path, role: str) -> Corpus:
    formats = _formats(role)
    files = sorted(p for p in path.rglob("*") if p.is_file() and strip_gz(p).suffix in formats)
    if not files:
        raise InputError(
            f"Folder {path} has no {role} file. Expected files that end in "
            f"{', '.join(formats)} (also .gz); check the path."
        )
    return FolderCorpus(path, {str(p.relative_to(path)): _open_file(p, role) for p in files})


def _formats(role: str) -> dict[str, Any]:
    """The class that reads each file ending in this role."""
    kinds = [entry.load() for entry in CORPORA.entries().values()]
    return {
        suffix: kind
        for kind in kinds
        if role in getattr(kind, "roles", ())
        for suffix in kind.suffixes
    }


def _load_named() -> dict[str, Any]:
    """What stands for a corpus itself rather than for a format: a path, or a class without one."""
    loaded = {name: entry.load() for name, entry in CORPORA.entries().items()}
    return {
        name: item
        for name, item in loaded.items()
        if isinstance(item, Path) or not getattr(item, "suffixes", ())
    }


def _build(kind: Any, *path: Path) -> Corpus:
    corpus: Corpus = kind(*path)
    return corpus


def _neighbours(path: Path) -> list[str]:
    parent = path.parent
    return [str(parent / p.name) for p in parent.iterdir()] if parent.is_dir() else []
