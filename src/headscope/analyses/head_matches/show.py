"""How the matched heads of two models are shown: answers, figures, the closest matches."""

from dataclasses import replace

import pandas as pd

from headscope.data.table import Tables
from headscope.view.numbers import NATS, RATIO, ROUND_PERCENT
from headscope.view.presentation import PAIR, Presentation
from headscope.view.specs import Answer, AnswerMaker, Figure, PageTable, PrintedTable
from headscope.view.table import Column, TextTable, build_table

__all__ = ["PRESENTATION"]

SHOWN_MATCHES = 20

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
    matches = tables["head-matches"]
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


CHARTS = "headscope.analyses.head_matches.charts"
MADE_BY = "(headscope distance A B --text FILE)"
PRESENTATION = Presentation(PAIR, made_by=MADE_BY, show=[
    Figure(
        name="matches-by-layer", needs=("head-matches",), draw_tables=f"{CHARTS}:draw_by_layer",
        title="How close each head's match is",
        caption="Each dot is a head of the first model. y: divergence from its match in the second "
        "model (0 identical, 0.69 disjoint). Grey tick: its mean divergence from all heads of the "
        "second model. A real match is far below the tick.",
    ),
    Figure(
        name="matches-of-layers", needs=("head-matches",), draw_tables=f"{CHARTS}:draw_layers",
        in_line=2, title="Which layers match",
        caption="Rows: layers of the first model. Columns: layers of the second. The darker a "
        "cell, the more heads match between the two layers. A dark diagonal: heads at the same "
        "depth match.",
    ),
    AnswerMaker(("head-matches",), answer_matches),
    PrintedTable("head-matches", read_matches),
    PrintedTable("head-matches-chance", read_chance),
    PageTable("Matched heads", "(headscope distance)", "head-matches", build_page_tables),
])  # fmt: skip
