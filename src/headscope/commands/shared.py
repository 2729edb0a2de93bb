"""What commands share: the formats of output, and what is said of a run."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from headscope.runs.results import Run

__all__ = [
    "BatchTokens",
    "Device",
    "Dtype",
    "Format",
    "FormatOption",
    "Limit",
    "MinCount",
    "QueryPieces",
    "Replicates",
    "Resume",
    "Revision",
    "Seed",
    "TrustRemoteCode",
    "name_folder",
    "show_counts",
    "show_report",
    "show_run",
]


class Format(StrEnum):
    """How data is printed."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


FormatOption = Annotated[Format, typer.Option(help="How to print the result on stdout.")]

# Options that mean the same wherever they are.
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, mps.")]
Dtype = Annotated[str, typer.Option(help="float32, float16, bfloat16 or auto.")]
Revision = Annotated[str | None, typer.Option(help="Branch, tag or commit on the hub.")]
TrustRemoteCode = Annotated[
    bool, typer.Option("--trust-remote-code", help="Run code that comes with the model.")
]
BatchTokens = Annotated[int, typer.Option(help="Most tokens in a batch.")]
Limit = Annotated[
    int | None, typer.Option(help="At most so many examples, a seeded random sample.")
]
MinCount = Annotated[
    int, typer.Option(help="Print relations with at least so many words (files have all).")
]
QueryPieces = Annotated[
    str, typer.Option(help="Which pieces attend for a split word: mean (of all) or first.")
]
Replicates = Annotated[
    int, typer.Option(help="Bootstrap replicates for the intervals; 0 for none.")
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Continue the run in --out where it stopped.")
]
Seed = Annotated[int, typer.Option(help="Seed of all that is random: samples, bootstrap, probes.")]


def name_folder(model: str) -> str:
    """A model's name as that of a folder.

    >>> name_folder("../models/e5-small/")
    'models--e5-small'
    """
    return model.strip("/.").replace("/", "--")


def show_run(run: "Run", format: Format, min_count: int = 50) -> None:
    """Print a run's main tables on stdout, and what became of its examples on stderr."""
    from headscope.report.terminal import print_run  # pandas: only when it is needed

    print_run(run.tables, format, min_count)
    show_counts(run)


def show_report(run: "Run") -> None:
    """Write the run's report and say where it is."""
    typer.echo(f"Report: {run.report()}", err=True)


def show_counts(run: "Run") -> None:
    """What became of the examples, and where the tables are."""
    from headscope.report.terminal import describe_counts  # pandas: only when it is needed

    for key, counts in run.manifest["counts"].items():
        typer.echo(describe_counts(key, counts), err=True)
        for reason in run.manifest.get("passes", {}).get(key, {}).get("skipped_files", {}).values():
            typer.echo(f"{key}: a file was left out: {reason}", err=True)
    typer.echo(f"Tables: {run.folder}/tables (csv and parquet)", err=True)
