"""Table 2 for a model: rules and heads by type of mention, for terminal, page and papers."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from headscope.analyses.coreference.tables import CANDIDATES, DIRECTIONS
from headscope.data.table import Tables, rows_where
from headscope.view.judge import name_head, top_row
from headscope.view.numbers import (
    PERCENT,
    held_out,
    percent,
)
from headscope.view.table import (
    CORPUS_LABELS,
    Column,
    TextTable,
    build_table,
    corpus_columns,
    split_corpora,
)

__all__ = ["PAPER_TABLE_2", "RULES", "build_table_2", "choose_among_mentions", "read_best"]

# Clark et al. 2019, Table 2 (BERT-base on CoNLL-2012): nearest, head match, rules, head 5-4.
PAPER_TABLE_2 = {
    "all": (27, 52, 69, 65),
    "pronoun": (29, 47, 70, 64),
    "proper": (29, 67, 77, 73),
    "nominal": (19, 40, 60, 58),
}
RULES = {"nearest": "nearest mention", "head_match": "same head word", "rule_based": "rules"}
NEURAL = "neural system (paper only)"
ARROWS = {"mention-to-antecedent": "to ante", "antecedent-to-mention": "from ante"}

COLUMNS = (
    Column("mentions", lambda row: str(row["mention_type"])),
    Column("count", lambda row: str(row["count"]), drop=2),
    Column("nearest", lambda row: percent(row["nearest"]), drop=1),
    Column("match", lambda row: percent(row["head_match"])),
    Column("rules", lambda row: percent(row["rule_based"])),
    Column("head", lambda row: f"{row['layer']}-{row['head']}"),
    Column("attends", lambda row: ARROWS[row["direction"]], drop=3),
    Column("held out %", lambda row: PERCENT.estimate(held_out(row))),
    Column("folds", lambda row: f"{row['chosen_in']}/{row['folds']}", drop=7),
    Column("on all", lambda row: percent(row["accuracy"]), drop=6),
    Column("of all words", lambda row: percent(row["of_words"]), drop=5),
    Column(
        "paper (5-4)", lambda row: "/".join(map(str, PAPER_TABLE_2[row["mention_type"]])), drop=4
    ),
)


def choose_among_mentions(best: pd.DataFrame) -> pd.DataFrame:
    """The rows in which earlier mentions compete, as in the paper, and not all words."""
    return rows_where(best, candidates=CANDIDATES[0])


def _scores_of(row: Any, every: pd.DataFrame) -> pd.DataFrame:
    """What the head of this row makes of each type of mention, in the same corpus and window."""
    labels = [label for label in CORPUS_LABELS if label in row and label in every]
    same = every["system"] == "head"
    for name in (*labels, "layer", "head", "direction", "candidates"):
        same &= every[name] == row[name]
    return every[same].set_index("mention_type")


def read_best(best: pd.DataFrame, min_count: int) -> list[TextTable]:
    """Rules and the best head for each type of mention, and the paper's numbers."""
    of_words = best[best["candidates"] == CANDIDATES[1]]["heldout_accuracy"]
    among = choose_among_mentions(best).assign(of_words=of_words.to_numpy())  # in the same order
    return [build_table(among.to_dict("records"), (*corpus_columns(best), *COLUMNS))]


def build_table_2(tables: Tables) -> list[TextTable]:
    """Rules and heads as in the paper, by type of mention."""
    best, every = tables["coreference-best"], tables.get("coreference", pd.DataFrame())
    return [_build_table_2(corpus, part, every) for corpus, part in split_corpora(best)]


def _build_table_2(corpus: str, best: pd.DataFrame, every: pd.DataFrame) -> TextTable:
    among = {row["mention_type"]: row for row in choose_among_mentions(best).to_dict("records")}
    rows = {kind: among[kind] for kind in PAPER_TABLE_2 if kind in among}
    paper = {
        called: [str(PAPER_TABLE_2[kind][index]) for kind in rows]
        for index, called in enumerate(RULES.values())
    }
    cells = {
        called: [percent(row[rule]) for row in rows.values()] for rule, called in RULES.items()
    }
    first = _best_as_in_paper(best, every) if len(every) else None
    if first is not None:
        called = f"head {name_head(first)} (from the mention, among all words)"
        scores = _scores_of(first, every)
        cells[called] = [PERCENT.row(scores.loc[kind], "accuracy") for kind in rows]
        paper[called] = [str(PAPER_TABLE_2[kind][3]) for kind in rows]
    n_first = len(cells)  # the paper's protocol
    cells[NEURAL] = [""] * len(rows)
    paper[NEURAL] = ["83" if kind == "all" else "" for kind in rows]
    if "all" in rows and len(every):  # as in the paper, the head that is best over all mentions
        top = rows["all"]
        called = f"head {top['layer']}-{top['head']} (best over all, among mentions)"
        scores = _scores_of(top, every)
        cells[called] = [
            PERCENT.row(scores.loc[kind], "accuracy") if kind in scores.index else "-"
            for kind in rows
        ]
    cells["best head of each type"] = [
        f"{PERCENT.row(row, 'accuracy')} ({row['layer']}-{row['head']})" for row in rows.values()
    ]
    cells["best head of each type, held out"] = [
        percent(row["heldout_accuracy"]) for row in rows.values()
    ]
    counts = ", ".join(f"{row['count']} {kind}" for kind, row in rows.items())
    is_truncated = "cut" in best and (best["cut"] == "truncate").all()
    documents = "truncated, as in the paper" if is_truncated else "whole, in windows"
    note = (
        "Percentage of mentions for which rules or attention pick a correct antecedent "
        f"({counts}; documents are {documents}). Rules choose among the earlier mentions. The "
        f"first head is chosen as in the paper: attention goes from the mention, all words are "
        f"candidates, and the head is scored on the words that it was chosen on. For the other "
        f"heads only earlier mentions are candidates, in either direction. BERT-base is the "
        f"paper's head 5-4 on CoNLL-2012, in documents truncated "
        "to 128 tokens; its neural system read whole documents."
        f"{_tell_singletons(rows)}"
    )
    return TextTable(
        ("system", *rows, *(f"BERT-base: {kind}" for kind in rows)),
        tuple((name, *cells[name], *paper.get(name, [""] * len(rows))) for name in cells),
        "Antecedents by type of mention" + f" ({corpus})" * bool(corpus),
        note,
        n_first=n_first,
    )


def _best_as_in_paper(best: pd.DataFrame, every: pd.DataFrame) -> "pd.Series[Any] | None":
    """The head that is best over all mentions, of the same corpus and window as `best`."""
    labels = [label for label in CORPUS_LABELS if label in best and label in every]
    is_own = (every["mention_type"] == "all") & (every["system"] == "head")
    is_own &= (every["direction"] == DIRECTIONS[0]) & (every["candidates"] == CANDIDATES[1])
    for label in labels:
        is_own &= every[label] == best[label].iloc[0]
    return top_row(every[is_own], "accuracy") if is_own.any() else None


def _tell_singletons(rows: Mapping[str, Mapping[Any, Any]]) -> str:
    """How many there are, and what rules find where they compete."""
    row = next(iter(rows.values()), {})
    if not row.get("singletons"):
        return ""
    rules = [
        f"{called} {percent(row[f'{rule}_with_singletons'])}" for rule, called in RULES.items()
    ]
    return (
        f" {row['singletons']:,} singletons (mentioned once) are not candidates unless "
        f"--singletons is given. With them the rules find, for {next(iter(rows))} mentions: "
        f"{', '.join(rules)} %."
    )
