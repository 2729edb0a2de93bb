"""A run's folder: manifest, tables, and the tallies that resuming and merging add to.

manifest.json      what was run on what, how, with which counts and times
tables/NAME.csv    and .parquet
untrained/NAME.csv the same of untrained models, with the column `draw` (--null)
examples.json      the examples where notable heads do best and worst
tallies/PASS.safetensors   the sums so far of one pass, and which shards they hold
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import pandas as pd

from headscope.data.table import Tables
from headscope.errors import OutputError
from headscope.files import explain_write_errors, write_atomically
from headscope.runs.format import FORMAT, upgrade_manifest
from headscope.runs.manifest import refuse_other_study

__all__ = ["UNTRAINED", "RunFolder"]

MANIFEST = "manifest.json"
TABLES, UNTRAINED = "tables", "untrained"


@dataclass(frozen=True)
class RunFolder:
    """Where a run is kept."""

    path: Path

    def refuse_if_taken(self) -> None:
        """An error if the folder holds anything: no run is written over."""
        if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
            raise OutputError(
                f"{self.path} is not empty. Expected a new or empty folder; continue the run in it "
                "with --resume, choose another --out, or remove it."
            )

    @contextmanager
    def begin(self, manifest: Mapping[str, Any], resume: bool) -> Iterator[None]:
        """Begin a run in its folder, or go on with the same one, for as long as the block runs.

        Where a new run fails before any of its results was kept, no folder is left behind.
        """
        if resume and self.has_run:
            refuse_other_study(self.path, self.read_manifest(), manifest)
            yield
            return
        self.refuse_if_taken()
        made = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
        self.create()
        self.write_manifest({**manifest, "status": "running"})
        try:
            yield
        except BaseException:
            if [file.name for file in self.path.iterdir()] == [MANIFEST]:
                (self.path / MANIFEST).unlink()
                for folder in made:
                    folder.rmdir()
            raise

    def create(self) -> None:
        """Make the folder, or say why it cannot be made."""
        with explain_write_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)

    def finish(
        self, tables: Tables, manifest: Mapping[str, Any], untrained: Tables | None = None
    ) -> None:
        """Write these tables, and then the manifest that says they are there."""
        for name, table in tables.items():
            self.write_table(name, table)
        for name, table in (untrained or {}).items():
            self.write_table(name, table, UNTRAINED)
        self.write_manifest(manifest)

    @property
    def has_run(self) -> bool:
        return (self.path / MANIFEST).exists()

    def read_manifest(self) -> dict[str, Any]:
        """The manifest, or an error that says what the folder is instead of a run."""
        path = self.path / MANIFEST
        try:
            manifest: dict[str, Any] = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise OutputError(
                f"{self.path} is not a run: {path.name} is missing or damaged ({error}). Expected "
                "a folder that `headscope analyze --out` wrote; check the path."
            ) from error
        return upgrade_manifest(manifest, self.path)

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        content = json.dumps({**manifest, "format": FORMAT}, indent=2, ensure_ascii=False)
        write_atomically(self.path / MANIFEST, content.encode() + b"\n")

    def write_table(self, name: str, table: pd.DataFrame, place: str = TABLES) -> None:
        parquet = BytesIO()
        table = table.copy(deep=False)
        table.attrs = {"headscope_format": FORMAT}  # which the file keeps
        table.to_parquet(parquet, index=False)
        write_atomically(self.path / place / f"{name}.parquet", parquet.getvalue())
        write_atomically(self.path / place / f"{name}.csv", table.to_csv(index=False).encode())

    def has_table(self, name: str, place: str = TABLES) -> bool:
        return (self.path / place / f"{name}.parquet").exists()

    def read_table(self, name: str, place: str = TABLES) -> pd.DataFrame:
        path = self.path / place / f"{name}.parquet"
        try:
            return pd.read_parquet(path)
        except (OSError, ValueError) as error:
            raise OutputError(
                f"Table {path} is missing or damaged ({error}). Expected the file that the run "
                "wrote; `headscope analyze ... --resume` writes it again from the tallies."
            ) from error

    def tally_path(self, key: str) -> Path:
        """The file of the sums of a pass."""
        return self.path / "tallies" / f"{key}.safetensors"
