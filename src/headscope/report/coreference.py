"""Antecedents found by heads and by rules, beside the paper's Table 2; and GAP by gender."""

from collections.abc import Hashable, Mapping
from typing import Any

import pandas as pd

from headscope.report.cells import percent

__all__ = ["PAPER_TABLE_2", "antecedent_lines", "gap_lines"]

# Clark et al. 2019, Table 2 (BERT-base on CoNLL-2012): nearest, head match, rules, head 5-4.
PAPER_TABLE_2 = {
    "all": (27, 52, 69, 65),
    "pronoun": (29, 47, 70, 64),
    "proper": (29, 67, 77, 73),
    "nominal": (19, 40, 60, 58),
}
ARROWS = {"mention-to-antecedent": "to ante", "antecedent-to-mention": "from ante"}

Lines = tuple[tuple[str, ...], list[tuple[str, ...]]]


def antecedent_lines(best: pd.DataFrame) -> Lines:
    """Table 2: rules and the best head for each type of mention, and the paper's numbers."""
    labels = [name for name in ("corpus", "window") if name in best]
    rules = ("nearest", "match", "rules")
    found = ("head", "attends", "accuracy %", "held out", "of all words")
    header = (*labels, "mentions", "count", *rules, *found, "paper (5-4)")
    among, of_words = (best[best["candidates"] == which] for which in ("mentions", "words"))
    among = among.assign(of_words=of_words["heldout_accuracy"].to_numpy())  # in the same order
    return header, [_antecedent_line(row, labels) for row in among.to_dict("records")]


def _antecedent_line(row: Mapping[Hashable, Any], labels: list[str]) -> tuple[str, ...]:
    return (
        *(str(row[label]) for label in labels),
        str(row["mention_type"]),
        str(row["count"]),
        *(percent(row[rule]) for rule in ("nearest", "head_match", "rule_based")),
        f"{row['layer']}-{row['head']}",
        ARROWS[row["direction"]],
        f"{percent(row['accuracy'])} [{percent(row['low'])}-{percent(row['high'])}]",
        percent(row["heldout_accuracy"]),
        percent(row["of_words"]),
        "/".join(map(str, PAPER_TABLE_2[row["mention_type"]])),
    )


def gap_lines(best: pd.DataFrame) -> Lines:
    """Which of two names, by gender; the ratio is feminine over masculine."""
    labels = [name for name in ("corpus", "window") if name in best]
    header = (*labels, "pronouns by", "compete", "head", "count", "accuracy %", "held out")
    header = (*header, "masculine", "feminine", "ratio")
    shown = best[best["system"] != "head-match"]  # no name has a pronoun's head word
    return header, [_gap_line(row, labels) for row in shown.to_dict("records")]


def _gap_line(row: Mapping[Hashable, Any], labels: list[str]) -> tuple[str, ...]:
    ratio = f"{row['ratio']:.2f} [{row['ratio_low']:.2f}-{row['ratio_high']:.2f}]"
    return (
        *(str(row[label]) for label in labels),
        str(row["system"]),
        str(row["candidates"]),
        "" if pd.isna(row["layer"]) else f"{row['layer']}-{row['head']}",
        str(row["count"]),
        f"{percent(row['accuracy'])} [{percent(row['low'])}-{percent(row['high'])}]",
        percent(row["heldout_accuracy"]),
        percent(row["masculine"]),
        percent(row["feminine"]),
        "-" if pd.isna(row["ratio"]) else ratio,
    )
