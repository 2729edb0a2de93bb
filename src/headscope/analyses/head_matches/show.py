"""How the matched heads of two models are shown: answers, figures, the closest matches."""

from collections.abc import Callable
from dataclasses import replace

import altair as alt
import pandas as pd

from headscope.data.table import Tables
from headscope.view.answer import Answer, AnswerMaker
from headscope.view.figure import GREY, SEQUENTIAL, Chart, Figure, mark_data, number
from headscope.view.numbers import NATS, RATIO, ROUND_PERCENT
from headscope.view.presentation import PAIR, PageTable, Presentation, PrintedTable
from headscope.view.table import Column, TextTable, build_table

__all__ = ["PRESENTATION"]

SHOWN_MATCHES = 20
LEAST_CELL, MOST_CELL, GRID_SIZE = 10, 30, 420  # pixels


MATCH = (
    Column("head", lambda row: f"{row['layer_a']}-{row['head_a']}"),
    Column("match", lambda row: f"{row['layer_b']}-{row['head_b']}"),
    Column("divergence (nats)", lambda row: NATS.row(row, "divergence")),
    Column("support", lambda row: ROUND_PERCENT.number(row["support"]), drop=1),
    Column("mean to all heads", lambda row: NATS.number(row["mean_divergence"]), drop=2),
    Column("", lambda row: "each other's nearest" if row["is_mutual"] else "", drop=3),
)


def read_matches(matches: pd.DataFrame, min_count: int) -> list[TextTable]:
    """The closest matches, closest first; and how alike matched heads are beside any two."""
    closest = matches.sort_values("divergence", kind="stable").head(SHOWN_MATCHES)
    n_more = len(matches) - len(closest)
    note = f"({n_more} more in the tables)" if n_more else ""
    return [build_table(closest.to_dict("records"), MATCH, note=note), _summarize(matches)]


def build_page_tables(tables: Tables) -> list[TextTable]:
    """All matches, closest first, and their summary."""
    matches = tables.get("head-matches", pd.DataFrame())
    if matches.empty:
        return []
    note = (
        "Divergence: mean Jensen-Shannon divergence (0 identical, 0.69 disjoint). Support: share "
        "of resamples of the documents that give the same match."
    )
    rows = matches.sort_values("divergence", kind="stable").to_dict("records")
    chance = [
        replace(table, title="Matches compared with chance")
        for table in read_chance(tables.get("head-matches-chance", pd.DataFrame()), 0)
    ]
    closest = build_table(rows, MATCH, "All matches, closest first", note)
    return [_summarize(matches), *chance, closest]


def _summarize(matches: pd.DataFrame) -> TextTable:
    """How alike matched heads are beside any two, and whether they stand at the same depth."""
    first, second = matches["layer_a"], matches["layer_b"]
    is_deep = min(first.nunique(), second.nunique()) > 1  # one layer has no order
    depth = first.corr(second, method="spearman") if is_deep else float("nan")
    rows = (
        ("matched heads", str(len(matches))),
        ("mean divergence of matches", NATS.number(matches["divergence"].mean())),
        ("mean divergence of all pairs", NATS.number(matches["mean_divergence"].mean())),
        ("each other's nearest", str(int(matches["is_mutual"].sum()))),
        ("at the same place (layer and head)", str(int(_is_same_place(matches).sum()))),
        ("rank correlation of layers", RATIO.number(depth)),
    )
    return TextTable(("all matches", ""), rows)


CHANCE = (
    Column("matching", lambda row: str(row["matching"])),
    Column("mean divergence (nats)", lambda row: NATS.row(row, "divergence")),
    Column("same layer and head", lambda row: ROUND_PERCENT.number(row["same_head"])),
)


def read_chance(chance: pd.DataFrame, min_count: int) -> list[TextTable]:
    """The matches, held out, beside what chance gives."""
    return [build_table(chance.to_dict("records"), CHANCE)] if len(chance) else []


def _is_same_place(matches: pd.DataFrame) -> "pd.Series[bool]":
    is_same_layer = matches["layer_a"] == matches["layer_b"]
    return is_same_layer & (matches["head_a"] == matches["head_b"])


