"""Runs read for comparison: named and checked; what cannot be compared is left out or refused.

And what every comparison of them gives: tables, and what they say in short.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from glob import glob
from logging import getLogger
from pathlib import Path
from typing import Any, Generic, TypeVar

import pandas as pd

from headscope.errors import HeadscopeError, OutputError, StudyError
from headscope.runs.folder import RunFolder
from headscope.runs.manifest import numbers_of
from headscope.runs.run import Run, load_run

__all__ = [
    "Compared", "Loaded", "RunLike", "different_options", "find_runs", "load_runs", "short_name",
    "weights_of",
]  # fmt: skip

log = getLogger("headscope")

RunLike = str | Path | Run
Key = TypeVar("Key")


@dataclass(frozen=True)
class Loaded:
    """Runs by the names that tables and figures call them; and what must be known of them."""

    runs: dict[str, Run]
    notes: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)  # folder -> why


@dataclass(frozen=True)
class Compared(Generic[Key]):
    """Tables over several runs, and what they say in short."""

    runs: dict[Key, Run]
    tables: dict[str, pd.DataFrame]
    answers: list[str]
    notes: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)

    def write_tables(self, folder: str | Path) -> Path:
        """Write the tables into a new or empty folder."""
        store = RunFolder(Path(folder))
        store.refuse_if_taken()
        store.create()
        for name, table in self.tables.items():
            store.write_table(name, table)
        return store.path


def load_runs(
    given: Sequence[RunLike],
    least: int = 2,
    same_weights: bool = True,
    out: str | Path | None = None,
) -> Loaded:
    """Read these runs; a damaged or unfinished one is left out and named, if enough others are.

    `same_weights`: attention and norm-weighted attention may not stand beside each other. `out`,
    where their comparison will be written, must be new or empty: said before any work.
    """
    if out is not None:
        RunFolder(Path(out)).refuse_if_taken()
    folders = [str(run.folder or id(run)) if isinstance(run, Run) else str(run) for run in given]
    places = Counter(str(Path(folder).resolve()) for folder in folders)
    twice = [place for place, count in places.items() if count > 1]
    if twice:
        raise StudyError(
            f"{twice[0]} was given {places[twice[0]]} times. Expected different runs; a run does "
            "not differ from itself. Leave the repetition out."
        )
    read: dict[str, Run] = {}
    left_out: dict[str, str] = {}
    for folder, run in zip(folders, given, strict=True):
        try:
            read[folder] = run if isinstance(run, Run) else load_run(run)
        except HeadscopeError as error:
            left_out[folder] = str(error)
    if len(read) < least:
        if left_out:
            raise OutputError(" ".join(left_out.values()))
        raise StudyError(
            f"{len(read)} {'run was' if len(read) == 1 else 'runs were'} given. Expected {least} "
            "or more folders that `headscope analyze --out` wrote."
        )
    if same_weights:
        _refuse_other_weights(read)
    for folder, reason in left_out.items():
        log.warning("%s is left out: %s", folder, reason)
    return Loaded(dict(zip(_name_runs(read), read.values(), strict=True)), _note(read), left_out)


def find_runs(pattern: str) -> list[Path]:
    """The folders of runs that a pattern such as runs/step-* finds, in order of their names."""
    found = [Path(path) for path in sorted(glob(pattern)) if Path(path).is_dir()]
    if not found:
        raise StudyError(
            f"{pattern} matches no folder. Expected a pattern for folders of runs, in quotes, such "
            f"as "
            '"runs/step-*"; check it.'
        )
    return found


def short_name(name: str) -> str:
    """A model's name, or of a path its last part.

    >>> short_name("/models/e5-small/"), short_name("org/bert")
    ('e5-small', 'org/bert')
    """
    is_path = name.startswith(("/", "./", "../")) or "\\" in name
    return Path(name.rstrip("/")).name if is_path else name


def weights_of(run: Run) -> str:
    """The hash that names a run's weights."""
    return str(run.manifest["model"].get("digest", ""))


def _name_runs(runs: Mapping[str, Run]) -> list[str]:
    """Short names: those of the models where they differ, else of the folders, else their paths."""
    paths = [Path(folder) for folder in runs]
    models = [short_name(str(run.manifest["model"]["name"])) for run in runs.values()]
    choices = [models, [path.name for path in paths], [str(path) for path in paths]]
    return next(names for names in choices if len(set(names)) == len(names) or names is choices[-1])


def _refuse_other_weights(runs: Mapping[str, Run]) -> None:
    """Attention against norm-weighted attention: of one model a question, of two a confusion."""
    kinds = {f: r.manifest["model"].get("weights", "attention") for f, r in runs.items()}
    if len(set(kinds.values())) > 1 and len({weights_of(run) for run in runs.values()}) > 1:
        said = ", ".join(f"{folder}: {kind}" for folder, kind in kinds.items())
        raise StudyError(
            f"The runs measured different weights ({said}), of different models, so a difference "
            f"could come from either. Expected the same --weights or the same model; run "
            f"`headscope analyze` again with the same --weights."
        )


def _note(runs: Mapping[str, Run]) -> list[str]:
    """What differs between the runs beside their models."""
    manifests = {folder: run.manifest for folder, run in runs.items()}
    notes = []
    versions = {f: m.get("versions", {}).get("headscope", "") for f, m in manifests.items()}
    if len(set(versions.values())) > 1:
        said = ", ".join(f"{folder} {version}" for folder, version in versions.items())
        notes.append(f"The runs were made by different versions of headscope ({said}).")
    options = [numbers_of(manifest["options"]) for manifest in manifests.values()]
    for name in dict.fromkeys(name for own in options for name in own):
        values = [own.get(name) for own in options]
        if any(value != values[0] for value in values):
            said = ", ".join(f"{f}: {v}" for f, v in zip(runs, values, strict=True))
            notes.append(f"The runs differ in the option {name} ({said}).")
    digests: dict[str, list[str]] = {}
    for folder, run in runs.items():
        digests.setdefault(weights_of(run), []).append(folder)
    for same in digests.values():
        if len(same) > 1:
            notes.append(f"{' and '.join(same)} have the same weights.")
    return notes


def different_options(runs: Mapping[str, Run]) -> dict[str, str]:
    """Analyses that were done with different options, so that their numbers do not compare."""
    described: dict[str, list[Any]] = {}
    for run in runs.values():
        for name, options in run.manifest.get("analyses", {}).items():
            described.setdefault(name, []).append(options)
    return {
        name: f"{name!r} was measured with different options: "
        + " against ".join(str(o) for o in dict.fromkeys(map(str, found)))
        for name, found in described.items()
        if any(options != found[0] for options in found)
    }
