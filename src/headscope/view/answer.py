"""The answer in short: a few plain sentences that the analyses write from their tables."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from headscope.data.table import Tables, split_kinds
from headscope.registry import load_presentations
from headscope.stats.interval import Estimate
from headscope.view.judge import Passing, name_head, plural, top_row
from headscope.view.numbers import (
    SHARE,
    WHOLE,
    WHOLE_PERCENT,
    Form,
    is_agreed,
    name_specials,
    row_estimate,
)
from headscope.view.specs import Answer, AnswerMaker

__all__ = [
    "OPEN", "cases", "choose_answers", "count_heads", "in_hundred", "is_wide", "join_words",
    "name_best", "name_heads", "nearest_head", "note_rough", "say_more", "say_none", "weigh",
    "write_percent",
]  # fmt: skip

MOST = 5  # sentences
NAMED_HEADS = 3
AGAIN = 0.7  # what a further sentence of the same analysis or kind of attention is worth
WIDE, OPEN = 0.5, 0.2  # an interval that says little, and the weight of what it is of
ROUGH = 0.3  # an interval that must be told with its number
KINDS = {"cross": "cross attention"}


def choose_answers(
    tables: Tables, most: int = MOST, model: Mapping[str, Any] | None = None
) -> list[Answer]:
    """The sentences that say most, from different analyses where possible.

    `model` is what the manifest says of it: special tokens have the names that they have there.
    """
    answers = [
        (answer, (analysis, kind))
        for kind, part in split_kinds(tables).items()
        for analysis, shown in load_presentations().items()
        for maker in shown.specs(AnswerMaker)
        if all(len(part.get(name, ())) for name in maker.needs)
        for answer in _of_kind(maker.make(part), kind, model)
    ]
    chosen: list[Answer] = []
    used: list[str] = []

    def worth(item: tuple[Answer, tuple[str, str]]) -> float:
        answer, sources = item
        return answer.weight * AGAIN ** sum(used.count(source) for source in sources if source)

    while answers and len(chosen) < most:
        best = max(answers, key=worth)
        answers.remove(best)
        chosen.append(best[0])
        used += best[1]
    return chosen


def _of_kind(answers: Sequence[Answer], kind: str, model: Mapping[str, Any] | None) -> list[Answer]:
    """The sentences with the kind of attention that they are about, where there are several."""
    prefix = f"{KINDS.get(kind, kind).capitalize()}: " * bool(kind)
    return [
        replace(
            answer,
            text=prefix + name_specials(answer.text, model, kind),
            detail=name_specials(answer.detail, model, kind),
        )
        for answer in answers
    ]


# The parts of sentences, for `show.py`.


def count_heads(
    heads: Passing,
    n_heads: int,
    does: str,
    weight: float,
    figure: str,
    column: str = "weight",
    form: Form = WHOLE_PERCENT,
    detail: Form = SHARE,
) -> Answer:
    """How many of all heads do something, and which do it most: "2 of 72 heads look at ..."."""
    ranked = heads.sure.sort_values(column, ascending=False, kind="stable")
    n_sure = len(ranked)
    shown = ranked.head(n_sure if n_sure <= NAMED_HEADS + 1 else NAMED_HEADS)
    names, rows = name_heads(shown), shown.to_dict("records")
    rough = [note_rough(row_estimate(row, column)) * (form == WHOLE_PERCENT) for row in rows]
    values = [
        f"{name} ({form.number(row[column])}{note})"
        for name, row, note in zip(names, rows, rough, strict=True)
    ]
    which = ": " if len(shown) == n_sure else ", most of all "
    do = does if n_sure == 1 else plural(does)
    text = f"{n_sure:,} of {n_heads:,} heads {do}{which}{join_words(values)}{say_more(heads)}."
    numbers = [f"{name} {detail.row(row, column)}" for name, row in zip(names, rows, strict=True)]
    return Answer(text, weight, f"{', '.join(numbers)}.", names, figure)


def nearest_head(
    rows: pd.DataFrame,
    heads: Passing,
    does: str,
    figure: str,
    column: str = "weight",
    form: Form = WHOLE_PERCENT,
    detail: Form = SHARE,
    where: str = "",
) -> Answer:
    """That no head does something, or that it is undecided; and the head that comes nearest."""
    top = top_row(rows, column)
    name, rough = name_head(top), note_rough(row_estimate(top, column)) * (form == WHOLE_PERCENT)
    value = f"{form.number(top[column])}{where}{rough}"
    text = f"{say_none(does, heads)}; the closest is {name} ({value})."
    return Answer(text, OPEN, f"{name} {detail.row(top, column)}.", (name,), figure)


def name_heads(rows: pd.DataFrame) -> tuple[str, ...]:
    """The heads of these rows as people name them."""
    places = rows[["layer", "head"]].astype(int).itertuples(index=False)
    return tuple(f"{layer}-{head}" for layer, head in places)


def join_words(words: Sequence[str]) -> str:
    """A list as a sentence has it.

    >>> join_words(["a", "b", "c"]), join_words(["a"])
    ('a, b and c', 'a')
    """
    return " and ".join([*[", ".join(words[:-1])] * (len(words) > 1), *words[-1:]])


def write_percent(share: float) -> str:
    """A share in whole percent.

    >>> write_percent(0.974)
    '97 %'
    """
    return WHOLE_PERCENT.number(share)


def cases(share: float) -> str:
    """A share of answers as a count of a hundred.

    >>> cases(0.903)
    '90 of 100 cases'
    """
    return f"{in_hundred(share)} of 100 cases"


def in_hundred(share: float) -> str:
    """A share as a count of a hundred, without a unit.

    >>> in_hundred(0.405)
    '41'
    """
    return WHOLE.number(share)


def say_more(heads: Passing) -> str:
    """How many heads may do it too, as their interval includes the threshold; "" where none."""
    return f"; undecided: {len(heads.open):,} more" * bool(len(heads.open))


def say_none(does: str, heads: Passing) -> str:
    """That no head does something; or that it is undecided, where the interval of some may."""
    return f"Whether some head {does} is undecided" if len(heads.open) else f"No head {does}"


def note_rough(estimate: Estimate[float]) -> str:
    """The interval of a share where it is wide, or that there is none, in words; "" of others.

    >>> note_rough(Estimate(0.5, 0.31, 0.68)), note_rough(Estimate(0.5, 0.49, 0.51))
    (', interval 31-68 %', '')
    """
    if pd.isna(estimate.low):
        return ", no interval"
    ends = f"{WHOLE.interval(estimate.low, estimate.high)} %"
    return f", interval {ends}" * (estimate.high - estimate.low > ROUGH)


def is_wide(estimate: Estimate[float]) -> bool:
    """Whether an interval of a share leaves nearly all open, so that the share says nothing.

    >>> is_wide(Estimate(0.7, 0.02, 0.99)), is_wide(Estimate(0.7, 0.6, 0.8))
    (True, False)
    """
    return estimate.high - estimate.low > WIDE


def weigh(weight: float, estimate: Estimate[float]) -> float:
    """The weight of a sentence about a share; little where its interval leaves nearly all open.

    >>> weigh(0.9, Estimate(0.7, 0.6, 0.8)), weigh(0.9, Estimate(0.7, 0.02, 0.99))
    (0.9, 0.2)
    """
    return OPEN if is_wide(estimate) else weight


def name_best(row: pd.Series, head: str) -> str:
    """The best head as the subject of a sentence about its held-out score. Where fewer than half of
    the folds chose it, the score is mostly that of others, and that is said.

    >>> name_best(pd.Series({"chosen_in": 7, "folds": 8}), "5-5")
    'Head 5-5'
    >>> name_best(pd.Series({"chosen_in": 1, "folds": 6}), "5-6")
    'The best head (5-6 overall, but it varies with the documents)'
    """
    if not is_agreed(row):
        return f"The best head ({head} overall, but it varies with the documents)"
    return f"Head {head}"
