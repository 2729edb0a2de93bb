"""Which heads find antecedents, in plain sentences."""

from math import nan

import pandas as pd

from headscope.analyses.coreference.tables import CANDIDATES
from headscope.data.table import Tables
from headscope.stats.interval import Estimate
from headscope.view.answer import OPEN, Answer, AnswerMaker, Topic, name_best, write_percent
from headscope.view.judge import in_paper_window, name_head, top_row
from headscope.view.numbers import POINTS, SHARE, WHOLE_PERCENT, held_out, percent, row_estimate
from headscope.view.table import name_corpus

__all__ = ["ANSWERS"]

MIN_COUNT = 50  # mentions
BASELINES = {
    "nearest": "the nearest mention",
    "head_match": "the nearest mention with the same head word",
    "rule_based": "the rules",
}
BY = {
    "mention-to-antecedent": "attention to the antecedent",
    "antecedent-to-mention": "attention from the antecedent",
}
ANTECEDENT = "what a pronoun or noun phrase refers back to"


def answer_antecedents(tables: Tables) -> list[Answer]:
    """The best head over all mentions, beside the strongest baseline."""
    best = in_paper_window(tables["coreference-best"])
    is_over_all = (best["mention_type"] == "all") & (best["candidates"] == CANDIDATES[0])
    rows = best[is_over_all & (best["count"] >= MIN_COUNT) & best["heldout_accuracy"].notna()]
    return [] if rows.empty else [_say_best(top_row(rows, "heldout_accuracy"), tables)]


def _say_best(row: pd.Series, tables: Tables) -> Answer:
    head = name_head(row)
    accuracy, rule = held_out(row), max(BASELINES, key=lambda name: row[name])
    called = BASELINES[rule]
    gain = _compare(row, rule, tables)
    is_better = gain.low > 0
    best = name_best(row, head)
    subject = best if is_better else f"No head beats {called}: {best[0].lower()}{best[1:]}"
    corpus = f" in {row['corpus']}" if "corpus" in row else ""
    text = (
        f"{subject} finds {ANTECEDENT}{corpus} for {WHOLE_PERCENT.estimate(accuracy)} of mentions "
        f"(held out, among annotated mentions, by {BY[row['direction']]}); the strongest baseline, "
        f"{called}, for {write_percent(row[rule])}."
    )
    rules = ", ".join(f"{BASELINES[name]} {percent(row[name])} %" for name in BASELINES)
    detail = (
        f"Antecedents of {row['count']} mentions{name_corpus(row)}: {SHARE.estimate(accuracy)}; "
        f"{rules}. Difference from the strongest: {POINTS.estimate(gain)}."
    )
    weight, topic = (0.7, Topic.FINDS) if is_better else (OPEN, Topic.NONE)
    is_open = not (is_better or gain.high < 0)
    told = Estimate(accuracy.value, nan, nan) if is_open else accuracy
    return Answer(text, weight, detail, (head,), "coreference-best", topic, told, row[rule])


def _compare(row: pd.Series, rule: str, tables: Tables) -> Estimate[float]:
    """By how much the head is above a baseline, held out and paired; NaN where it is not known."""
    if rule == "rule_based":
        return row_estimate(row, "heldout_difference")
    table = tables.get("coreference-contrasts", pd.DataFrame(columns=["than"]))
    rows = table[table["than"] == rule.replace("_", "-")]
    for label in ("corpus", "window", "cut", "candidates", "mention_type"):
        rows = rows[rows[label] == row[label]] if label in rows and label in row else rows
    return Estimate(nan, nan, nan) if rows.empty else row_estimate(rows.iloc[0], "difference")


ANSWERS = (AnswerMaker(("coreference-best",), answer_antecedents),)
