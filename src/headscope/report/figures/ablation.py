"""What changes when a head is altered, layer by layer."""

from headscope.report.figures.figure import Drawing, Figure, Tables
from headscope.report.figures.layer_dots import LayerDots

__all__ = ["ABLATION", "EFFECTS", "MODES"]

MODES = {
    "zero": "head taken away",
    "mean": "its mean in its place",
    "sink": "its resting attention dealt out",
}
EFFECTS = {"loss": "change of the loss", "cosine": "change of the hidden states"}


def draw_ablation(tables: Tables) -> Drawing:
    """A dot for each head, a line for the mean of its layer; one panel a mode."""
    table = tables["ablation"]
    effect = str(table["effect"].iloc[0])
    dots = LayerDots(
        value="change",
        title=EFFECTS.get(effect, effect),
        split="mode",
        words=MODES,
        share_scale=False,
    )
    return dots.draw(table)


ABLATION = Figure(
    name="ablation",
    title="Heads that matter",
    caption=(
        "What changes when one head is altered: taken away, its mean put in its place, or the "
        "attention it rests on closing tokens dealt out to the others. Every dot is a head; the "
        "line is the mean of the layer. The loss gets worse above 0; hidden states differ by 1 "
        "minus their cosine. Each panel has its own scale."
    ),
    needs=("ablation",),
    made_by="--text FILE --also ablation",
    draw_tables=draw_ablation,
)
