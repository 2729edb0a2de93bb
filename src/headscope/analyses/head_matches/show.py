"""How the matched heads of two models are shown: the closest matches, and all of them summed up."""

import pandas as pd

from headscope.view.numbers import NATS, RATIO, ROUND_PERCENT
from headscope.view.presentation import Presentation, PrintedTable
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


PRESENTATION = Presentation(printed=(PrintedTable("head-matches", read_matches),))
