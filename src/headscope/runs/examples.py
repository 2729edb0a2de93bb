"""The examples where notable heads do best and worst: found while streaming, seen again here."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd

from headscope.contracts import Analysis, AttentionSource
from headscope.data.account import Account
from headscope.data.example import Example, stable_hash
from headscope.data.ranking import ENDS, MOST, Ranking
from headscope.data.sight import Sight
from headscope.errors import OutputError
from headscope.runs.files import write_atomically
from headscope.runs.look import look
from headscope.runs.roles import Role, choose_roles, gold_pairs
from headscope.runs.sample import Sample
from headscope.runs.study import Pass
from headscope.runs.tables import labels_of
from headscope.runs.windows import cut_windows

__all__ = ["Shown", "gather_examples", "merge_examples", "read_examples", "write_examples"]

DRAWN_UNITS = 30
READ_AT_ONCE = 64


@dataclass(frozen=True, eq=False)
class Shown:
    """One head at one example: what for, at which end, and how well it did."""

    role: str
    end: str  # "best" or "worst"
    score: float  # a share of attention, or right answers minus wrong ones
    says: str
    sight: Sight

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        own = {"role": self.role, "end": self.end, "score": self.score, "says": self.says}
        return {**own, "sight": self.sight.to_json()}

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> "Shown":
        """What `to_json` wrote."""
        role, end, score, says = (values[name] for name in ("role", "end", "score", "says"))
        return Shown(role, end, score, says, Sight.from_json(values["sight"]))


@dataclass(frozen=True)
class Wish:
    """An example that is to be shown, and what for."""

    role: Role
    end: str
    place: int  # 0 is the best of the best, or the worst of the worst
    score: float


def gather_examples(
    source: AttentionSource,
    one: Pass,
    sample: Sample,
    max_tokens: int,
    rankings: Mapping[str, Ranking],
    tables: Mapping[str, pd.DataFrame],
) -> list[Shown]:
    """The notable heads of a pass at their best and worst examples, which are read again."""
    roles = choose_roles(_own_rows(one, tables), _place_of(one, tables))
    wishes = _wish(roles, rankings)
    analyses = {analysis.name: analysis for analysis in one.analyses}
    found: list[tuple[Wish, Shown]] = []
    missing = set(wishes)
    for example in _read(one, sample, source, max_tokens):
        key = stable_hash(example.id)
        if key in missing:
            missing.remove(key)
            for wish in wishes[key]:
                analysis = analyses[wish.role.analysis]
                found.append((wish, _show(source, example, wish, analysis, max_tokens)))
        if not missing:
            break
    found.sort(key=lambda pair: (roles.index(pair[0].role), pair[0].end, pair[0].place))
    return [shown for _, shown in found]


def merge_examples(parts: Sequence[Sequence[Shown]]) -> list[Shown]:
    """Of the examples that several runs kept for the same head and role, the most telling."""
    groups: dict[tuple[Any, ...], list[Shown]] = {}
    for one in (one for part in parts for one in part):
        key = (one.role, one.sight.layer, one.sight.head, one.end)
        groups.setdefault(key, []).append(one)
    merged: list[Shown] = []
    for (*_, end), group in groups.items():
        merged += sorted(group, key=lambda o: o.score, reverse=end == ENDS[0])[:MOST]
    return merged


def write_examples(folder: Path, shown: Sequence[Shown]) -> None:
    """Keep the examples beside the tables."""
    content = {"format": 1, "examples": [one.to_json() for one in shown]}
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    write_atomically(folder / "examples.json", text.encode() + b"\n")


def read_examples(folder: Path) -> list[Shown]:
    """The examples of a run; none where it kept none."""
    path = folder / "examples.json"
    if not path.exists():
        return []
    try:
        return [Shown.from_json(values) for values in json.loads(path.read_text())["examples"]]
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise OutputError(
            f"{path} is damaged ({error!r}). Expected the examples that the run kept; remove the "
            "file to do without, or run the analysis again."
        ) from error


def _own_rows(one: Pass, tables: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """The tables of this pass's analyses, without the rows of other corpora."""
    labels = labels_of({"role": one.role, "corpus": one.corpus.name, "window": one.window})
    own: dict[str, pd.DataFrame] = {}
    for name in (name for analysis in one.analyses for name in analysis.tables if name in tables):
        table = tables[name]
        for column in labels.keys() & set(table.columns):
            table = table[table[column] == labels[column]]
        own[name] = table
    return own


def _place_of(one: Pass, tables: Mapping[str, pd.DataFrame]) -> str:
    """Where the examples are from, as part of a title, if the run read several such corpora."""
    labels = labels_of({"role": one.role, "corpus": one.corpus.name, "window": None})
    names = {name for analysis in one.analyses for name in analysis.tables if name in tables}
    is_one_of_several = any(labels.keys() & set(tables[name].columns) for name in names)
    return f" ({one.corpus.name})" if is_one_of_several else ""


def _wish(roles: Sequence[Role], rankings: Mapping[str, Ranking]) -> dict[int, list[Wish]]:
    """By the hash of an example's id, what it is to be shown for."""
    wishes: dict[int, list[Wish]] = {}
    for role in roles:
        ranking = rankings.get(role.analysis, Ranking())
        chosen: set[int] = set()
        for end in ENDS:  # in a small corpus the best may be among the worst: once is enough
            for place, (key, score) in enumerate(ranking.find(role.name, end, role.place)):
                if key not in chosen:
                    wishes.setdefault(key, []).append(Wish(role, end, place, score))
                chosen.add(key)
    return wishes


def _read(one: Pass, sample: Sample, source: AttentionSource, max_tokens: int) -> Iterator[Example]:
    """The examples of a pass again; documents in the same windows."""
    examples = iter(sample)
    while some := list(islice(examples, READ_AT_ONCE)):
        is_cut = one.role == "coref"
        yield from cut_windows(some, source, max_tokens, Account()) if is_cut else some


def _show(
    source: AttentionSource, example: Example, wish: Wish, analysis: Analysis, max_tokens: int
) -> Shown:
    role = wish.role
    pairs = gold_pairs(role, analysis, example)
    (sight,) = look(
        source,
        example,
        [(role.layer, role.head)],
        by_words=role.is_of_words,
        arcs=pairs,
        max_tokens=max_tokens,
    )
    n_right = round((wish.score + len(sight.marked)) / 2)
    says = f"{n_right} of {len(sight.marked)} found" if role.is_of_words else f"{wish.score:.0%}"
    return Shown(role.title, wish.end, wish.score, says, sight.excerpt(DRAWN_UNITS))
