"""Facts of cards: a number of every head in words, with its rank among heads."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import nan
from types import MappingProxyType
from typing import Any

import pandas as pd

from headscope.data.table import Tables
from headscope.view.numbers import SHARE, Form, is_agreed, say_held_out
from headscope.view.table import CORPUS_LABELS, choose_rows, name_corpus, rows_of

__all__ = [
    "Fact", "FactMaker", "Facts", "Part", "Place", "accuracy_facts", "add_rank", "best_head_facts",
    "by_head", "head_facts", "read_rank",
]  # fmt: skip


Place = tuple[int, int]  # layer and head, from 1


@dataclass(frozen=True)
class Part:
    """One number of a fact, in words and as a small bar; `bar` and `mark` are from 0 to 1."""

    label: str  # what the number is of; "" where the topic says it
    value: str
    bar: float = nan
    mark: float = nan  # what it is compared with, such as a baseline
    rank: int = 0  # among `n_heads` heads, 1 is the highest; 0: not ranked
    n_heads: int = 0
    note: str = ""
    head: str = ""  # another head that the number is about, as "3-3"

    @property
    def text(self) -> str:
        """All of it in words.

        >>> Part("itself", "5.0 %", rank=3, n_heads=15).text
        'itself 5.0 % (rank 3 of 15)'
        """
        notes = [*[f"rank {self.rank} of {self.n_heads}"] * bool(self.rank), self.note]
        note = "; ".join(filter(None, notes))
        return f"{self.label} {self.value}".strip() + f" ({note})" * bool(note)


@dataclass(frozen=True)
class Fact:
    """One thing known about a head: what it is about, and the numbers in words (not escaped)."""

    topic: str
    text: str
    parts: tuple[Part, ...] = ()  # the text in numbers, where it can be drawn
    summary: str = ""  # what the head is best at, if it is: "the best head for det (93 %)"


Facts = Iterator[tuple[Place, Fact]]


@dataclass(frozen=True)
class FactMaker:
    """Facts of every head, and the tables they are read off."""

    needs: tuple[str, ...]
    make: Callable[[Tables], Facts]
    has_summary: bool = False  # whether a fact may say what a head is best at


def head_facts(
    topic: str,
    table: str,
    column: str = "weight",
    *,
    form: Form = SHARE,
    where: Mapping[str, str] = MappingProxyType({}),
    split: str = "",
    words: Mapping[str, str] = MappingProxyType({}),
    label: str = "{}",
    value: str = "{}",
    seen: bool = False,
    bar: str = "",
    is_ranked: bool = True,
    is_lowest_first: bool = False,
    note: Callable[[Any], str] = lambda row: "",
) -> FactMaker:
    """A number of every head, once for each value of the column `split`.

    `words` are what these values are called, in `label`; `value` is the number in words. With
    `seen`, not of values whose number is 0 for every head. The bar is as long as the number of the
    column `bar`, by default the same; or in proportion to the "largest" number, or to the "largest
    of its kind", or there is "none".
    """

    def make(tables: Tables) -> Facts:
        rows = choose_rows(tables[table], where)
        groups = [name for name in (*CORPUS_LABELS, split) if name in rows]
        if seen:
            rows = rows[rows.groupby(split)[column].transform("max") > 0]
        n_heads = rows.groupby(["layer", "head"]).ngroups
        ranked = add_rank(rows, column, *groups, is_lowest_first=is_lowest_first)
        length = rows[bar if bar in rows else column]
        largest: Any = 1.0
        if bar == "largest":
            largest = length.max()
        elif bar == "largest of its kind":
            largest = length.groupby(rows[split]).transform("max")
        ranked["length"] = nan if bar == "none" else length / largest

        def phrase(row: Any) -> Part:
            kind = getattr(row, split) if split else ""
            return Part(
                label.format(words.get(kind, kind)),
                value.format(form.row(row, column)) + name_corpus(row),
                row.length,
                rank=read_rank(row) if is_ranked else 0,
                n_heads=n_heads if is_ranked else 0,
                note=note(row),
            )

        return by_head(ranked, topic, phrase)

    return FactMaker((table,), make)


def accuracy_facts(
    topic: str, table: str, directions: Mapping[str, str], **where: str
) -> FactMaker:
    """Each head's better direction, with its rank among heads; once for every corpus."""

    def make(tables: Tables) -> Facts:
        rows = choose_rows(tables[table], where)
        labels = [label for label in CORPUS_LABELS if label in rows]
        rows = rows.sort_values("accuracy", ascending=False, kind="stable")
        rows = add_rank(rows.drop_duplicates([*labels, "layer", "head"]), "accuracy", *labels)
        n_heads = rows.groupby(["layer", "head"]).ngroups

        def phrase(row: Any) -> Part:
            note = directions.get(str(getattr(row, "direction", "")), "")
            value = f"{SHARE.row(row, 'accuracy')}{name_corpus(row)}"
            rank = read_rank(row)
            return Part("", value, row.accuracy, rank=rank, n_heads=n_heads, note=note)

        return by_head(rows.sort_index(), topic, phrase)

    return FactMaker((table,), make)


def best_head_facts(
    best: pd.DataFrame,
    topic: Callable[[Any], str],
    what: Callable[[Any], str],
    beside: Callable[[Any], str],
    more: Callable[[Any], str],
) -> Facts:
    """Of the best heads of a table (a row each), what they are best at and how good they are there.

    `beside` says what other ways find; `more` how it is counted.
    """
    for row, is_own in zip(rows_of(best), is_agreed(best), strict=True):
        share = row.accuracy if pd.isna(row.heldout_accuracy) else row.heldout_accuracy
        summary = f"the best head for {what(row)}, at {SHARE.number(share)}"
        text = f"{say_held_out(row, is_own)} ({beside(row)}); {more(row)}"
        fact = Fact(
            f"best head for {topic(row)}{name_corpus(row)}",
            text,
            summary=summary * bool(row.count and is_own),
        )
        yield (int(row.layer), int(row.head)), fact


def by_head(table: pd.DataFrame, topic: str, phrase: Callable[[Any], str | Part]) -> Facts:
    """A fact for each head: its rows in words, one after the other; parts are drawn too."""
    of_heads: dict[Place, list[str | Part]] = {}
    for row in rows_of(table):
        of_heads.setdefault((int(row.layer), int(row.head)), []).append(phrase(row))
    for place, phrases in of_heads.items():
        parts = tuple(part for part in phrases if isinstance(part, Part))
        text = ", ".join(part if isinstance(part, str) else part.text for part in phrases)
        yield place, Fact(topic, text, parts if len(parts) == len(phrases) else ())


def add_rank(
    table: pd.DataFrame, column: str, *groups: str, is_lowest_first: bool = False
) -> pd.DataFrame:
    """The table with the rank of each row among all (of its group), from the largest down."""
    values = table.groupby(list(groups), sort=False)[column] if groups else table[column]
    return table.assign(rank=values.rank(ascending=is_lowest_first, method="min"))


def read_rank(row: Any) -> int:
    """The rank of a row that `add_rank` gave one; 0 where it has none."""
    return 0 if pd.isna(row.rank) else int(row.rank)
