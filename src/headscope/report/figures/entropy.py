"""How broadly heads attend, layer by layer (the paper's Figure 4)."""

from headscope.report.figures.figure import Drawing, Figure, Tables
from headscope.report.figures.layer_dots import LayerDots

__all__ = ["ENTROPY"]

ROWS = {"all": "from all tokens", "cls": "from the first token ([CLS])"}


def draw_entropy(tables: Tables) -> Drawing:
    """All tokens in one panel, the first token in the other; even attention as a dashed line."""
    dots = LayerDots(
        value="nats",
        title="entropy of attention (nats)",
        split="rows",
        words=ROWS,
        reference="uniform",
        reference_title="even attention",
    )
    return dots.draw(tables["entropy"])


ENTROPY = Figure(
    name="entropy",
    title="Broad and narrow attention",
    caption=(
        "Every dot is a head: how far to the right is its layer, how high the entropy of its "
        "attention in nats. 0 is all attention on one token; the dashed line is attention spread "
        "evenly over all tokens it may see. The full line is the mean of the layer. One panel is "
        "over all tokens, one over the first token alone."
    ),
    needs=("entropy",),
    made_by="--text FILE",
    draw_tables=draw_entropy,
    paper="Figure 4",
)
