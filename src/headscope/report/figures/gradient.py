"""Does the loss depend on the attention to a class of tokens? (the paper's Figure 3)"""

from headscope.report.figures.figure import Drawing, Figure, Tables
from headscope.report.figures.layer_dots import LayerDots
from headscope.report.figures.special_tokens import TARGETS

__all__ = ["GRADIENT"]


def draw_gradient(tables: Tables) -> Drawing:
    """A dot for each head and class, lines for the means; one colour a class."""
    table = tables["gradient"]
    seen = table[table.groupby("target")["gradient"].transform("max") > 0]
    dots = LayerDots(
        value="gradient",
        title="size of the gradient of the loss",
        split="target",
        words=TARGETS,
        by_panel=False,
    )
    return dots.draw(seen if len(seen) else table)


GRADIENT = Figure(
    name="gradient",
    title="Does attention matter to the loss?",
    caption=(
        "How strongly the loss changes with the attention weights to a class of tokens (the mean "
        "size of the gradient). Every dot is a head, one colour a class of attended tokens; the "
        "line is the mean of the layer. Where it is near zero, attending more or less there "
        "changes nothing."
    ),
    needs=("gradient",),
    made_by="--text FILE --also gradient",
    draw_tables=draw_gradient,
    paper="Figure 3",
)
