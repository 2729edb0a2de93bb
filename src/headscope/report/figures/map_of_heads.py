"""Heads as points, near each other where they attend alike (the paper's Figure 6)."""

import altair as alt
import pandas as pd

from headscope.analyses.behaviours import BEHAVIOURS, COREFERENCE, OTHER
from headscope.report.figures.figure import COLOURS, GREY, TEXT, Drawing, Figure, Tables
from headscope.report.figures.marks import HEAD, mark_data, name_and_interval

__all__ = ["HEADS_MAP", "HEADS_MAP_LAYERS", "kind_of"]

SIZE, MARGIN = 440, 0.04
MOST_NAMES = 30
SYNTAX, ANTECEDENT = "a syntactic relation", "an antecedent (coreference)"
KINDS = {
    "a neighbour or itself": (COLOURS[0], "circle"),
    "special tokens or punctuation": (COLOURS[1], "square"),
    "everything, broadly": (COLOURS[4], "triangle-up"),
    SYNTAX: (COLOURS[2], "diamond"),
    ANTECEDENT: (COLOURS[3], "cross"),
    OTHER: (GREY, "circle"),
}
OF_TABLE = dict(zip(("position", "special-tokens", "entropy"), KINDS, strict=False))
KNOWN = {b.name: OF_TABLE[b.table] for b in BEHAVIOURS}
KNOWN |= {COREFERENCE: ANTECEDENT, OTHER: OTHER}
SAID = [HEAD, alt.Tooltip("behaviours:N", title="attends to"), alt.Tooltip("cluster:Q")]


def kind_of(behaviour: str) -> str:
    """The kind of a behaviour: few enough that each has a colour; what is no other is a relation.

    >>> kind_of("next token"), kind_of("dobj")
    ('a neighbour or itself', 'a syntactic relation')
    """
    return KNOWN.get(behaviour, SYNTAX)


def draw_map(tables: Tables) -> Drawing:
    """Coloured and shaped by what the heads do, relations named."""
    layout = tables["layout"]
    heads = layout.assign(kind=layout["behaviour"].map(kind_of))
    present = [kind for kind in KINDS if (heads["kind"] == kind).any()]
    colours, shapes = ([KINDS[kind][i] for kind in present] for i in (0, 1))
    legend = alt.Legend(title="attends to", symbolOpacity=1, symbolSize=90)
    points = _points(layout).encode(
        alt.Color("kind:N", scale=alt.Scale(domain=present, range=colours), legend=legend),
        alt.Shape("kind:N", scale=alt.Scale(domain=present, range=shapes), legend=legend),
        tooltip=SAID,
    )
    named = (
        alt.Chart()
        .transform_filter(alt.FieldOneOfPredicate(field="kind", oneOf=[SYNTAX]))
        .mark_text(align="left", dx=7, fontSize=10, color=TEXT, limit=110)
        .encode(*_plane(layout), text="behaviour:N")
    )
    columns = ["layer", "head", "x", "y", "kind", "behaviour", "behaviours", "cluster"]
    names = [named] if (heads["kind"] == SYNTAX).sum() <= MOST_NAMES else []
    return _square(alt.layer(points, *names), heads, columns)


def draw_map_by_layer(tables: Tables) -> Drawing:
    """Coloured by layer."""
    layout = tables["layout"]
    points = _points(layout).encode(
        alt.Color(
            "layer:Q",
            scale=alt.Scale(scheme="viridis", nice=False),
            legend=alt.Legend(tickMinStep=1, format="d", gradientLength=140),
        ),
        tooltip=SAID,
    )
    return _square(alt.layer(points), layout, ["layer", "head", "x", "y", "behaviours", "cluster"])


def _points(layout: pd.DataFrame) -> Drawing:
    points = alt.Chart().mark_point(filled=True, size=80, opacity=0.85, cursor="pointer")
    return points.encode(*_plane(layout))


def _plane(layout: pd.DataFrame) -> tuple[alt.X, alt.Y]:
    """Both directions on one scale, without axes: only distances mean something."""
    plane = layout[["x", "y"]]
    reach = (float((plane.max() - plane.min()).max()) or 1.0) * (0.5 + MARGIN)
    scales = [
        alt.Scale(domain=[middle - reach, middle + reach], nice=False)
        for middle in (plane.max() + plane.min()) / 2
    ]
    return alt.X("x:Q", axis=None, scale=scales[0]), alt.Y("y:Q", axis=None, scale=scales[1])


def _square(chart: Drawing, heads: pd.DataFrame, columns: list[str]) -> Drawing:
    frame = alt.ViewBackground(stroke=GREY, strokeOpacity=0.5)
    return name_and_interval(
        chart.properties(width=SIZE, height=SIZE, view=frame, data=mark_data(heads, columns))
    )


HEADS_MAP = Figure(
    name="heads-map",
    title="The map of heads",
    caption=(
        "Every point is a head. The nearer two points, the more alike the heads attend (the plane "
        "bends some distances). Colour and shape say what the head attends to, by the thresholds "
        "of the paper; heads that find a syntactic relation carry its name."
    ),
    needs=("layout",),
    made_by="--text FILE",
    draw_tables=draw_map,
    paper="Figure 6",
)

HEADS_MAP_LAYERS = Figure(
    name="heads-map-layers",
    title="The map of heads by layer",
    caption=(
        "The same map: every point is a head, and the nearer two points, the more alike they "
        "attend. The colour is the layer, from the first (dark) to the last (bright): heads of "
        "one layer tend to lie together."
    ),
    needs=("layout",),
    made_by="--text FILE",
    draw_tables=draw_map_by_layer,
    paper="Figure 6",
)
