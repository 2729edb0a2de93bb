"""From what a user names to corpora: files, folders, registered names, texts and examples."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from headscope.arguments import checked, fits
from headscope.contracts import Corpus, CorpusRole
from headscope.corpora.collection import (
    BaseCorpus,
    FilesCorpus,
    MemoryCorpus,
    adopt,
    is_corpus,
    read_frame,
)
from headscope.corpora.lines import FileCorpus, strip_gz
from headscope.data.example import Example
from headscope.errors import InputError, StudyError, shorten, suggest
from headscope.registry import CORPORA, warn_once

__all__ = ["CorporaLike", "as_corpora", "open_corpus", "texts"]

if TYPE_CHECKING:
    from pandas import DataFrame

    CorporaLike: TypeAlias = (
        str | Path | Corpus | Iterable[str | Path | Corpus | Example] | DataFrame
    )
else:
    CorporaLike = Any  # pandas takes long to load
Formats = Mapping[str, Any]  # file ending -> the class that reads such files


@checked
def open_corpus(name: str | Path, role: CorpusRole | str, skip_bad: bool = False) -> BaseCorpus:
    """The corpus behind a path or a registered name, read for a role: "text", "treebank", "coref".

    With `skip_bad`, unreadable files in a folder are left out and recorded.
    """
    roles = [member.value for member in CorpusRole]
    if role not in roles:
        raise StudyError(
            f"No corpus role {shorten(role)!r}.{suggest(str(role), roles)} Expected one of "
            f"{', '.join(roles)}."
        )
    return _open(name, CorpusRole(role), skip_bad)


def _open(name: str | Path, role: CorpusRole, skip_bad: bool = False) -> BaseCorpus:
    if kind := _find_scheme(name):
        if role not in kind.roles:
            raise InputError(
                f"{name} cannot be read as {role}. Expected {', '.join(sorted(kind.roles))}; pass "
                "it there, or give a file."
            )
        of_address: BaseCorpus = kind(str(name))
        return of_address
    if os.path.isdir(name):
        return FilesCorpus(_base_name(name), _open_folder(Path(name), role, skip_bad), skip_bad)
    formats, named = _load_formats(role), _load_named()
    if os.path.exists(name):
        return _open_file(Path(name), role, formats, skip_bad)
    if str(name) in named:
        target = named[str(name)]
        return _open_file(target, role, formats) if isinstance(target, Path) else adopt(target())
    near = list(named)
    with suppress(OSError, ValueError):  # there is nothing to suggest
        parent = Path(name).parent
        near += [str(parent / beside) for beside in os.listdir(parent)]
    raise InputError(
        f"No corpus {shorten(str(name), 200)!r}: there is no such file or folder."
        f"{suggest(str(name), near)} Expected a path "
        f"({', '.join(formats)}, also .gz) or a name: {', '.join(named)}."
        + (" In Python, pass texts as hs.texts([...])." if role is CorpusRole.TEXT else "")
    )


@checked
def texts(items: str | Iterable[str]) -> MemoryCorpus:
    """A corpus of these texts, even where one of them is also the name of a file.

    >>> [example.text for example in texts(["A small text.", "README.md"])]
    ['A small text.', 'README.md']
    """
    return MemoryCorpus((items,) if isinstance(items, str) else tuple(items))


def as_corpora(items: CorporaLike, role: CorpusRole, skip_bad: bool = False) -> list[BaseCorpus]:
    """The corpora that a user gives for a role.

    A list of examples is one corpus. A list of paths, registered names and corpora is so many
    corpora; for the role TEXT it is one, of files read in this order. There, strings that name no
    file are texts, and a pandas DataFrame is a corpus too.
    """
    if role == CorpusRole.TEXT and hasattr(items, "itertuples"):
        return [MemoryCorpus(list(read_frame(items)), name="table")]
    if is_corpus(items):
        return [adopt(items)]
    if isinstance(items, (str, Path)):
        is_text = role == CorpusRole.TEXT and isinstance(items, str) and _is_text(items)
        return [texts([str(items)]) if is_text else _open(items, role, skip_bad)]
    if not fits(items, Iterable[Any]):
        raise InputError(
            f"This is not a corpus: {shorten(items)}. Expected a path, a registered name, a "
            "corpus, a table with a column 'text', or an iterable of strings or of "
            "headscope.Example objects; convert it first."
        )
    if not isinstance(items, Sequence):
        items = tuple(items)  # type: ignore[arg-type]  # no table; it is read more than once
    if all(isinstance(item, Example) for item in items):
        return [MemoryCorpus(items, role=role)]  # type: ignore[arg-type]  # all are examples
    if role == CorpusRole.TEXT:
        return [_open_list(items, skip_bad)]
    return [corpus for item in items for corpus in as_corpora(item, role, skip_bad)]  # type: ignore[arg-type]


def _open_list(items: Sequence[Any], skip_bad: bool) -> BaseCorpus:
    formats, named = _load_formats(CorpusRole.TEXT), _load_named()
    are_corpora = [_names_corpus(item, formats, named) for item in items]
    if not any(are_corpora):
        return MemoryCorpus(items)
    if not all(are_corpora):
        item, other = are_corpora.index(True), are_corpora.index(False)
        raise InputError(
            f"Item {item + 1} of the list ({shorten(items[item])}) names a file or corpus, but "
            f"item {other + 1} ({shorten(items[other])}) does not. Expected only files that "
            "exist, or only texts; check the paths, or pass hs.texts([...]) for texts."
        )
    if len(items) == 1:
        return as_corpora(items[0], CorpusRole.TEXT, skip_bad)[0]
    keys = _choose_keys(items)
    members: dict[str, BaseCorpus] = {}
    paths: set[str] = set()
    for key, item in zip(keys, items, strict=True):
        if is_corpus(item):
            opened: dict[str, BaseCorpus] = {key: adopt(item)}
        elif os.path.isdir(item):  # as many corpora as it has files
            folder = _open_folder(Path(item), CorpusRole.TEXT, skip_bad)
            opened = {f"{key}/{inner}": corpus for inner, corpus in folder.items()}
        else:
            opened = {key: _open(item, CorpusRole.TEXT, skip_bad)}
        for member_key, member in opened.items():
            path = os.path.abspath(member.location) if member.location else member_key
            if member_key in members or path in paths:
                raise InputError(
                    f"Two items of the list are {member_key!r}. Expected different files, and "
                    f"corpora with different names; leave one out, or rename it."
                )
            members[member_key] = member
            paths.add(path)
    name = f"{os.path.basename(keys[0])} and {len(keys) - 1} more"
    return FilesCorpus(name, members, skip_bad)


def _choose_keys(items: Sequence[Any]) -> list[str]:
    """What the ids of each item begin with: its name, or its path where names are alike.

    >>> _choose_keys(["a/one.txt", "b/two.txt"])
    ['one.txt', 'two.txt']
    """
    names = [item.name if is_corpus(item) else _base_name(item) for item in items]
    files = [i for i, item in enumerate(items) if not is_corpus(item) and os.path.exists(item)]
    if len(set(names)) == len(names) or not files:
        return names
    paths = {i: os.path.abspath(items[i]) for i in files}
    common = os.path.commonpath([os.path.dirname(path) for path in paths.values()])
    return [os.path.relpath(paths[i], common) if i in paths else n for i, n in enumerate(names)]


def _names_corpus(item: object, formats: Formats, named: Mapping[str, Any]) -> bool:
    """Whether an item of a list is a corpus or its path or name, not a text or an example."""
    if not isinstance(item, str):
        return isinstance(item, Path) or is_corpus(item)
    is_file_name = len(item.split()) == 1 and _find_format(Path(item), formats) is not None
    is_name = item in named or _find_scheme(item) is not None
    return os.path.exists(item) or is_name or is_file_name


def _is_text(item: str) -> bool:
    """Whether a string is a text: several words that are no path and do not look like one."""
    is_known = os.path.exists(item) or item in _load_named() or _find_scheme(item)
    if is_known or len(item.split()) < 2:
        return False
    has_format = _find_format(Path(item), _load_formats(CorpusRole.TEXT)) is not None
    return not (has_format or "/" in item or os.sep in item)


def _find_scheme(item: object) -> Any:
    """What reads an address such as hf:NAME, or None."""
    if not re.match(r"[a-z]+:\S", str(item)):
        return None
    kinds = (kind for _, kind in CORPORA.load_all() if _reads(kind, BaseCorpus) and kind.scheme)
    return next((kind for kind in kinds if str(item).startswith(kind.scheme)), None)


def _reads(item: Any, kind: type) -> bool:
    return isinstance(item, type) and issubclass(item, kind)


def _open_file(
    path: Path, role: CorpusRole, formats: Formats, skip_bad: bool = False
) -> BaseCorpus:
    kind = _find_format(path, formats)
    if kind is None:
        shown = shorten(strip_gz(path).suffix)
        raise InputError(
            f"{path} cannot be read as {role}: its ending is {shown!r}. Expected "
            f"{', '.join(formats)} (also .gz); rename it to match its content, or convert it."
        )
    if path.name != path.name.encode(errors="replace").decode():
        raise InputError(
            f"The file name {path.name!r} is not valid UTF-8. Expected one that is, as ids of "
            "examples begin with it; rename the file."
        )
    corpus: BaseCorpus = kind(path, skip_bad=True) if skip_bad else kind(path)
    return corpus


def _open_folder(path: Path, role: CorpusRole, skip_bad: bool) -> dict[str, BaseCorpus]:
    """The files in a folder and below that have a format of this role, by path within it."""
    formats = _load_formats(role)
    files = sorted(file for file in _walk(path) if _find_format(file, formats))
    if not files:
        raise InputError(
            f"Folder {path} has no {role} file. Expected files that end in "
            f"{', '.join(formats)} (also .gz); check the path."
        )
    return {str(p.relative_to(path)): _open_file(p, role, formats, skip_bad) for p in files}


def _walk(folder: Path) -> Iterator[Path]:
    """All that is not a folder in a folder and below, through links too, each folder once.

    A link that leads nowhere or a pipe is among it: it is told when it is read.
    """

    def refuse(error: OSError) -> None:
        raise InputError(
            f"Folder {error.filename} cannot be read: {error.strerror}. Expected folders that may "
            "be listed; check their permissions."
        ) from error

    seen: set[str] = set()
    for parent, folders, files in os.walk(folder, onerror=refuse, followlinks=True):
        if os.path.realpath(parent) in seen:
            folders.clear()
            continue
        seen.add(os.path.realpath(parent))
        yield from (Path(parent) / file for file in files)


def _find_format(path: Path, formats: Formats) -> Any:
    """What reads a file of this name, in small or capital letters, or None."""
    name = strip_gz(path).name.lower()
    return next((kind for ending, kind in formats.items() if name.endswith(ending)), None)


def _load_formats(role: CorpusRole) -> Formats:
    """The class that reads each file ending in this role; of two classes for one the last."""
    formats: dict[str, Any] = {}
    for name, kind in CORPORA.load_all():
        if not _reads(kind, FileCorpus):
            continue  # a corpus of this name, or of addresses
        if isinstance(kind.suffixes, str) or isinstance(kind.roles, str) or not kind.roles:
            warn_once(
                f"The corpus format {name!r} is not used because its class does not say what it "
                f"reads. "
                "Expected `suffixes`, a tuple of strings, and `roles`, a frozenset of CorpusRole; "
                "check it with headscope.testing.check_corpus."
            )
        elif role in kind.roles:
            formats |= dict.fromkeys(kind.suffixes, kind)
    return formats


def _load_named() -> dict[str, Any]:
    """What stands for a corpus itself rather than for a format: a path, or a class without one."""
    return {
        name: item
        for name, item in CORPORA.load_all()
        if not (_reads(item, FileCorpus) or (_reads(item, BaseCorpus) and item.scheme))
    }


def _base_name(path: str | Path) -> str:
    return os.path.basename(os.path.abspath(path))
