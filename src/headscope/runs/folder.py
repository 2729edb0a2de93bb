"""A run's folder: manifest, tables, and the tallies that resuming and merging add to.

manifest.json      what was run on what, how, with which counts and times
tables/NAME.csv    and .parquet
untrained/NAME.csv the same of untrained models, with the column `draw` (--null)
examples.json      the examples where notable heads do best and worst
tallies/PASS.safetensors   the sums so far of one pass, and which shards they hold
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pyarrow.lib import ArrowException
from pyarrow.parquet import ParquetFile

from headscope.data.table import Tables, to_csv
from headscope.errors import HeadscopeError, InputError, OutputError, WriteError, shorten
from headscope.files import (
    checksum,
    explain_write_errors,
    read_sealed,
    seal,
    sweep_temporaries,
    write_atomically,
)
from headscope.runs.manifest import FORMAT, refuse_other_study, upgrade_manifest

__all__ = ["TABLES", "UNTRAINED", "RunFolder"]

MANIFEST = "manifest.json"
TABLES, UNTRAINED = "tables", "untrained"


@dataclass(frozen=True)
class RunFolder:
    """Where a run is kept."""

    path: Path

    @staticmethod
    def at(path: str | Path) -> "RunFolder":
        """The folder of this path; an error for what cannot be one."""
        if not isinstance(path, (str, Path)) or "\0" in str(path):
            raise OutputError(
                f"--out {shorten(path)} cannot be used. Expected the path of a folder; choose one."
            )
        return RunFolder(Path(path))

    def refuse_if_taken(self) -> None:
        """An error if the folder holds anything: no run is written over."""
        with explain_write_errors(self.path):  # a name may be too long to be looked for
            sweep_temporaries(self.path, is_deep=False)  # of a run killed before it began
            is_taken = self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir()))
        if is_taken:
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
        if resume and self.has_run:
            sweep_temporaries(self.path)
            begun = self.read_manifest()
            refuse_other_study(self.path, begun, manifest)
            self.write_manifest(begun)  # in the format of what is written from now on
            yield
            return
        self.refuse_if_taken()
        made = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
        self.create()
        self.write_manifest({**manifest, "status": "running"})
        try:
            yield
        except BaseException as error:
            has_results = any(self.path.glob("tallies/*.safetensors"))
            is_ours = isinstance(error, HeadscopeError) and not isinstance(error, WriteError)
            is_only_begun = [file.name for file in self.path.iterdir()] == [MANIFEST]
            if isinstance(error, InputError) or is_only_begun or (is_ours and not has_results):
                self._remove(made)
            raise

    def _remove(self, made: Sequence[Path]) -> None:
        """Take away what a new run wrote while it ran, and the folders that were made for it."""
        for file in (self.path / MANIFEST, *self.path.glob("tallies/*.safetensors")):
            file.unlink(missing_ok=True)
        for folder in (self.path / "tallies", *made):
            with suppress(OSError):  # somebody else put something there
                folder.rmdir()

    def create(self) -> None:
        """Make the folder, or say why it cannot be made."""
        with explain_write_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)

    def finish(
        self, tables: Tables, manifest: Mapping[str, Any], untrained: Tables | None = None
    ) -> None:
        """Write these tables, and then the manifest that says they are there."""
        checksums = dict(manifest.get("checksums", {}))
        for place, own in ((TABLES, tables), (UNTRAINED, untrained or {})):
            for name, table in own.items():
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
    """ValueError for a table that cannot be one of a run: layers and heads count from 1."""
    for name in ("layer", "head"):
        if name in table.columns:
            numbers = pd.to_numeric(table[name]).to_numpy(float, na_value=np.nan)
            with np.errstate(invalid="ignore"):  # infinity is no whole number
                is_wrong = (numbers < 1) | (numbers % 1 != 0)
            if (is_wrong & ~np.isnan(numbers)).any():
                raise ValueError(f"its column {name} holds something that is not a number from 1")
