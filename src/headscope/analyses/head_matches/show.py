"""How the matched heads of two models are shown: the closest matches, and all of them summed up."""

from dataclasses import replace

import pandas as pd

from headscope.data.table import Tables
from headscope.view.numbers import NATS, RATIO, ROUND_PERCENT
from headscope.view.presentation import MAP, PageTable, Presentation, PrintedTable
from headscope.view.table import Column, TextTable, build_table

__all__ = ["PRESENTATION"]

SHOWN_MATCHES = 20


MATCH = (
    Column("head", lambda row: f"{row['layer_a']}-{row['head_a']}"),
    Column("match", lambda row: f"{row['layer_b']}-{row['head_b']}"),
    Column("divergence (nats)", lambda row: NATS.row(row, "divergence")),
    Column("support", lambda row: ROUND_PERCENT.number(row["support"])),
    Column("mean to all heads", lambda row: NATS.number(row["mean_divergence"])),
    Column("", lambda row: "each other's nearest" if row["is_mutual"] else ""),
)


def read_matches(matches: pd.DataFrame, min_count: int) -> list[TextTable]:
    """The closest matches, closest first; and how alike matched heads are beside any two."""
    closest = matches.sort_values("divergence", kind="stable").head(SHOWN_MATCHES)
    n_more = len(matches) - len(closest)
    note = f"({n_more} more in the tables)" if n_more else ""
    return [build_table(closest.to_dict("records"), MATCH, note=note), _summarize(matches)]


def _summarize(matches: pd.DataFrame) -> TextTable:
    """How alike matched heads are beside any two, and whether they stand at the same depth."""
    first, second = matches["layer_a"], matches["layer_b"]
    is_same = (first == second) & (matches["head_a"] == matches["head_b"])
    is_deep = min(first.nunique(), second.nunique()) > 1  # one layer has no order
    depth = first.corr(second, method="spearman") if is_deep else float("nan")
    rows = (
        ("matched heads", str(len(matches))),
        ("mean divergence of matches", NATS.number(matches["divergence"].mean())),
        ("mean divergence of any two", NATS.number(matches["mean_divergence"].mean())),
        ("each other's nearest", str(int(matches["is_mutual"].sum()))),
        ("at the same place (layer and head)", str(int(is_same.sum()))),
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
    return [build_table(chance.to_dict("records"), CHANCE)]


def page_matches(tables: Tables) -> list[TextTable]:
    """For the page: the matches beside chance, then the closest pairs."""
    titles = ("Matches beside chance", "The closest matches", "All matches")
    shown = [
        *read_chance(tables["head-matches-chance"], 0),
        *read_matches(tables["head-matches"], 0),
    ]
    return [replace(table, title=title) for table, title in zip(shown, titles, strict=True)]


def _has_matches(tables: Tables) -> bool:
    return all(len(tables.get(name, ())) for name in ("head-matches", "head-matches-chance"))


PRESENTATION = Presentation(
    section=MAP,
    printed=(
        PrintedTable("head-matches", read_matches),
        PrintedTable("head-matches-chance", read_chance),
    ),
    page_tables=(
        PageTable(
            "Matched heads of two models",
            "",  # two models: `headscope distance`
            lambda tables: page_matches(tables) if _has_matches(tables) else [],
        ),
    ),
)
