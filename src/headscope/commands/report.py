"""`headscope report`: the page and the figures of a finished run."""

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["report"]


def report(
    run: Annotated[Path, typer.Argument(help="Folder of a run.")],
    figures: Annotated[
        str | None,
        typer.Option(help="Also save every figure, as svg, png or pdf; several with commas."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where to put the page instead of RUN/report.html.")
    ] = None,
) -> None:
    """Make report.html again from a run's tables, without the model, and figures as files."""
    from headscope.report.figures.saving import save_figures  # altair: only when it is needed
    from headscope.report.page.write import write_report
    from headscope.runs.results import load_run

    done = load_run(run, skip_missing=True)
    formats = [format.strip() for format in figures.split(",")] if figures is not None else []
    saved = save_figures(done.tables, run / "figures", formats) if formats else []
    typer.echo(write_report(done, out))
    if saved:
        typer.echo(f"Figures: {len(saved)} files in {run / 'figures'}", err=True)
