"""A run's folder: manifest, tables, and the tallies that resuming and merging add to.

manifest.json      what was run on what, how, with which counts and times
tables/NAME.csv    and .parquet
untrained/NAME.csv the same of untrained models, with the column `draw` (--null)
examples.json      the examples where notable heads do best and worst
tallies/PASS.safetensors   the sums so far of one pass, and which shards they hold
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from filelock import FileLock, Timeout
from pyarrow.lib import ArrowException
from pyarrow.parquet import ParquetFile

from headscope.data.table import Tables, to_csv
from headscope.errors import HeadscopeError, InputError, OutputError, WriteError, shorten
from headscope.files import (
    checksum,
    explain_write_errors,
    read_sealed,
    refuse_unwritable,
    seal,
    sweep_temporaries,
    write_atomically,
)
from headscope.runs.manifest import FORMAT, refuse_other_study, upgrade_manifest

__all__ = ["TABLES", "UNTRAINED", "RunFolder"]

MANIFEST = "manifest.json"
LOCK = ".lock"  # held by the command that writes to the folder
MOST_HEADS = 1_000_000  # or layers
TABLES, UNTRAINED = "tables", "untrained"


@dataclass(frozen=True)
class RunFolder:
    """Where a run is kept."""

    path: Path

    def refuse_unusable(self, resume: bool) -> None:
        """An error, before any work, if no run can be written here, or none that is new."""
        if not resume:
            self.refuse_if_taken()
        refuse_unwritable(self.path)

    def refuse_if_taken(self) -> None:
        """An error if the folder holds anything: no run is written over."""
        with explain_write_errors(self.path):  # a name may be too long to be looked for
            sweep_temporaries(self.path, is_deep=False)  # of a run killed before it began
            is_folder = self.path.is_dir()
            files = [file for file in self.path.iterdir() if file.name != LOCK] if is_folder else []
            is_file = self.path.exists() and not is_folder
        if is_file:
            raise OutputError(
                f"{self.path} is a file. Expected a new or empty folder; choose another --out."
            )
        if files:
            raise OutputError(
                f"{self.path} is not empty. Expected a new or empty folder; continue the run in it "
                "with --resume, choose another --out, or remove it."
            )

    @contextmanager
    def begin(self, manifest: Mapping[str, Any], resume: bool) -> Iterator[None]:
        """Begin a run in its folder, or go on with the same one, for as long as the block runs.

        Where a new run fails before any of its results was kept, or because of its corpus, which
        must change first, no folder is left behind.
        """
        if not (resume and self.has_run):
            self.refuse_if_taken()
        made = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
        self.create()
        try:
            with self.locked():
                yield from self._begin(manifest, resume)
        except BaseException:
            for folder in made:
                with suppress(OSError):  # it holds something, or somebody took it away
                    folder.rmdir()
            raise

    def _begin(self, manifest: Mapping[str, Any], resume: bool) -> Iterator[None]:
        if resume and self.has_run:
            sweep_temporaries(self.path)
            begun = self.read_manifest()
            refuse_other_study(self.path, begun, manifest)
            self.write_manifest(begun)  # in the format of what is written from now on
            yield
            return
        self.refuse_if_taken()  # by a command that ended just now
        self.write_manifest({**manifest, "status": "running"})
        try:
            yield
        except BaseException as error:
            has_results = any(self.path.glob("tallies/*.safetensors"))
            is_ours = isinstance(error, HeadscopeError) and not isinstance(error, WriteError)
            is_only_begun = {file.name for file in self.path.iterdir()} == {MANIFEST, LOCK}
            if isinstance(error, InputError) or is_only_begun or (is_ours and not has_results):
                for file in (self.path / MANIFEST, *self.path.glob("tallies/*.safetensors")):
                    file.unlink(missing_ok=True)
                with suppress(OSError):  # somebody else put something there
                    (self.path / "tallies").rmdir()
            raise

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other commands from writing here for as long as the block runs."""
        path = self.path / LOCK
        lock = FileLock(path, timeout=0)
        with explain_write_errors(self.path):
            try:
                lock.acquire()
            except Timeout as error:
                raise OutputError(
                    f"Another headscope command is writing to {self.path}. Expected a folder that "
                    "no other command uses; wait until it ends, or choose another --out."
                ) from error
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
            lock.release()

    def create(self) -> None:
        """Make the folder, or say why it cannot be made."""
        with explain_write_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)

    def finish(
        self, tables: Tables, manifest: Mapping[str, Any], untrained: Tables | None = None
    ) -> None:
        """Write these tables, and then the manifest that says they are there."""
        places = {TABLES: tables, UNTRAINED: untrained or {}}
        new = {f"{place}/{name}" for place, of_place in places.items() for name in of_place}
        checksums = {k: v for k, v in manifest.get("checksums", {}).items() if k not in new}
        begun = read_sealed(self.path / MANIFEST) if self.has_run else {}
        if not new.isdisjoint(begun.get("checksums", {})):  # a kill here leaves what can be read
            self.write_manifest({**begun, "checksums": checksums})
        for place, of_place in places.items():
            for name, table in of_place.items():
                checksums[f"{place}/{name}"] = self.write_table(name, table, place)
        self.write_manifest({**manifest, "checksums": checksums})

    @property
    def has_run(self) -> bool:
        return (self.path / MANIFEST).exists()

    def read_manifest(self) -> dict[str, Any]:
        """The manifest, or an error that says what the folder is instead of a run."""
        from headscope.data.schema import ManifestFile, check_schema  # pydantic: only to read

        path = self.path / MANIFEST
        try:
            manifest = upgrade_manifest(read_sealed(path), self.path)
            check_schema(ManifestFile, manifest)
            return manifest
        except (OSError, ValueError) as error:
            reason = shorten(getattr(error, "strerror", None) or str(error), 150)
            raise OutputError(
                f"{shorten(str(self.path), 200)} is not a run: {path.name} is missing or damaged "
                f"({reason}). Expected a folder that `headscope analyze --out` wrote; check the "
                "path, or run `headscope analyze` again with another --out."
            ) from error

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        write_atomically(self.path / MANIFEST, seal({**manifest, "format": FORMAT}, indent=2))

    def write_table(self, name: str, table: pd.DataFrame, place: str = TABLES) -> str:
        """Write a table twice; gives the checksum of the file that is read again."""
        parquet = BytesIO()
        table = table.copy(deep=False)
        table.attrs = {"headscope_format": FORMAT}  # which the file keeps
        table.to_parquet(parquet, index=False)
        write_atomically(self.path / place / f"{name}.parquet", parquet.getvalue())
        csv = to_csv(table).encode(errors="backslashreplace")
        write_atomically(self.path / place / f"{name}.csv", csv)
        return checksum(parquet.getvalue())

    def has_table(self, name: str, place: str = TABLES) -> bool:
        return (self.path / place / f"{name}.parquet").exists()

    def read_table(
        self, name: str, place: str = TABLES, checksums: Mapping[str, str] | None = None
    ) -> pd.DataFrame:
        """A table, if it is what the run wrote: its checksum is in the manifest."""
        path = self.path / place / f"{name}.parquet"
        try:
            content = path.read_bytes()
            expected = (checksums or {}).get(f"{place}/{name}")
            if expected is not None and checksum(content) != expected:
                raise ValueError("its checksum differs")
            file = ParquetFile(BytesIO(content))  # type: ignore[no-untyped-call]
            table: pd.DataFrame = file.read(use_threads=False).to_pandas()  # type: ignore[no-untyped-call]
            _check_columns(table)
            return table
        except (OSError, ValueError, ArrowException) as error:
            raise OutputError(
                f"Table {path} is missing or damaged ({shorten(str(error))}). Expected the file "
                "that the run wrote; rebuild it from the tallies with `headscope analyze ... "
                "--resume`."
            ) from error

    def tally_path(self, key: str) -> Path:
        """The file of the sums of a pass."""
        return self.path / "tallies" / f"{key}.safetensors"


def _check_columns(table: pd.DataFrame) -> None:
    """ValueError for a table that cannot be one of a run.

    A column holds texts or finite numbers; layers and heads count from 1.
    """
    for name, column in table.items():
        if pd.api.types.is_numeric_dtype(column):
            is_wrong = np.isinf(column.to_numpy(float, na_value=np.nan)).any()
        else:
            is_wrong = not column.dropna().map(lambda value: isinstance(value, (str, bool))).all()
        if is_wrong:
            raise ValueError(f"its column {name} holds something that is no text or number")
    for name in ("layer", "head"):
        if name in table.columns:
            numbers = pd.to_numeric(table[name]).to_numpy(float, na_value=np.nan)
            with np.errstate(invalid="ignore"):  # infinity is no whole number
                is_wrong = (numbers < 1) | (numbers % 1 != 0) | (numbers > MOST_HEADS)
            if (is_wrong & ~np.isnan(numbers)).any():
                raise ValueError(f"its column {name} holds something that is not a number from 1")
