"""`headscope probe`: classifiers over all heads together."""

from pathlib import Path
from typing import Annotated, Any

import typer

from headscope.commands import talk
from headscope.commands.complete import complete_probe
from headscope.commands.shared import (
    FormatOption,
    MinCount,
    Model,
    Resume,
    name_folder,
    show_report,
    show_run,
)
from headscope.view.table import Format

__all__ = ["probe"]


def probe(
    model: Model,
    train: Annotated[str, typer.Option(help="Treebank to learn from: .conllu (also .gz), folder.")],
    test: Annotated[str, typer.Option(help="Treebank to score on.")],
    vectors: Annotated[
        Path | None, typer.Option(help="Word vectors: GloVe or word2vec text (also .gz).")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results.", show_default="runs/probe-MODEL")
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option(help="Folder for stored attention.", show_default="'stores', next to --out"),
    ] = None,
    resume: Resume = False,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="Run these probes only: NAME or NAME,NAME.", autocompletion=complete_probe
        ),
    ] = None,
    min_count: MinCount = 50,
    format: FormatOption = Format.TABLE,
    **options: Any,
) -> None:
    """Train probes: how much syntax is in all heads of MODEL together?"""
    with talk.loading():
        from headscope.engine.probe import probe as run_probe  # torch: only when needed

    run = run_probe(
        model,
        train=train,
        test=test,
        vectors=vectors,
        out=out or Path("runs") / f"probe-{name_folder(model)}",
        store=store,
        resume=resume,
        only=only,
        progress=not talk.is_quiet(),
        **options,
    )
    show_run(run, format, min_count)
    show_report(run)
