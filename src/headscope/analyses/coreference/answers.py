"""Which heads find antecedents, in plain sentences."""

import pandas as pd

from headscope.analyses.coreference.measure import CANDIDATES
from headscope.data.table import Tables
from headscope.view.answer import Answer, AnswerMaker, cases, name_best, weigh
from headscope.view.card import name_corpus
from headscope.view.claim import in_paper_window, name_head, top_row
from headscope.view.numbers import SHARE, held_out, percent

__all__ = ["ANSWERS"]

MIN_COUNT = 50  # mentions


def answer_antecedents(tables: Tables) -> list[Answer]:
    """The best head over all mentions, beside the same head word and the rules."""
    best = in_paper_window(tables["coreference-best"])
    is_over_all = (best["mention_type"] == "all") & (best["candidates"] == CANDIDATES[0])
    rows = best[is_over_all & (best["count"] >= MIN_COUNT)]
    if rows.empty:
        return []
    is_held_out = bool(rows["heldout_accuracy"].notna().any())
    row = top_row(rows, "heldout_accuracy" if is_held_out else "accuracy")
    return [_say_best(row, is_held_out)]


def _say_best(row: pd.Series, is_held_out: bool) -> Answer:
    head = name_head(row)
    share = row["heldout_accuracy"] if is_held_out else row["accuracy"]
    way = "held out" if is_held_out else "chosen on the same mentions"
    corpus = f" in {row['corpus']}" if "corpus" in row else ""
    text = (
        f"{name_best(row, head)} finds what a pronoun or noun phrase refers back to in "
        f"{cases(share)} ({way}){corpus}; the nearest mention with the same head word is right in "
        f"{100 * row['head_match']:.0f}."
    )
    numbers = SHARE.estimate(held_out(row)) if is_held_out else SHARE.row(row, "accuracy")
    detail = (
        f"Antecedents of {row['count']} mentions{name_corpus(row)}: {numbers}; same head word "
        f"{percent(row['head_match'])} %, rules {percent(row['rule_based'])} %."
    )
    weight = weigh(0.95 if share > row["head_match"] else 0.5, held_out(row))
    return Answer(text, weight, detail, (head,), "coreference-best")


ANSWERS = (AnswerMaker(("coreference-best",), answer_antecedents),)
