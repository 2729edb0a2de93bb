"""What commands share: the formats of output, and what is said of a run."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from headscope.runs.results import Run

__all__ = ["Format", "FormatOption", "show_counts", "show_run"]


class Format(StrEnum):
    """How data is printed."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


FormatOption = Annotated[Format, typer.Option(help="How to print the result on stdout.")]


def show_run(run: "Run", format: Format, min_count: int = 50) -> None:
    """Print a run's main tables on stdout, and what became of its examples on stderr."""
    from headscope.report.terminal import print_run  # pandas: only when it is needed

    print_run(run.tables, format, min_count)
    show_counts(run)


def show_counts(run: "Run") -> None:
    """What became of the examples, and where the tables are."""
    from headscope.report.terminal import describe_counts  # pandas: only when it is needed

    for key, counts in run.manifest["counts"].items():
        typer.echo(describe_counts(key, counts), err=True)
        for reason in run.manifest.get("passes", {}).get(key, {}).get("skipped_files", {}).values():
            typer.echo(f"{key}: a file was left out: {reason}", err=True)
    typer.echo(f"Tables: {run.folder}/tables (csv and parquet)", err=True)
