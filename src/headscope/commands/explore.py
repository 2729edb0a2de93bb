"""`headscope explore`: every head on any text, live in the browser, or as one file."""

from pathlib import Path
from typing import Annotated, Any

import typer

from headscope.commands import talk
from headscope.commands.shared import Model

__all__ = ["explore"]


def explore(
    model: Model,
    run: Annotated[
        Path | None, typer.Option(help="Folder of a run of MODEL: measures, cards, examples.")
    ] = None,
    text: Annotated[
        str | None, typer.Option(help="A text in quotes, or a .txt file with one text per line.")
    ] = None,
    sentence: Annotated[
        str | None,
        typer.Option(help="Start with the example that has this id in the run's corpora."),
    ] = None,
    head: Annotated[str | None, typer.Option(help="Start with this head, e.g. 8-10.")] = None,
    beside: Annotated[
        str | None, typer.Option(help="A second model, side by side on the same words.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write one .html file with the maps inside; no server.")
    ] = None,
    port: Annotated[
        int, typer.Option(help="Port on 127.0.0.1; 0 is any free port.", min=0, max=65535)
    ] = 0,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
    **options: Any,
) -> None:
    """See all heads of MODEL on any text, live in the browser."""
    with talk.loading():
        from headscope.explore.start import open_session, save_page, serve  # torch
    typer.echo(f"Loading {model} ...", err=True)
    session = open_session(
        model, run=run, text=text, sentence=sentence, head=head, beside=beside, **options
    )
    if out is not None:
        typer.echo(save_page(session, out))
        return
    server = serve(session, port)
    typer.echo(server.address)
    typer.echo("Open this address in a browser on this machine. Ctrl-C stops.", err=True)
    if browser:
        typer.launch(server.address)
    try:
        server.run()
    except KeyboardInterrupt:  # the way to stop it
        typer.echo("\nStopped.", err=True)