def answer_matches(tables: Tables) -> list[Answer]:
    """How alike the heads are, how many match each other, and the closest of them."""
    matches = tables["head-matches"].sort_values("divergence", kind="stable")
    matched, any_two = matches["divergence"].mean(), matches["mean_divergence"].mean()
    n_heads, n_mutual = len(matches), int(matches["is_mutual"].sum())
    top, n_same = matches.iloc[0], int(_is_same_place(matches).sum())
    pair = f"{top['layer_a']:.0f}-{top['head_a']:.0f}", f"{top['layer_b']:.0f}-{top['head_b']:.0f}"
    alike = (
        f"On average, matched heads differ by {NATS.number(matched)}, any two heads by "
        f"{NATS.number(any_two)} (Jensen-Shannon divergence: 0 identical, 0.69 disjoint)."
    )
    mutual = f"{n_mutual} of {n_heads} matches are each other's nearest heads."
    closest = f"The closest match is head {pair[0]} with head {pair[1]} of the second model."
    same = f"{n_same} of {n_heads} heads match the head at the same place."
    detail = f"Divergence {NATS.row(top, 'divergence')} nats."
    return [
        Answer(alike, 1.0, figure="matches-by-layer"),
        Answer(mutual, 0.95),
        Answer(closest, 0.9, detail, figure="matches-by-layer"),
        Answer(same, 0.85, figure="matches-of-layers"),
    ]


def draw_by_layer(tables: Tables) -> Chart:
    """A dot for each head of the first model: how far its match is."""
    columns = ["layer_a", "head_a", "layer_b", "head_b", "divergence", "low", "high"]
    matches = tables["head-matches"]
    chart = alt.Chart(mark_data(matches, [*columns, "mean_divergence"])).transform_calculate(
        name="datum.layer_a + '-' + datum.head_a", match="datum.layer_b + '-' + datum.head_b"
    )
    across = alt.X("layer_a:O", title="layer of the first model", axis=alt.Axis(labelAngle=0))
    said = [
        alt.Tooltip("name:N", title="head"),
        alt.Tooltip("match:N", title="match"),
        number("divergence", "divergence"),
        number("mean_divergence", "mean to all heads"),
    ]
    title = "divergence (nats)"
    dots = chart.mark_circle(size=46, opacity=0.6).encode(
        across, alt.Y("divergence:Q", title=title), tooltip=said
    )
    ticks = chart.mark_tick(color=GREY, thickness=2, size=14).encode(
        across, alt.Y("mean(mean_divergence):Q", title=title)
    )
    return (ticks + dots).properties(width=760, height=260)


def draw_layers(tables: Tables) -> Chart:
    """How many heads of each layer match heads of each layer of the other model."""
    matches = tables["head-matches"]
    counts = matches.groupby(["layer_a", "layer_b"]).size().rename("heads").reset_index()
    most = int(max(matches["layer_a"].max(), matches["layer_b"].max()))
    cell = max(LEAST_CELL, min(MOST_CELL, GRID_SIZE // most))
    axis = alt.Axis(labelAngle=0, labelOverlap=True, ticks=False, domain=False)

    def layers(channel: type, field: str, title: str) -> alt.SchemaBase:
        domain = list(range(1, int(matches[field].max()) + 1))
        scaled: alt.SchemaBase = channel(
            f"{field}:O", title=title, axis=axis, scale=alt.Scale(domain=domain)
        )
        return scaled

    chart: Chart = alt.Chart(mark_data(counts, ["layer_a", "layer_b", "heads"]))
    return (
        chart.mark_rect(stroke=GREY, strokeWidth=0.2)
        .encode(
            layers(alt.X, "layer_b", "layer of the second model"),
            layers(alt.Y, "layer_a", "layer of the first model"),
            alt.Color("heads:Q", title="matches", scale=alt.Scale(scheme=SEQUENTIAL, zero=True)),
            tooltip=["layer_a:O", "layer_b:O", alt.Tooltip("heads:Q", title="matches")],
        )
        .properties(
            width=cell * int(matches["layer_b"].max()), height=cell * int(matches["layer_a"].max())
        )
    )


def _figure(
    name: str, title: str, caption: str, draw: Callable[[Tables], Chart], in_line: int = 1
) -> Figure:
    made_by = "(headscope distance A B --text FILE)"
    return Figure(name, title, caption, ("head-matches",), made_by, draw, in_line=in_line)


FIGURES = (
    _figure(
        "matches-by-layer",
        "How close each head's match is",
        "Each dot is a head of the first model. y: divergence from its match in the second model "
        "(0 identical, 0.69 disjoint). Grey tick: its mean divergence from all heads of the second "
        "model. A real match is far below the tick.",
        draw_by_layer,
    ),
    _figure(
        "matches-of-layers",
        "Which layers match",
        "Rows: layers of the first model. Columns: layers of the second. The darker a cell, the "
        "more heads match between the two layers. A dark diagonal: heads at the same depth match.",
        draw_layers,
        in_line=2,
    ),
)
PRESENTATION = Presentation(
    section=PAIR,
    figures=FIGURES,
    answers=(AnswerMaker(("head-matches",), answer_matches),),
    printed=(
        PrintedTable("head-matches", read_matches),
        PrintedTable("head-matches-chance", read_chance),
    ),
    page_tables=(PageTable("Matched heads", "(headscope distance)", build_page_tables),),
)
