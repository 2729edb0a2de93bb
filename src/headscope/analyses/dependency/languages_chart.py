"""Relations x treebanks as a heat map, and the heads that serve most of them."""

from typing import Any

import altair as alt
import pandas as pd

from headscope.data.table import Tables
from headscope.view.figure import SEQUENTIAL, Chart, Figure, mark_data, number
from headscope.view.numbers import PERCENT, SHARE
from headscope.view.table import Column, TextTable, build_table

__all__ = ["TREEBANKS_FIGURE", "build_shared_heads"]

MIN_COUNT, SHOWN_RELATIONS = 20, 30
CELL_WIDTH, CELL_HEIGHT = 92, 20
LIGHT, DARK, DARK_FROM = "#f7f7f7", "#222222", 0.7  # words on cells, whose colours do not change


def draw_treebanks(tables: Tables) -> Chart:
    """The held-out accuracy of the best head, with its interval written in each cell."""
    best = tables["dependency-best"]
    best = best[(best["count"] >= MIN_COUNT) & best["heldout_accuracy"].notna()]
    order = best.groupby("relation")["count"].sum().sort_values(ascending=False)
    shown = best[best["relation"].isin(order.index[:SHOWN_RELATIONS])]
    found: list[Any] = shown.to_dict("records")
    written = [_write(row) for row in found]
    heads = shown["layer"].astype(str) + "-" + shown["head"].astype(str)
    table = shown.assign(written=written, name=heads, value=shown["heldout_accuracy"])
    rows = alt.Y("relation:N", sort=list(order.index), title=None)
    across = alt.X("treebank:N", title=None, axis=alt.Axis(orient="top", labelAngle=-20))
    data = mark_data(table, ["relation", "treebank", "layer", "head", "value", "written", "name"])
    base = alt.Chart(data).encode(across, rows)
    scale = alt.Scale(scheme=SEQUENTIAL, domain=[0, 1])
    legend = alt.Legend(orient="bottom", format="%", gradientLength=150)
    said = [
        alt.Tooltip("relation:N"),
        alt.Tooltip("treebank:N"),
        alt.Tooltip("name:N", title="head"),
        number("value", "accuracy, held out"),
    ]
    shade = alt.Color("value:Q", title="accuracy, held out", scale=scale, legend=legend)
    cells = base.mark_rect(cursor="pointer").encode(shade, tooltip=said)
    ink = alt.condition(f"datum.value > {DARK_FROM}", alt.value(LIGHT), alt.value(DARK))
    words = base.mark_text(fontSize=10, cursor="pointer").encode(text="written:N", color=ink)
    width = CELL_WIDTH * shown["treebank"].nunique()
    return alt.layer(cells, words).properties(
        width=width, height=CELL_HEIGHT * shown["relation"].nunique()
    )


def _write(row: dict[str, object]) -> str:
    ends = PERCENT.interval(float(str(row["heldout_low"])), float(str(row["heldout_high"])))
    return f"{PERCENT.number(float(str(row['heldout_accuracy'])))} [{ends}]"


def _has_treebanks(tables: Tables) -> bool:
    best = tables["dependency-best"]
    return "treebank" in best and best["treebank"].nunique() > 1


TREEBANKS_FIGURE = Figure(
    name="dependency-treebanks",
    title="Relations in several treebanks",
    caption=(
        "Rows: relations, most frequent first. Columns: treebanks. Each cell: held-out accuracy of "
        "the best head in percent, with its 95 % interval."
    ),
    needs=("dependency-best",),
    made_by="--treebank FILE --treebank FILE",
    draw_tables=draw_treebanks,
    has_content=_has_treebanks,
    content="several treebanks",
)


SHARED = (
    Column("relation", lambda row: str(row["relation"])),
    Column("head", lambda row: f"{row['layer']}-{row['head']}"),
    Column("direction", lambda row: str(row["direction"])),
    Column("serves", lambda row: f"{row['serves']} of {row['treebanks']}"),
    Column("best in", lambda row: str(row["best_in"])),
    Column("mean accuracy", lambda row: SHARE.number(row["accuracy"])),
    Column("lowest", lambda row: SHARE.number(row["lowest_accuracy"])),
    Column("chosen on other treebanks", lambda row: SHARE.number(row["transfer_accuracy"])),
    Column("best head of each treebank", lambda row: SHARE.number(row["own_accuracy"])),
)


def build_shared_heads(tables: Tables) -> list[TextTable]:
    """The heads that serve most treebanks, by relation; none for one treebank."""
    table = tables.get("dependency-languages", pd.DataFrame())
    if not len(table):
        return []
    ranked = table.sort_values(["serves", "accuracy"], ascending=False, kind="stable")
    title = "Heads that serve most treebanks"
    note = "A head serves a treebank if its interval there is above the best fixed offset."
    return [build_table(ranked.to_dict("records"), SHARED, title, note)]
