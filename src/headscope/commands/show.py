"""`headscope show`: what a head does with a sentence, as a picture."""

from pathlib import Path
from typing import Annotated

import typer

from headscope.commands.shared import Device, Dtype, Revision, TrustRemoteCode, name_folder

__all__ = ["show"]


def show(
    model: Annotated[str, typer.Argument(help="A hub name, a local folder, or 'demo'.")],
    text: Annotated[str | None, typer.Argument(help="The text to look at, in quotes.")] = None,
    head: Annotated[
        str | None, typer.Option(help="One head, as 8-10: layer 8, head 10.", show_default="all")
    ] = None,
    layer: Annotated[int | None, typer.Option(help="All heads of this layer.")] = None,
    words: Annotated[
        bool, typer.Option("--words", help="Attention between words instead of tokens.")
    ] = False,
    treebank: Annotated[
        str | None,
        typer.Option(help="Take a sentence from this .conllu, .conllx or .conll, its arcs in red."),
    ] = None,
    sentence: Annotated[
        str | None, typer.Option(help="The sentence's id in --treebank (# sent_id).")
    ] = None,
    relation: Annotated[
        str | None, typer.Option(help="Mark the arcs of this relation alone, e.g. det.")
    ] = None,
    direction: Annotated[
        str, typer.Option(help="Mark arcs this way, or head-to-dependent.")
    ] = "dependent-to-head",
    hide_special: Annotated[
        bool, typer.Option("--hide-special", help="Leave out [CLS], [SEP] and their like.")
    ] = False,
    red: Annotated[
        list[str] | None,
        typer.Option(help="A word whose attention is drawn in red; may be repeated."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help=".svg, .html, .png or .pdf file.", show_default="MODEL-8-10.svg"),
    ] = None,
    device: Device = "auto",
    dtype: Dtype = "float32",
    revision: Revision = None,
    trust_remote_code: TrustRemoteCode = False,
) -> None:
    """Draw what one head, a layer or all heads of MODEL attend to in a text."""
    from headscope.report.drawing_file import refuse_ending  # torch: only when it is needed
    from headscope.report.showing import show as draw

    path = out or Path(f"{_name_file(model, head, layer)}.svg")
    refuse_ending(path)
    drawing = draw(
        model,
        text,
        head=head,
        layer=layer,
        words=words,
        treebank=treebank,
        sentence=sentence,
        relation=relation,
        direction=direction,
        hide_special=hide_special,
        red=red or (),
        revision=revision,
        device=device,
        dtype=dtype,
        trust_remote_code=trust_remote_code,
    )
    typer.echo(drawing.save(path))


def _name_file(model: str, head: str | None, layer: int | None) -> str:
    what = head.strip() if head else f"layer-{layer}" if layer is not None else "heads"
    return f"{name_folder(model)}-{what}"
