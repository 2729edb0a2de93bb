"""Several runs: what differs, what changes in training, and an atlas of them all."""

from pathlib import Path
from typing import Annotated, Any

import typer

from headscope.commands import talk
from headscope.commands.shared import FormatOption
from headscope.errors import StudyError
from headscope.view.table import Format

__all__ = ["atlas", "compare"]


def compare(
    out: Annotated[Path, typer.Option(help="New folder for tables and compare.html.")],
    runs: Annotated[
        list[Path] | None,
        typer.Argument(help="Folders of runs. The others are compared with the first."),
    ] = None,
    series: Annotated[
        str | None,
        typer.Option(help='Runs of checkpoints, as a pattern in quotes: "runs/step-*".'),
    ] = None,
    steps: Annotated[
        str | None,
        typer.Option(
            help="Training steps of the --series runs in the order of their names, e.g. "
            "0,1000,2000.",
            show_default="from the names, or trainer_state.json",
        ),
    ] = None,
    format: FormatOption = Format.TABLE,
) -> None:
    """Compare finished runs, with intervals and tests; no model runs."""
    with talk.loading():
        from headscope.comparison.compare import compare as compare_runs  # torch: only when needed
        from headscope.comparison.load import find_runs
        from headscope.comparison.series import compare_series
        from headscope.view.terminal import print_frame

    if bool(runs) == bool(series):
        raise StudyError(
            "Runs were given both ways, or not at all. Expected either folders of runs or --series "
            '"runs/step-*"; give one of them.'
        )
    if series is None and steps is not None:
        raise StudyError(
            "--steps does nothing without --series. Expected both or neither; add "
            "--series, or leave --steps out."
        )
    made: Any
    with talk.stage("comparing runs"):
        if series is not None:
            made = compare_series(find_runs(series), steps=_read_steps(steps), out=out)
        else:
            made = compare_runs(runs or [], out=out)
    if series is not None:
        print_frame(made.tables["onsets"], format)
    elif format is not Format.TABLE:
        print_frame(made.tables["measures"], format)
    for answer in made.answers:
        typer.echo(f"- {answer}", err=format is not Format.TABLE)
    typer.echo(f"Page: {out / 'compare.html'}", err=True)
    typer.echo(f"Tables: {out / 'tables'} (csv and parquet)", err=True)


def atlas(
    folder: Annotated[Path, typer.Argument(help="Folder with folders of runs, at any depth.")],
    out: Annotated[
        Path | None, typer.Option(help="New folder for the site.", show_default="FOLDER/atlas")
    ] = None,
) -> None:
    """Make a static site of many runs, with every report."""
    with talk.loading():
        from headscope.comparison.atlas import write_atlas  # torch: only when needed
    with talk.stage("writing pages"):
        made = write_atlas(folder, out)
    typer.echo(made.index)
    typer.echo(f"{len(made.runs)} runs, {len(made.left_out)} left out.", err=True)


def _read_steps(given: str | None) -> list[int] | None:
    if given is None:
        return None
    try:
        return [int(part.replace("_", "")) for part in given.split(",")]
    except ValueError:
        raise StudyError(
            f"--steps {given} cannot be read. Expected whole numbers separated by commas; write, "
            f"for example, 0,1000,2000."
        ) from None
