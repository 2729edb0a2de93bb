"""The answer in short: a few plain sentences that the analyses write from their tables."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from math import nan
from typing import Any

import pandas as pd

from headscope.data.table import Tables, split_kinds
from headscope.errors import say_count
from headscope.registry import load_presentations
from headscope.stats.interval import Estimate
from headscope.view.judge import Passing, name_head, plural, top_row
from headscope.view.numbers import (
    SHARE,
    WHOLE_PERCENT,
    Form,
    is_agreed,
    name_specials,
    row_estimate,
)

__all__ = [
    "OPEN", "Answer", "AnswerMaker", "Topic", "answer_run", "choose_answers", "count_heads",
    "join_words", "name_best", "name_heads", "nearest_head", "say_more", "write_percent",
]  # fmt: skip

MOST = 6  # sentences
OPEN = 0.2  # the weight of the news that something was not found
NAMED_HEADS = 3
FEW_DOCUMENTS, FEW_TOKENS = 10, 1000  # fewer tell too little of a model
KINDS = {"cross": "cross attention"}
HEAD = re.compile(r"\b\d+-\d+\b")


class Topic(IntEnum):
    """What a sentence is about, in the order in which a reader cares: this is the only place that
    ranks sentences of different analyses. From `SUMMARY` on they only fill what is left over."""

    REST = 1  # where attention rests
    ASKED = 2  # what the user named: token classes, ablated heads
    FINDS = 3  # a head that finds words: relations, antecedents, copies
    HEAD = 4  # a head with a pattern: the previous token
    EXTREME = 5  # a head that is far from all others in something
    SUMMARY = 6  # a number over all heads
    NONE = 7  # that no head does something


@dataclass(frozen=True)
class Answer:
    """A sentence, and how much it says about a model.

    The topic ranks it among the sentences of other analyses, `weight` among those of the same: the
    more frequent or larger what it tells, the more. A sentence with an `estimate` is said only if
    the interval is clear of the `threshold`, and at most `widest` wide.
    """

    text: str
    weight: float = 1.0
    detail: str = ""  # more numbers with their intervals
    heads: tuple[str, ...] = ()  # those that the text names, as "3-3"
    figure: str = ""  # the figure that shows it
    topic: Topic = Topic.HEAD
    estimate: Estimate[float] | None = None  # the number that it is about
    threshold: float = nan  # what the number is compared with, in its unit; nan: with nothing
    widest: float = 0.3  # the widest interval that still tells something, in its unit

    @property
    def is_clear(self) -> bool:
        """Whether the data decide it: the one rule for all sentences."""
        if self.estimate is None:
            return True
        _, low, high = self.estimate
        if not high - low <= self.widest:  # too wide, or no interval
            return False
        return not low <= self.threshold <= high

    def parts(self) -> Iterator[tuple[str, bool]]:
        """The text in parts: heads, which link to their cards, and what is between them."""
        place = 0
        for match in HEAD.finditer(self.text):
            if match[0] in self.heads:
                yield self.text[place : match.start()], False
                yield match[0], True
                place = match.end()
        yield self.text[place:], False


@dataclass(frozen=True)
class AnswerMaker:
    """Sentences of an analysis, and the tables they are read off."""

    needs: tuple[str, ...]
    make: Callable[[Tables], list[Answer]]


def answer_run(tables: Tables, manifest: Mapping[str, Any], most: int = MOST) -> list[Answer]:
    """The sentences about a run; or that it read too little to tell anything.

    What an analysis says of too few documents or tokens is left out.
    """
    sizes = list(_sizes(manifest))
    enough = {name for name, documents, tokens in sizes if _is_enough(documents, tokens)}
    too_small = {name for name, *_ in sizes} - enough
    if sizes and not enough:
        documents, tokens = (max(column) for column in list(zip(*sizes, strict=True))[1:])
        text = (
            f"{say_count(tokens, 'token')} in {say_count(documents, 'document')}: too little to "
            f"tell. Sentences about heads need {FEW_DOCUMENTS} documents and {FEW_TOKENS:,} tokens."
        )
        return [Answer(text)]
    return choose_answers(tables, most, manifest["model"], too_small)


def _sizes(manifest: Mapping[str, Any]) -> Iterator[tuple[str, int, int]]:
    """Each analysis with the documents and tokens of a pass; not those of untrained models."""
    for key, pass_ in manifest.get("passes", {}).items():
        counts = manifest.get("counts", {}).get(key)
        if counts and pass_.get("repeats") is None:
            documents = counts.get("documents", FEW_DOCUMENTS)  # not counted in early runs
            for analysis in pass_.get("analyses", ()):
                yield analysis, documents, counts["tokens"]


def _is_enough(n_documents: int, n_tokens: int) -> bool:
    return n_documents >= FEW_DOCUMENTS and n_tokens >= FEW_TOKENS


def choose_answers(
    tables: Tables,
    most: int = MOST,
    model: Mapping[str, Any] | None = None,
    without: Collection[str] = (),
) -> list[Answer]:
    """The sentences that a reader wants first, of those that the data decide.

    Of each analysis first its weightiest sentence of each topic, in the order of topics; then the
    second ones. Summaries only fill up, and what is extreme of a head that is named already is not
    said. `model` is what the manifest says of it: special tokens have the names that they have
    there. `without` are analyses that are not asked.
    """
    ranked: list[tuple[tuple[Any, ...], Answer]] = []
    for kind, part in split_kinds(tables).items():
        for analysis, shown in load_presentations().items():
            answers = [
                answer
                for maker in shown.specs(AnswerMaker)
                if analysis not in without and all(len(part.get(n, ())) for n in maker.needs)
                for answer in _of_kind(maker.make(part), kind, model)
                if answer.is_clear
            ]
            seen: Counter[Topic] = Counter()
            for answer in sorted(answers, key=lambda answer: -answer.weight):
                key = (_is_filler(answer), seen[answer.topic], answer.topic, -answer.weight)
                ranked.append((key, answer))
                seen[answer.topic] += 1
    ranked.sort(key=lambda pair: pair[0])
    chosen: list[Answer] = []
    for _, answer in ranked:
        named = {head for other in chosen for head in other.heads}
        is_new = answer.topic != Topic.EXTREME or not named.issuperset(answer.heads)
        chosen += [answer] * (is_new and len(chosen) < most)
    return sorted(chosen, key=lambda answer: answer.topic)


def _is_filler(answer: Answer) -> bool:
    """Whether it is told only where nothing better is there."""
    return answer.topic >= Topic.SUMMARY or answer.weight <= OPEN


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
    topic: Topic = Topic.HEAD,
    threshold: float = nan,
) -> Answer:
    """How many of all heads do something, and which do it most: "2 of 72 heads look at ..."."""
    ranked = heads.sure.sort_values(column, ascending=False, kind="stable")
    n_sure = len(ranked)
    shown = ranked.head(n_sure if n_sure <= NAMED_HEADS + 1 else NAMED_HEADS)
    names, rows = name_heads(shown), shown.to_dict("records")
    values = [f"{name} ({form.row(row, column)})" for name, row in zip(names, rows, strict=True)]
    which = ": " if len(shown) == n_sure else ", most of all "
    do = does if n_sure == 1 else plural(does)
    text = f"{n_sure:,} of {n_heads:,} heads {do}{which}{join_words(values)}{say_more(heads)}."
    numbers = [f"{name} {detail.row(row, column)}" for name, row in zip(names, rows, strict=True)]
    return Answer(
        *(text, weight, f"{', '.join(numbers)}.", names, figure, topic),
        *(row_estimate(rows[0], column), threshold),
    )


def nearest_head(
    rows: pd.DataFrame,
    heads: Passing,
    does: str,
    figure: str,
    column: str = "weight",
    form: Form = WHOLE_PERCENT,
    detail: Form = SHARE,
    where: str = "",
    threshold: float = nan,
) -> Answer:
    """That no head does something, and which comes nearest; not said where some head may do it."""
    top = top_row(rows, column)
    name = name_head(top)
    text = f"No head {does}; the closest is {name} ({form.row(top, column)}{where})."
    nearest = row_estimate(top, column)
    if len(heads.open):
        nearest = Estimate(nearest.value, nan, nan)
    return Answer(
        *(text, OPEN, f"{name} {detail.row(top, column)}.", (name,), figure, Topic.NONE),
        *(nearest, threshold),
    )


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


def say_more(heads: Passing) -> str:
    """How many heads may do it too, as their interval includes the threshold; "" where none."""
    return f"; undecided: {len(heads.open):,} more" * bool(len(heads.open))


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
