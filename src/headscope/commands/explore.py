"""One text through a model: `headscope show` draws it, `headscope explore` is the live view."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from headscope.commands import talk
from headscope.commands.shared import Model, name_folder

__all__ = ["explore", "show"]


def show(
    model: Model,
    text: Annotated[str | None, typer.Argument(help="The text to look at, in quotes.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(help=".svg, .html, .png or .pdf file.", show_default="MODEL-8-10.svg"),
    ] = None,
    **options: Any,
) -> None:
    """Draw what one head, a layer or all heads of MODEL attend to."""
    from headscope.view.svg import refuse_ending

    head, layer = options.get("head"), options.get("layer")
    what = (
        head.replace(" ", "").replace(",", "--")
        if head
        else f"layer-{layer}"
        if layer is not None
        else "heads"
    )
    path = out or Path(f"{name_folder(model)}-{what}.svg")
    refuse_ending(path)
    with talk.loading():
        from headscope.explore.show import show as draw  # torch: only when needed
    with talk.stage("drawing"):
        drawn = draw(model, text, **options).save(path)
    typer.echo(drawn)


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
    read_corpus: Annotated[
        bool | None,
        typer.Option(
            help="Read the corpora that RUN names, if they are what it measured. Default: ask."
        ),
    ] = None,
    **options: Any,
) -> None:
    """See all heads of MODEL on any text, live in the browser."""
    with talk.loading():
        from headscope.explore.start import open_session, save_page, serve  # torch
    typer.echo(f"Loading {model} ...", err=True)

    def may_read(paths: Sequence[str]) -> bool:
        return _ask(paths) if read_corpus is None else read_corpus

    session = open_session(
        model,
        run=run,
        text=text,
        sentence=sentence,
        head=head,
        beside=beside,
        may_read=may_read,
        **options,
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


def _ask(paths: Sequence[str]) -> bool:
    """Whether these files may be read; without a terminal they may not."""
    listed = "\n".join(f"  {path!r}" for path in paths)
    if sys.stdin.isatty() and sys.stderr.isatty():
        typer.echo(
            f"The run names these corpora, and they are what it measured:\n{listed}", err=True
        )
        return typer.confirm("Read them, to list and show their examples?", default=True, err=True)
    talk.tell(f"The corpora of the run are not read; --read-corpus reads them:\n{listed}")
    return False
