"""A run and its folder: manifest, tables, and the tallies that resuming and merging add to.

manifest.json      what was run on what, how, with which counts and times
tables/NAME.csv    and .parquet
examples.json      the examples where notable heads do best and worst
tallies/PASS.safetensors   the sums so far of one pass, and which shards they hold
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from io import BytesIO
from logging import getLogger
from pathlib import Path
from typing import Any

import pandas as pd

from headscope.contracts import Analysis
from headscope.errors import OutputError
from headscope.registry import FIGURES, NOTEBOOK, REPORT
from headscope.runs.checkpoints import Checkpoint, read_checkpoint, write_checkpoint
from headscope.runs.examples import Shown, read_examples
from headscope.runs.files import explain_write_errors, write_atomically
from headscope.runs.layout import lay_out
from headscope.runs.tables import summarize_passes

__all__ = ["PROBES", "Run", "RunFolder", "add_probes", "finish_run", "load_run"]

log = getLogger("headscope")

PROBES = "probes"  # the folder, within a run's, of the probes that `analyze --train` trained
FORMAT = 1  # of the folder; raised when an older headscope could not read it


@dataclass(frozen=True)
class Run:
    """What came out: the tables, the manifest, and the folder if there is one."""

    tables: dict[str, pd.DataFrame]
    manifest: dict[str, Any]
    folder: Path | None = None
    examples: list[Shown] = field(default_factory=list)  # notable heads at their best and worst

    def __repr__(self) -> str:
        place = f" in {self.folder}" if self.folder else ""
        return f"<Run of {self.manifest['model']['name']}: {', '.join(self.tables)}{place}>"

    def _repr_html_(self) -> str:
        html: str = NOTEBOOK.load()(self)
        return html

    def report(self, path: str | Path | None = None) -> Path:
        """Write the run as one HTML page, by default into its folder; gives the path."""
        written: Path = REPORT.load()(self, path)
        return written

    @property
    def figures(self) -> "RunFigures":
        """The run's pictures by name, each drawn when it is asked for."""
        return RunFigures(self.tables)


@dataclass(frozen=True)
class RunFigures(Mapping[str, Any]):
    """The figures that a run has the tables for: `run.figures["position"]` is an Altair chart."""

    tables: Mapping[str, pd.DataFrame]

    def __getitem__(self, name: str) -> Any:
        return FIGURES.find(name).load().draw(self.tables)

    def __iter__(self) -> Iterator[str]:
        known = ((name, entry.load()) for name, entry in FIGURES.entries().items())
        return (name for name, figure in known if not figure.missing(self.tables))

    def __len__(self) -> int:
        return sum(1 for _ in self)


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

    def create(self) -> None:
        """Make the folder, or say why it cannot be made."""
        with explain_write_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)

    def read_manifest(self) -> dict[str, Any]:
        """The manifest, or an error that says what the folder is instead of a run."""
        path = self.path / "manifest.json"
        try:
            manifest: dict[str, Any] = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise OutputError(
                f"{self.path} is not a run: {path.name} is missing or damaged ({error}). Expected "
                "a folder that `headscope analyze --out` wrote; check the path."
            ) from error
        if manifest.get("format") != FORMAT:
            raise OutputError(
                f"{self.path} was written in format {manifest.get('format')}. Expected {FORMAT}; "
                "run the analysis again with this version of headscope."
            )
        return manifest

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        content = json.dumps({"format": FORMAT, **manifest}, indent=2, ensure_ascii=False)
        write_atomically(self.path / "manifest.json", content.encode() + b"\n")

    def write_table(self, name: str, table: pd.DataFrame) -> None:
        parquet = BytesIO()
        table.to_parquet(parquet, index=False)
        write_atomically(self.path / "tables" / f"{name}.parquet", parquet.getvalue())
        write_atomically(self.path / "tables" / f"{name}.csv", table.to_csv(index=False).encode())

    def has_table(self, name: str) -> bool:
        return (self.path / "tables" / f"{name}.parquet").exists()

    def read_table(self, name: str) -> pd.DataFrame:
        path = self.path / "tables" / f"{name}.parquet"
        try:
            return pd.read_parquet(path)
        except (OSError, ValueError) as error:
            raise OutputError(
                f"Table {path} is missing or damaged ({error}). Expected the file that the run "
                "wrote; `headscope analyze ... --resume` writes it again from the tallies."
            ) from error

    def save_checkpoint(self, key: str, checkpoint: Checkpoint) -> None:
        write_checkpoint(self.path / "tallies" / f"{key}.safetensors", checkpoint)

    def load_checkpoint(self, key: str) -> Checkpoint:
        """The sums of a pass so far; none yet where there is no file."""
        path = self.path / "tallies" / f"{key}.safetensors"
        return read_checkpoint(path) if path.exists() else Checkpoint()


def load_run(folder: str | Path, skip_missing: bool = False) -> Run:
    """A finished run, read back from its folder.

    A table whose file is gone is an error, or, with `skip_missing`, left out and told.
    """
    store = RunFolder(Path(folder))
    manifest = store.read_manifest()
    if manifest["status"] != "complete":
        raise OutputError(
            f"{folder} holds a run that is not finished. Expected a complete one; continue it with "
            "`headscope analyze ... --resume`."
        )
    names = manifest["tables"]
    if skip_missing:
        gone = [name for name in names if not store.has_table(name)]
        names = [name for name in names if name not in gone]
        for name in gone:
            log.info("Table %s of %s is gone; what it would show is left out.", name, folder)
    tables = {name: store.read_table(name) for name in names}
    run = Run(tables, manifest, store.path, read_examples(store.path))
    has_probes = (store.path / PROBES / "manifest.json").exists()
    return add_probes(run, load_run(store.path / PROBES)) if has_probes else run


def add_probes(run: Run, probes: Run) -> Run:
    """The run with the tables of its probes, which keep a manifest of their own."""
    return replace(run, tables={**run.tables, **probes.tables})


def finish_run(
    folder: RunFolder | None,
    manifest: Mapping[str, Any],
    analyses: Mapping[str, Analysis],
    checkpoints: Mapping[str, Checkpoint],
) -> Run:
    """Turn the totals of all passes into tables, and write them with the final manifest."""
    tallies = {key: checkpoint.result.tallies for key, checkpoint in checkpoints.items()}
    tables = summarize_passes(manifest["passes"], analyses, tallies)
    facts: dict[str, Any] = {}
    if len(tables.get("distance", ())):
        layout = lay_out(tables, seed=manifest["options"]["seed"])
        tables |= layout.tables
        facts = {"layout": layout.facts}
    final = {
        **manifest,
        **facts,
        "status": "complete",
        "tables": list(tables),
        "counts": {key: asdict(c.result.account) for key, c in checkpoints.items()},
        "seconds": {
            key: {stage: round(s, 3) for stage, s in c.result.seconds.items()}
            for key, c in checkpoints.items()
        },
    }
    if folder is not None:
        for name, table in tables.items():
            folder.write_table(name, table)
        folder.write_manifest(final)
    return Run(tables, final, folder.path if folder else None)
