"""A pronoun and two names: does it attend most to the right one, and as often for women as for men?

GAP pairs as many feminine as masculine pronouns with names of the same gender, so the ratio of the
two accuracies says whether a system is biased (1: it is not).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from jaxtyping import Float
from numpy.typing import NDArray

from headscope.analyses.coreference.measure import (
    LABELS,
    Answers,
    HasTokens,
    Question,
    QuestionBatch,
    build_questions,
    count_answers,
)
from headscope.analyses.coreference.rules import SYSTEMS
from headscope.analyses.coreference.show import WAYS
from headscope.analyses.coreference.tables import (
    CANDIDATES,
    DIRECTIONS,
    TABLE_COLUMNS,
    system_table,
)
from headscope.contracts import Analysis, Annotation
from headscope.data.attention import Readings
from headscope.data.encoding import Batch
from headscope.data.example import Example
from headscope.data.table import Tables, rows_where
from headscope.data.words import (
    check_query_pieces,
    first_word_option,
    query_pieces_option,
)
from headscope.lazy import Tensor
from headscope.stats.accuracy import BEST_HEAD_COLUMNS, best_head, best_table
from headscope.stats.bucket import leave_one_out
from headscope.stats.interval import align, estimate, proportion, share
from headscope.stats.sums import Sums
from headscope.view.answer import OPEN, Answer, AnswerMaker, Topic, name_best, write_percent
from headscope.view.facts import accuracy_facts
from headscope.view.judge import name_head, top_row
from headscope.view.numbers import PERCENT, RATIO, SHARE, WHOLE_PERCENT, held_out, percent
from headscope.view.presentation import ANTECEDENTS, Presentation
from headscope.view.specs import PrintedTable
from headscope.view.table import Column, TextTable, build_table, corpus_columns

__all__ = ["Gap"]

GENDERS = ["masculine", "feminine"]
GROUPS = ["all", *GENDERS]
BEST_COLUMNS = (
    *("candidates", "system", *BEST_HEAD_COLUMNS),
    *("masculine", "feminine", "ratio", "ratio_low", "ratio_high"),
)

Found = Float[NDArray[np.float64], " bucket"]


@dataclass(frozen=True)
class Gap(Analysis):
    """Each head as a judge of pronouns: which of the names around it does a pronoun attend to?

    The names may stand before or after the pronoun. A pronoun counts if at least two names compete
    and one of them is right; of those that refer to neither name nothing can be said.
    """

    query_pieces: str = query_pieces_option()
    ignore_first_word: bool = first_word_option()

    name = "gap"
    needs = frozenset({Annotation.WORDS, Annotation.PRONOUN_CHOICES})
    sums = {
        "correct": "*group layer head direction candidates", "count": "*group",
        "baseline": "*group system",
    }  # fmt: skip
    labels = LABELS
    tables = {
        "gap": ("gender", *TABLE_COLUMNS),
        "gap-best": BEST_COLUMNS,
    }

    def __post_init__(self) -> None:
        check_query_pieces(self.query_pieces)

    @property
    def reads(self) -> tuple[Answers, ...]:
        return (Answers(self),)

    def ask(self, batch: Batch) -> QuestionBatch:
        """The questions about a batch."""
        build = partial(build_questions, batch, list_questions, GROUPS)
        return batch.remember(("questions", self), build)

    def measure(self, seen: Readings) -> Mapping[str, Mapping[str, Tensor]]:
        """Right answers of heads and rules for each gender, and how many questions there are."""
        return count_answers(self.ask(seen.batch), seen[self.reads[0]], GROUPS)

    def summarize(self, sums: Sums) -> Mapping[str, pd.DataFrame]:
        """Every head and baseline by gender; the best head and the baselines with their ratio."""
        rows = [_head_row(sums, index) for index in range(len(CANDIDATES))]
        rows += [_rule_row(sums, index) for index in range(len(SYSTEMS))]
        return {
            "gap": system_table(sums, "gender", GROUPS),
            "gap-best": best_table(rows, BEST_COLUMNS),
        }


def list_questions(example: Example, has_tokens: HasTokens) -> Iterator[Question]:
    """Every pronoun that at least two names compete for, one of them right."""
    mentions = [mention for mention in example.mentions or () if has_tokens[mention.head]]
    names = [mention for mention in mentions if mention.kind != "pronoun"]
    for mention in mentions:
        if mention.kind != "pronoun":
            continue
        head = mention.head
        others = [name for name in names if name.head != head]
        others.sort(key=lambda name: (abs(name.head - head), name.head))
        answers = frozenset(name.head for name in others if name.cluster == mention.cluster)
        if answers and len({name.head for name in others}) > 1:
            gender = [mention.gender] if mention.gender in GENDERS else []
            yield Question(mention, others, answers, ["all", *gender])


def _head_row(sums: Sums, candidates: int) -> dict[str, object]:
    correct = {group: sums.values("correct", group)[..., candidates] for group in GROUPS}
    best, columns = best_head(correct["all"], sums.values("count", "all"), DIRECTIONS)
    hits = {g: correct[g].reshape(len(correct[g]), -1)[:, best.place] for g in GROUPS}
    names = {"candidates": CANDIDATES[candidates], "system": "best head"}
    return {**names, **columns, **_by_gender(sums, hits)}


def _rule_row(sums: Sums, system: int) -> dict[str, object]:
    hits = {group: sums.values("baseline", group)[:, system] for group in GROUPS}
    count = sums.values("count", "all")
    value, low, high = map(float, proportion(hits["all"], count))
    names = {"candidates": CANDIDATES[0], "system": list(SYSTEMS)[system], "direction": None}
    scores = {"count": int(count.sum()), "accuracy": value, "low": low, "high": high}
    # nothing was chosen for a rule: held out it is the same
    heldout = {"heldout_accuracy": value, "heldout_low": low, "heldout_high": high}
    return {**names, **scores, **heldout, **_by_gender(sums, hits)}


def _by_gender(sums: Sums, hits: Mapping[str, Found]) -> dict[str, object]:
    """The accuracy for each gender, and the ratio of the two with its interval."""
    shares = [
        share(leave_one_out(hits[gender]), leave_one_out(sums.values("count", gender)))
        for gender in GENDERS
    ]
    below, above = align(*shares)  # masculine and feminine, [replicate] each
    ratio = estimate(above / np.where(below > 0, below, np.nan), (0, np.inf))
    return {
        **{gender: float(part[0]) for gender, part in zip(GENDERS, shares, strict=True)},
        **dict(zip(("ratio", "ratio_low", "ratio_high"), map(float, ratio), strict=True)),
    }


COLUMNS = (
    Column("pronouns by", lambda row: str(row["system"])),
    Column("compete", lambda row: str(row["candidates"])),
    Column("head", lambda row: "" if pd.isna(row["layer"]) else f"{row['layer']}-{row['head']}"),
    Column("count", lambda row: str(row["count"])),
    Column("held out %", lambda row: PERCENT.estimate(held_out(row))),
    Column("on all", lambda row: percent(row["accuracy"])),
    Column("masculine", lambda row: percent(row["masculine"])),
    Column("feminine", lambda row: percent(row["feminine"])),
    Column("ratio", lambda row: RATIO.row(row, "ratio")),
)


def read_best(best: pd.DataFrame, min_count: int) -> list[TextTable]:
    """The best head and the rules by gender; the ratio is feminine over masculine."""
    shown = best[best["system"] != "head-match"]  # no name has a pronoun's head word
    return [build_table(shown.to_dict("records"), (*corpus_columns(best), *COLUMNS))]


def answer_names(tables: Tables) -> list[Answer]:
    """How often the best head picks the right name, beside the strongest baseline."""
    best = rows_where(tables["gap-best"], candidates="mentions")
    is_head = best["system"] == "best head"
    rows = best[is_head]
    if rows.empty or pd.isna(rows["heldout_accuracy"].iloc[0]):
        return []
    row = rows.iloc[0]
    head, accuracy = name_head(row), held_out(row)
    rule = top_row(best[~is_head], "accuracy")
    is_better = accuracy.low > rule["accuracy"]
    subject = name_best(row, head) if is_better else "No head beats the baselines: the best"
    text = (
        f"{subject} finds the right one of the annotated names for "
        f"{WHOLE_PERCENT.estimate(accuracy)} of pronouns (held out; {WAYS[row['direction']]}); "
        f"the strongest baseline, {rule['system']}, for {write_percent(rule['accuracy'])}."
    )
    detail = f"{SHARE.estimate(accuracy)} of {row['count']} pronouns."
    topic = Topic.FINDS if is_better else Topic.NONE
    weight = 0.75 if is_better else OPEN
    return [Answer(text, weight, detail, (head,), "", topic, accuracy, float(rule["accuracy"]))]


PRESENTATION = Presentation(ANTECEDENTS, [
    AnswerMaker(("gap-best",), answer_names),
    accuracy_facts(
        "GAP: right names", "gap", WAYS, gender="all", candidates="mentions", system="head"
    ),
    PrintedTable("gap-best", read_best),
])  # fmt: skip
