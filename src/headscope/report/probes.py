"""Probes beside the paper's Table 3."""

import pandas as pd

from headscope.report.cells import percent

__all__ = ["PAPER_TABLE_3", "probe_lines", "relation_lines"]

# Clark et al. 2019, Table 3 (BERT-base on WSJ): UAS without punctuation.
PAPER_TABLE_3 = {
    "right-branching": 26,
    "distances-and-words": 58,
    "random-init-attention-and-words": 30,
    "attention-only": 61,
    "attention-and-words": 77,
}

HEADER = ("probe", "UAS %", "with punct", "UUAS", "MST UAS", "sentences", "parameters", "paper")
SHOWN = "attention-and-words", "attention-only"  # whose relations are printed, the first there is


def probe_lines(table: pd.DataFrame) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Header and rows: every probe's scores, with the paper's UAS last."""
    lines = []
    for row in table.to_dict("records"):
        interval = "" if pd.isna(row["low"]) else f" [{percent(row['low'])}-{percent(row['high'])}]"
        lines.append(
            (
                str(row["probe"]),
                f"{percent(row['uas'])}{interval}",
                *(percent(row[name]) for name in ("uas_with_punctuation", "uuas", "mst_uas")),
                f"{row['sentences']:,}",
                f"{row['parameters']:,}",
                str(PAPER_TABLE_3.get(row["probe"], "")),
            )
        )
    return HEADER, lines


def relation_lines(
    table: pd.DataFrame, min_count: int
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """The relations of the strongest probe beside their best single heads, most frequent first."""
    name = next((probe for probe in SHOWN if probe in set(table["probe"])), None)
    shown = table[(table["probe"] == name) & (table["count"] >= min_count)]
    header = ("relation", "count", f"{name} %", "best head", "its %", "gain")
    lines: list[tuple[str, ...]] = []
    for row in shown.to_dict("records"):
        has_head = not pd.isna(row["gain"])
        arrow = " (h>d)" if row["best_direction"] == "head-to-dependent" else ""
        head = f"{row['best_layer']}-{row['best_head']}{arrow}" if has_head else ""
        of_head = (percent(row["best_head_accuracy"]), f"{100 * row['gain']:+.1f}")
        lines.append(
            (
                str(row["relation"]),
                str(row["count"]),
                percent(row["accuracy"]),
                head,
                *(of_head if has_head else ("", "")),
            )
        )
    return header, lines
