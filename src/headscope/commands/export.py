"""`headscope export`: a run in the formats of others. `headscope push`: a run on the hub."""

from pathlib import Path
from typing import Annotated

import typer

from headscope.commands import talk
from headscope.commands.shared import RunFolderArgument

__all__ = ["export", "push"]

FORMATS = "headvis (HeadVis and Neuronpedia), or duoattention (which heads need all keys)."


def export(
    run: RunFolderArgument,
    format: Annotated[str, typer.Option(help=FORMATS)],
    out: Annotated[
        Path | None, typer.Option(help="New folder.", show_default="RUN/exports/FORMAT")
    ] = None,
    measure: Annotated[
        str | None,
        typer.Option(
            help="duoattention: what decides which heads need all keys: reach, retrieval or "
            "induction."
        ),
    ] = None,
    first: Annotated[
        int | None,
        typer.Option(
            help="duoattention: first tokens that all heads keep.",
            show_default="as measured, or 128",
        ),
    ] = None,
    recent: Annotated[
        int | None,
        typer.Option(
            help="duoattention: recent tokens that all heads keep.",
            show_default="as measured, or 256",
        ),
    ] = None,
) -> None:
    """Write a run as another program reads it; no model runs."""
    from headscope.exports.formats import export as export_run  # pandas: only when it is needed

    typer.echo(export_run(run, out, format, measure=measure, first=first, recent=recent))


def push(
    run: Annotated[Path, typer.Argument(help="Folder of a run, or of an atlas.")],
    name: Annotated[str, typer.Argument(help="The dataset: USER/NAME.")],
    private: Annotated[bool, typer.Option("--private", help="For your eyes only.")] = False,
    examples: Annotated[
        bool,
        typer.Option("--examples", help="Also pages and examples, with sentences of the corpora."),
    ] = False,
    update: Annotated[
        bool, typer.Option("--update", help="Replace the dataset of this name.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Write the folder that would be sent.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="New folder for --dry-run.", show_default="RUN/exports/hub"),
    ] = None,
) -> None:
    """Put a run or an atlas on the Hugging Face hub, as a dataset with a card."""
    from headscope.exports.hub import push as push_run  # pandas: only when it is needed

    with talk.stage("writing the dataset" if dry_run else "sending the dataset"):
        where = push_run(
            run, name, private=private, examples=examples, update=update, dry_run=dry_run, out=out
        )
    typer.echo(where)
