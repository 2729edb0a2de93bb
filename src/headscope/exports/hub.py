"""`headscope push`: a run or an atlas as a dataset of the Hugging Face hub; and how to read it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os.path import isfile
from pathlib import Path, PureWindowsPath
from typing import Any

from headscope.arguments import checked
from headscope.errors import HeadscopeError, OutputError, StudyError, shorten
from headscope.exports.card import write_atlas_card, write_run_card
from headscope.exports.formats import Files, draw_figures
from headscope.files import read_sealed, seal, write_folder
from headscope.registry import PROBES
from headscope.runs.folder import TABLES, UNTRAINED, RunFolder
from headscope.runs.run import Run, load_run

__all__ = ["open", "push"]

SCHEME = "hf:"
KIND = "dataset"
# What begins as a path of a machine; and such a path in a sentence, with its last part.
LOCAL = re.compile(r"~?/|\.{1,2}[/\\]|[A-Za-z]:[/\\]|\\\\")
LOCAL_PART = re.compile(r"(?<![\w.:/~])(?:~|\.{1,2})?/(?:[^\s/:]+/)*([^\s/:]+)")
TEXTS = ("examples.json", "report.html")  # sentences of the corpora are in them
MOST_SAID = 200  # characters of an error of the library


@checked
def push(
    run: Run | str | Path,
    name: str,
    *,
    private: bool = False,
    examples: bool = False,
    update: bool = False,
    dry_run: bool = False,
    out: str | Path | None = None,
) -> str:
    """Put a run, or the folder of an atlas, on the Hugging Face hub as the dataset `user/name`.

    Its tables, its manifest without paths of this machine, and a card. With `examples` also the
    sentences that it shows, and its page. `update` replaces a dataset of this name. With `dry_run`
    nothing is sent: the files are written to `out`. Gives where it is.
    """
    if not re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]{0,95}", name):
        raise StudyError(
            f"{shorten(name)!r} names no dataset. Expected USER/NAME, of letters, digits, '-', '_' "
            "and '.'; change it."
        )
    folder = run.folder if isinstance(run, Run) else Path(run)
    if folder is None:
        raise StudyError(
            "This run has no folder. Expected one that `analyze` wrote; run it with --out."
        )
    target = Path(out) if out is not None else folder / "exports" / "hub"
    if dry_run:
        RunFolder(target).refuse_if_taken()
    api = None if dry_run else _log_in()
    files = _collect(folder, name, TEXTS if examples else ())
    if api is None:
        write_folder(target, files)
        return str(target)
    return _send(api, name, files, private, update)


@checked
def open(source: str | Path, revision: str | None = None) -> Run:
    """A run, from its folder or from the hub: `hs.open("hf:user/name")`."""
    if not str(source).startswith(SCHEME):
        return load_run(source)
    name = str(source).removeprefix(SCHEME)
    with _explained(name, "read"):
        from huggingface_hub import snapshot_download

        folder = snapshot_download(name, revision=revision, repo_type=KIND)
    return load_run(folder)


def _collect(folder: Path, name: str, texts: tuple[str, ...]) -> Files:
    """The files of a dataset; the path of each in the folder is that in the dataset."""
    if isfile(folder / "index.html") and not isfile(folder / "manifest.json"):
        return _collect_atlas(folder, name, with_pages=bool(texts))
    run, files = load_run(folder), Files()
    for part in ("", f"{PROBES.plural}/"):
        if not RunFolder(folder / part).has_run:
            continue
        manifest = _without_paths(read_sealed(folder / part / "manifest.json"))
        for place, names in ((TABLES, "tables"), (UNTRAINED, "untrained_tables")):
            for table in manifest.get(names, ()):
                path = f"{part}{place}/{table}.parquet"
                files[path] = (folder / path).read_bytes()
        files[f"{part}manifest.json"] = seal(manifest, indent=2)
    files |= {text: (folder / text).read_bytes() for text in texts if (folder / text).exists()}
    figures = draw_figures(run)
    files |= {f"figures/{figure}.png": content for figure, content in figures.items()}
    run.manifest.update(_without_paths(run.manifest))
    # Without rows a table is nothing that the hub or `datasets` can show.
    tables = [n for n, t in run.tables.items() if len(t) and f"{TABLES}/{n}.parquet" in files]
    if not tables:
        raise StudyError(
            f"{shorten(str(folder), 200)} has no number to send. Expected a run that read "
            "something; measure more text."
        )
    files["README.md"] = write_run_card(run, name, tables, list(figures)).encode()
    return files


def _collect_atlas(folder: Path, name: str, with_pages: bool) -> Files:
    """The tables of an atlas and their card; its pages show sentences of the corpora."""
    paths = sorted(folder.glob(f"{TABLES}/*.parquet"))
    pages = sorted(folder.rglob("*.html")) if with_pages else []
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in [*paths, *pages]}
    read = {path.stem: RunFolder(folder).read_table(path.stem) for path in paths}
    tables = {table: rows for table, rows in read.items() if len(rows)}
    return {**files, "README.md": write_atlas_card(tables, name).encode()}


def _without_paths(value: Any) -> Any:
    """The same without the folders of this machine.

    >>> _without_paths({"path": "/home/me/My Files/notes.txt", "corpus": "hf:user/name"})
    {'path': 'notes.txt', 'corpus': 'hf:user/name'}
    """
    if isinstance(value, dict):
        return {_without_paths(key): _without_paths(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_without_paths(part) for part in value]
    if not isinstance(value, str):
        return value
    if LOCAL.match(value):
        return PureWindowsPath(value).name  # which knows both kinds of slashes
    return LOCAL_PART.sub(r"\1", value)


def _log_in() -> Any:
    """The hub, with the user's token; an error where there is none."""
    from huggingface_hub import HfApi, get_token

    if get_token() is None:
        raise StudyError(
            "There is no token for the hub. Expected one with the right to write; log in with `hf "
            "auth login`, or set HF_TOKEN. To see what would be sent, add --dry-run."
        )
    return HfApi()


def _send(api: Any, name: str, files: Files, private: bool, update: bool) -> str:
    """All files in one commit; a dataset that was made for it and got nothing is removed."""
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    with _explained(name, "written"):
        url = api.create_repo(name, private=private, exist_ok=update, repo_type=KIND)
        try:
            there = set(api.list_repo_files(name, repo_type=KIND)) - {".gitattributes"}
            changes = [CommitOperationAdd(path, content) for path, content in files.items()]
            stale = [CommitOperationDelete(path) for path in sorted(there - files.keys())]
            api.create_commit(
                name, [*changes, *stale], commit_message="Written by headscope", repo_type=KIND
            )
        except BaseException:
            if not update:
                with suppress(Exception):
                    api.delete_repo(name, repo_type=KIND)
            raise
    return str(url)


@contextmanager
def _explained(name: str, done: str) -> Iterator[None]:
    """One sentence for whatever the library and what lies under it raise."""
    try:
        yield
    except HeadscopeError:
        raise
    except Exception as error:
        status = getattr(getattr(error, "response", None), "status_code", None)
        if status == 409:
            raise OutputError(
                f"The hub has a dataset {name}. Expected a new name; choose another, or replace "
                "it with --update."
            ) from error
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:MOST_SAID]
        raise OutputError(
            f"{SCHEME}{name} cannot be {done} ({reason}). Expected a connection to the hub, an "
            "existing user, and a token with the right to do it; check them and try again."
        ) from error
