"""Relations x treebanks as a heat map."""

from typing import Any

import altair as alt

from headscope.data.table import Tables
from headscope.view.figure import SEQUENTIAL, Chart, mark_data, number
from headscope.view.numbers import PERCENT, held_out

__all__ = ["draw_treebanks"]

MIN_COUNT, SHOWN_RELATIONS = 20, 30
CELL_WIDTH, CELL_HEIGHT = 92, 20
LIGHT, DARK, DARK_FROM = "#f7f7f7", "#222222", 0.7  # words on cells, whose colours do not change


def draw_treebanks(tables: Tables) -> Chart:
    """The held-out accuracy of the best head, with its interval written in each cell."""
    best = tables["dependency-best"]
    best = best[(best["count"] >= MIN_COUNT) & best["heldout_accuracy"].notna()]
    order = best.groupby("relation")["count"].sum().sort_values(ascending=False)
    shown = best[best["relation"].isin(order.index[:SHOWN_RELATIONS])]
    rows: list[Any] = shown.to_dict("records")
    written = [PERCENT.estimate(held_out(row)) for row in rows]
    heads = shown["layer"].astype(str) + "-" + shown["head"].astype(str)
    table = shown.assign(written=written, name=heads, value=shown["heldout_accuracy"])
    down = alt.Y("relation:N", sort=list(order.index), title=None)
    across = alt.X("treebank:N", title=None, axis=alt.Axis(orient="top", labelAngle=-20))
    data = mark_data(table, ["relation", "treebank", "layer", "head", "value", "written", "name"])
    base = alt.Chart(data).encode(across, down)
    scale = alt.Scale(scheme=SEQUENTIAL, domain=[0, 1])
    legend = alt.Legend(orient="bottom", format="%", gradientLength=150)
    tooltip = [
        alt.Tooltip("relation:N"),
        alt.Tooltip("treebank:N"),
        alt.Tooltip("name:N", title="head"),
        number("value", "accuracy, held out"),
    ]
    shade = alt.Color("value:Q", title="accuracy, held out", scale=scale, legend=legend)
    cells = base.mark_rect(cursor="pointer").encode(shade, tooltip=tooltip)
    ink = alt.condition(f"datum.value > {DARK_FROM}", alt.value(LIGHT), alt.value(DARK))
    words = base.mark_text(fontSize=10, cursor="pointer").encode(text="written:N", color=ink)
    width = CELL_WIDTH * shown["treebank"].nunique()
    return alt.layer(cells, words).properties(
        width=width, height=CELL_HEIGHT * shown["relation"].nunique()
    )
