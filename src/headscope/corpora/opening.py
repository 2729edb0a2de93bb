"""From what a user typed to a corpus: a file, a folder of files, or a registered name."""

from pathlib import Path
from typing import Any

from headscope.contracts import Corpus
from headscope.corpora.folder import FolderCorpus
from headscope.corpora.lines import strip_gz
from headscope.errors import InputError
from headscope.registry import CORPORA, suggest

__all__ = ["open_corpus"]


def open_corpus(name: str | Path, role: str, skip_bad: bool = False) -> Corpus:
    """The corpus behind a path or a registered name, read for a role: "text", "treebank", "coref".

    With `skip_bad`, the files of a folder that cannot be read are left out and remembered.
    """
    path = Path(name)
    if path.is_dir():
        return _open_folder(path, role, skip_bad)
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
    kind = _find_format(path, formats)
    if kind is None:
        raise InputError(
            f"{path} cannot be read as {role}: its ending is {strip_gz(path).suffix!r}. Expected "
            f"{', '.join(formats)} (also .gz); rename it to what it holds, or convert it."
        )
    return _build(kind, path)


def _open_folder(path: Path, role: str, skip_bad: bool) -> Corpus:
    formats = _formats(role)
    files = sorted(p for p in path.rglob("*") if p.is_file() and _find_format(p, formats))
    if not files:
        raise InputError(
            f"Folder {path} has no {role} file. Expected files that end in "
            f"{', '.join(formats)} (also .gz); check the path."
        )
    members = {str(p.relative_to(path)): _open_file(p, role) for p in files}
    return FolderCorpus(path, members, skip_bad)


def _find_format(path: Path, formats: dict[str, Any]) -> Any:
    """What reads a file of this name, or None."""
    name = strip_gz(path).name
    return next((kind for ending, kind in formats.items() if name.endswith(ending)), None)


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
