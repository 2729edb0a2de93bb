"""The best head of each relation beside the paper's Table 1, and several treebanks compared."""

from collections.abc import Hashable, Mapping
from typing import Any

import pandas as pd

from headscope.report.cells import percent

__all__ = ["PAPER_TABLE_1", "across_treebanks", "best_lines"]

# Clark et al. 2019, Table 1 (BERT-base on WSJ, Stanford labels): head, accuracy, best offset.
PAPER_TABLE_1 = {
    "all": ("7-6", 34.5, 26.3),
    "prep": ("7-4", 66.7, 61.8),
    "pobj": ("9-6", 76.3, 34.6),
    "det": ("8-11", 94.3, 51.7),
    "nn": ("4-10", 70.4, 70.2),
    "nsubj": ("8-2", 58.5, 45.5),
    "amod": ("4-10", 75.6, 68.3),
    "dobj": ("8-10", 86.8, 40.0),
    "advmod": ("7-6", 48.8, 40.2),
    "aux": ("4-10", 81.1, 71.5),
    "poss": ("7-6", 80.5, 47.7),
    "auxpass": ("4-10", 82.5, 40.5),
    "ccomp": ("8-1", 48.8, 12.4),
    "mark": ("8-2", 50.7, 14.5),
    "prt": ("6-7", 99.1, 91.4),
}
# Universal Dependencies' names for the same relations.
UNIVERSAL = {"obj": "dobj", "aux:pass": "auxpass", "compound": "nn", "nmod:poss": "poss"}
UNIVERSAL |= {"compound:prt": "prt"}
ARROWS = {"dependent-to-head": "dep>head", "head-to-dependent": "head>dep"}

HEADER = (
    "relation",
    "count",
    "head",
    "direction",
    "accuracy %",
    "held out",
    "offset",
    "held out",
    "p",
)


def best_lines(best: pd.DataFrame, min_count: int) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Header and rows for relations with at least `min_count` words, most frequent first."""
    has_null = "heldout_null_accuracy" in best
    header = (*HEADER, *["untrained"] * has_null, "paper (offset)")
    shown = best[best["count"] >= min_count]
    if "treebank" in best:
        header = ("treebank", *header)
    return header, [_line(row, has_null) for row in shown.to_dict("records")]


def across_treebanks(best: pd.DataFrame, min_count: int) -> list[tuple[str, str]]:
    """Which relations a single head catches in which treebank: significantly above any offset."""
    shown = best[best["count"] >= min_count]
    is_caught = (shown["p_value"] < 0.05) & (shown["heldout_difference"] > 0)
    lines = []
    for relation, rows in shown[is_caught].groupby("relation", sort=False):
        found = [f"{r.treebank} {r.heldout_accuracy:.0%}" for r in rows.itertuples()]
        lines.append((str(relation), ", ".join(found)))
    return lines


def _line(row: Mapping[Hashable, Any], has_null: bool) -> tuple[str, ...]:
    relation = str(row["relation"])
    name = UNIVERSAL.get(relation, relation)
    paper = PAPER_TABLE_1.get(name)
    return (
        *([str(row["treebank"])] if "treebank" in row else []),
        relation,
        str(row["count"]),
        f"{row['layer']}-{row['head']}",
        ARROWS[str(row["direction"])],
        f"{percent(row['accuracy'])} [{percent(row['low'])}-{percent(row['high'])}]",
        percent(row["heldout_accuracy"]),
        f"{percent(row['baseline_accuracy'])} ({row['offset']:+})",
        percent(row["heldout_baseline_accuracy"]),
        _p_value(row["p_value"]),
        *([percent(row["heldout_null_accuracy"])] if has_null else []),
        f"{paper[0]} {paper[1]} ({paper[2]})" if paper else "",
    )


def _p_value(p: float) -> str:
    if pd.isna(p):
        return "-"
    return "<.001" if p < 0.001 else f"{p:.3f}"
