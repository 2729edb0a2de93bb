"""`headscope show`: what a head does with a sentence, as a picture."""

from pathlib import Path
from typing import Annotated, Any

import typer

from headscope.commands import talk
from headscope.commands.shared import Model, name_folder

__all__ = ["show"]


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

    path = out or Path(f"{_name_file(model, options.get('head'), options.get('layer'))}.svg")
    refuse_ending(path)
    with talk.loading():
        from headscope.explore.show import show as draw  # torch: only when needed
    with talk.stage("drawing"):
        drawn = draw(model, text, **options).save(path)
    typer.echo(drawn)


def _name_file(model: str, head: str | None, layer: int | None) -> str:
    what = head.strip() if head else f"layer-{layer}" if layer is not None else "heads"
    return f"{name_folder(model)}-{what}"
