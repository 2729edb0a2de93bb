"""The tree of heads: joints drawn at the height at which groups of heads come together."""

import altair as alt
import pandas as pd

from headscope.report.figures.figure import GREY, TEXT, Drawing, Tables
from headscope.report.figures.map_of_heads import KINDS, SAID, kind_of
from headscope.report.figures.marks import mark_data, name_and_interval

__all__ = ["draw_dendrogram", "joints"]

NARROWEST, WIDEST = 420, 860
NAMED = 150  # with more heads there is no room for names


def draw_dendrogram(tables: Tables) -> Drawing:
    """Joints as lines, heads as points at the foot with their names below."""
    layout = tables["layout"]
    n_heads = len(layout)
    width = min(WIDEST, max(NARROWEST, 11 * n_heads))
    scale = alt.Scale(domain=[0.5, n_heads + 0.5], nice=False)
    across = alt.X("place:Q", axis=None, scale=scale)
    up = alt.Y("divergence:Q", title="mean divergence (nats)")
    lines = (
        alt.Chart(mark_data(joints(tables["dendrogram"], layout), ["merge", "place", "divergence"]))
        .mark_line(color=GREY, strokeWidth=1.2)
        .encode(across, up, detail="merge:N", order=alt.Order("corner:Q"))
        .transform_window(corner="row_number()")
    )
    feet = [_feet(layout, width / n_heads).encode(across)]
    if n_heads <= NAMED:
        feet.append(_names(layout, width / n_heads).encode(across))
    return alt.layer(lines, *feet).properties(width=width, height=260)


def joints(dendrogram: pd.DataFrame, layout: pd.DataFrame) -> pd.DataFrame:
    """Four corners for each merge: up from the left part, across, and down to the right part."""
    middles = dict(enumerate(layout["place"].astype(float), start=1))
    heights = dict.fromkeys(middles, 0.0)
    corners: list[tuple[int, float, float]] = []
    for row in dendrogram.itertuples():
        merge, height = int(row.merge), float(row.divergence)  # type: ignore[arg-type]
        parts = sorted((int(row.left), int(row.right)), key=middles.__getitem__)  # type: ignore[arg-type]
        left, right = parts
        corners += [
            (merge, middles[left], heights[left]),
            (merge, middles[left], height),
            (merge, middles[right], height),
            (merge, middles[right], heights[right]),
        ]
        middles[merge] = (middles[left] + middles[right]) / 2
        heights[merge] = height
    return pd.DataFrame(corners, columns=["merge", "place", "divergence"])


def _feet(layout: pd.DataFrame, room: float) -> Drawing:
    heads = layout.assign(kind=layout["behaviour"].map(kind_of))
    present = [kind for kind in KINDS if (heads["kind"] == kind).any()]
    colours = [KINDS[kind][0] for kind in present]
    columns = ["layer", "head", "place", "kind", "behaviours", "cluster"]
    drawn = name_and_interval(alt.Chart(mark_data(heads, columns)))
    return drawn.mark_circle(size=max(6, min(36, room**2)), opacity=1, cursor="pointer").encode(
        alt.YDatum(0),
        alt.Color(
            "kind:N",
            scale=alt.Scale(domain=present, range=colours),
            legend=alt.Legend(title="attends to", orient="right"),
        ),
        tooltip=SAID,
    )


def _names(layout: pd.DataFrame, room: float) -> Drawing:
    drawn = name_and_interval(alt.Chart(mark_data(layout, ["layer", "head", "place"])))
    text = drawn.mark_text(
        angle=270,
        align="right",
        dx=-6,
        baseline="middle",
        fontSize=max(4.5, min(9.5, room * 0.95)),
        color=TEXT,
    )
    return text.encode(alt.YDatum(0), text="name:N")
