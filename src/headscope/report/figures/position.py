"""Attention to the previous, the same and the next token, layer by layer (the paper's Figure 2)."""

from headscope.report.figures.figure import Drawing, Figure, Tables
from headscope.report.figures.layer_dots import LayerDots

__all__ = ["POSITION"]

WORDS = {"previous": "to the previous token", "self": "to itself", "next": "to the next token"}


def draw_position(tables: Tables) -> Drawing:
    """A dot for each head, a line for the mean of its layer; one panel a target."""
    dots = LayerDots(value="weight", title="share of attention", split="target", words=WORDS)
    return dots.draw(tables["position"])


POSITION = Figure(
    name="position",
    title="Attention to neighbours",
    caption=(
        "One panel each for the previous token, the token itself and the next one. Every dot is a "
        "head: how far to the right is its layer, how high the share of its attention that goes "
        "there. The line is the mean of the layer."
    ),
    needs=("position",),
    made_by="--text FILE",
    draw_tables=draw_position,
    paper="Figure 2",
)
