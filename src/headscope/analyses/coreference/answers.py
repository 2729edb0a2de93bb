"""Which heads find antecedents, in plain sentences."""

from math import nan

import pandas as pd

from headscope.analyses.coreference.tables import CANDIDATES
from headscope.data.table import Tables
from headscope.stats.interval import Estimate
from headscope.view.answer import cases, in_hundred, name_best, weigh
from headscope.view.judge import in_paper_window, name_head, top_row
from headscope.view.numbers import POINTS, SHARE, held_out, percent, row_estimate
from headscope.view.specs import Answer, AnswerMaker
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
    rows = best[is_over_all & (best["count"] >= MIN_COUNT)]
    if rows.empty:
        return []
    is_held_out = bool(rows["heldout_accuracy"].notna().any())
    row = top_row(rows, "heldout_accuracy" if is_held_out else "accuracy")
    return [_say_best(row, is_held_out, tables)]


def _say_best(row: pd.Series, is_held_out: bool, tables: Tables) -> Answer:
    head = name_head(row)
    share = row["heldout_accuracy"] if is_held_out else row["accuracy"]
    way = "held out" if is_held_out else "chosen on the same mentions"
    corpus = f" in {row['corpus']}" if "corpus" in row else ""
    rule = max(BASELINES, key=lambda name: row[name])
    called, other = BASELINES[rule], in_hundred(row[rule])
    best, by = name_best(row, head), BY[row["direction"]]
    gain = _compare(row, rule, tables)
    if gain.low > 0:
        text = (
            f"{best} finds {ANTECEDENT} in {cases(share)}{corpus} ({way}; among annotated "
            f"mentions, by {by}); the strongest baseline, {called}, finds {other}."
        )
    else:
        clearly = "" if gain.high < 0 else "clearly "
        text = (
            f"No head {clearly}beats the strongest baseline, {called}, in finding {ANTECEDENT} "
            f"among annotated mentions{corpus}: {best[0].lower()}{best[1:]} finds it in "
            f"{cases(share)} ({way}; by {by}), {called} {other}."
        )
    numbers = SHARE.estimate(held_out(row)) if is_held_out else SHARE.row(row, "accuracy")
    rules = ", ".join(f"{BASELINES[name]} {percent(row[name])} %" for name in BASELINES)
    more = f" Difference from the strongest: {POINTS.estimate(gain)}."
    detail = (
        f"Antecedents of {row['count']} mentions{name_corpus(row)}: {numbers}; {rules}."
        f"{more * is_held_out}"
    )
    weight = weigh(0.95 if gain.low > 0 else 0.7, held_out(row))
    return Answer(text, weight, detail, (head,), "coreference-best")


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
