"""Everything that a run knows about a head, on one card; and the parts that facts are made of."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import nan
from typing import Any

import numpy as np
import pandas as pd

from headscope.data.attention import parse_head_name
from headscope.data.table import Tables, split_kinds
from headscope.errors import StudyError
from headscope.registry import load_presentations
from headscope.view.behaviour import (
    OTHER,
    find_labelled,
    label_heads,
    list_behaviours,
    list_labels,
)
from headscope.view.numbers import SHARE

__all__ = [
    "CORPUS_LABELS",
    "Card",
    "Fact",
    "FactMaker",
    "Facts",
    "Part",
    "Place",
    "accuracy_facts",
    "add_rank",
    "by_head",
    "cards_of_kind",
    "find_heads",
    "join_cards",
    "make_card",
    "make_cards",
    "name_corpus",
    "read_head",
    "read_rank",
    "rows_of",
    "share_facts",
]

CORPUS_LABELS = ("treebank", "corpus", "window", "cut")
SHOWN_LABELS = 3

Place = tuple[int, int]  # layer and head, from 1
Shares = Mapping[tuple[int, int, str], float]  # layer, head, label


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
        ranked = [f"rank {self.rank} of {self.n_heads}"] * bool(self.rank)
        said = "; ".join([*ranked, *[self.note] * bool(self.note)])
        return f"{self.label} {self.value}".strip() + f" ({said})" * bool(said)


@dataclass(frozen=True)
class Fact:
    """One thing known about a head: what it is about, and the numbers in words (not escaped)."""

    topic: str
    text: str
    parts: tuple[Part, ...] = ()  # the text in numbers, where it can be drawn
    gist: str = ""  # what the head is best at, if it is: "the best head for det (93 %)"


Facts = Iterator[tuple[Place, Fact]]


@dataclass(frozen=True)
class FactMaker:
    """Facts of every head, and the tables they are read off."""

    needs: tuple[str, ...]
    make: Callable[[Tables], Facts]
    has_gist: bool = False  # whether a fact may say what a head is best at


@dataclass(frozen=True)
class Card:
    """A head: what it is in a sentence, and every fact that was measured."""

    layer: int
    head: int
    title: str
    gist: str
    facts: tuple[Fact, ...]
    labels: tuple[str, ...] = ()  # what it is known for; none where it has no clear function
    words: str = ""  # by which it is found: what it is known for or best at, and synonyms
    share: float = 0.0  # how much of what it is known for first


def make_cards(tables: Tables) -> list[Card]:
    """The cards of all heads that the tables speak of, by layer and head.

    In an encoder-decoder several heads have the same place: one card holds what is known of each.
    """
    return join_cards({kind: cards_of_kind(own) for kind, own in split_kinds(tables).items()})


def join_cards(cards: Mapping[str, Sequence[Card]]) -> list[Card]:
    """One card for each place, from those of each kind of attention."""
    by_place: dict[Place, dict[str, Card]] = {}
    for kind, own in cards.items():
        for card in own:
            by_place.setdefault((card.layer, card.head), {})[kind] = card
    return [_join_cards(by_place[place]) for place in sorted(by_place)]


def _join_cards(cards: Mapping[str, Card]) -> Card:
    """The heads of each kind of attention on one card."""
    first = next(iter(cards.values()))
    if "" in cards:
        return first
    gist = "; ".join(f"{kind}: {card.gist}" for kind, card in cards.items())
    facts = [
        replace(fact, topic=f"{fact.topic} ({kind})")
        for kind, card in cards.items()
        for fact in card.facts
    ]
    labels = dict.fromkeys(label for card in cards.values() for label in card.labels)
    words = " ".join(f"{kind} {card.words}" for kind, card in cards.items() if card.words)
    return replace(first, gist=gist, facts=tuple(facts), labels=tuple(labels), words=words)


def cards_of_kind(
    tables: Tables, labelled: Sequence[pd.DataFrame] | None = None, has_facts: bool = True
) -> list[Card]:
    """The cards of the heads of one kind of attention.

    `labelled` is what `find_labelled` gave, where it is known. Without `has_facts` they have what a
    gist is made of alone, which is much quicker.
    """
    places = find_heads(tables)
    facts: dict[Place, list[Fact]] = {place: [] for place in places}
    for maker in (maker for shown in load_presentations().values() for maker in shown.facts):
        is_wanted = has_facts or maker.has_gist
        if is_wanted and all(len(tables.get(name, ())) for name in maker.needs):
            for place, fact in maker.make(tables):
                facts[place].append(fact)
    labels = _label_places(tables, places)
    shares = _list_shares(find_labelled(tables) if labelled is None else labelled)
    synonyms = {name: _synonyms(name) for names in labels.values() for name in names}
    cards = []
    for (layer, head), names in labels.items():
        known = tuple(name for name in names if name != OTHER.name)
        own = [*[Fact("behaviour", "; ".join(names))] * bool(known), *facts[layer, head]]
        best_at = list(dict.fromkeys(fact.gist for fact in own if fact.gist))
        gist = _describe_head((layer, head), known, shares, best_at)
        words = [gist, *best_at, *map(synonyms.__getitem__, known)] if known or best_at else []
        cards.append(
            Card(
                *(layer, head, f"Head {layer}-{head}", gist, tuple(own), known),
                words=" ".join(words).lower(),
                share=shares.get((layer, head, known[0] if known else OTHER.name), 0.0),
            )
        )
    return cards


def _synonyms(label: str) -> str:
    """Other words for a label, that a person may look for."""
    of_behaviours = [behaviour.also for behaviour in list_behaviours() if behaviour.name == label]
    if of_behaviours or label == OTHER.name:
        return " ".join([label, *of_behaviours])
    return " ".join(
        [label, *(one.also(label) for one in list_labels() if one.name in (None, label))]
    )


def make_card(tables: Tables, layer: int, head: int) -> Card:
    """The card of one head, or an error that says which heads there are."""
    _refuse_unknown(f"{layer}-{head}", (layer, head), tables)
    return next(card for card in make_cards(tables) if (card.layer, card.head) == (layer, head))


def read_head(name: str, tables: Tables) -> Place:
    """Layer and head of a name as `8-10`, or an error that says which heads there are."""
    found = parse_head_name(name)
    return _refuse_unknown(name, (found[0] + 1, found[1] + 1) if found else None, tables)


# The parts of facts, for `show.py`.


def add_rank(table: pd.DataFrame, column: str, *groups: str) -> pd.DataFrame:
    """The table with the rank of each row among all (of its group), from the largest down."""
    values = table.groupby(list(groups), sort=False)[column] if groups else table[column]
    return table.assign(rank=values.rank(ascending=False, method="min"))


def read_rank(row: Any) -> int:
    """The rank of a row that `add_rank` gave one; 0 where it has none."""
    return 0 if pd.isna(row.rank) else int(row.rank)


def rows_of(table: pd.DataFrame) -> Iterator[Any]:
    """The rows, each with its columns as attributes."""
    return iter(table.itertuples(index=False))


def by_head(table: pd.DataFrame, topic: str, phrase: Callable[[Any], str | Part]) -> Facts:
    """A fact for each head: its rows in words, one after the other; parts are drawn too."""
    found: dict[Place, list[str | Part]] = {}
    for row in rows_of(table):
        found.setdefault((int(row.layer), int(row.head)), []).append(phrase(row))
    for place, said in found.items():
        parts = tuple(part for part in said if isinstance(part, Part))
        text = ", ".join(part if isinstance(part, str) else part.text for part in said)
        yield place, Fact(topic, text, parts if len(parts) == len(said) else ())


def share_facts(topic: str, table: pd.DataFrame, names: Mapping[str, str]) -> Facts:
    """Shares of attention by target, each with the head's rank; not of what no head can see."""
    is_visible = table.groupby("target")["weight"].transform("max") > 0
    ranked = add_rank(table[is_visible], "weight", "target")
    n_heads = table.groupby(["layer", "head"]).ngroups

    def phrase(row: Any) -> Part:
        called, share = names.get(row.target, row.target), SHARE.row(row, "weight")
        return Part(called, share, row.weight, rank=read_rank(row), n_heads=n_heads)

    return by_head(ranked, topic, phrase)


def accuracy_facts(topic: str, table: pd.DataFrame, directions: Mapping[str, str]) -> Facts:
    """Each head's better direction, with its rank among heads; once for every corpus."""
    labels = [label for label in CORPUS_LABELS if label in table]
    rows = table.sort_values("accuracy", ascending=False, kind="stable")
    rows = add_rank(rows.drop_duplicates([*labels, "layer", "head"]), "accuracy", *labels)
    n_heads = rows.groupby(["layer", "head"]).ngroups

    def phrase(row: Any) -> Part:
        way = directions.get(str(getattr(row, "direction", "")), "")
        value = f"{SHARE.row(row, 'accuracy')}{name_corpus(row)}"
        return Part("", value, row.accuracy, nan, read_rank(row), n_heads, way)

    return by_head(rows.sort_index(), topic, phrase)


def name_corpus(row: Any) -> str:
    """In which corpus or window, where there are several."""
    said = [str(getattr(row, label)) for label in CORPUS_LABELS[:2] if hasattr(row, label)]
    said += [f"{row.window} tokens"] if hasattr(row, "window") else []
    said += ["truncated documents"] if getattr(row, "cut", "") == "truncate" else []
    return f" in {', '.join(said)}" if said else ""


def _refuse_unknown(name: str, place: Place | None, tables: Tables) -> Place:
    known = find_heads(tables)
    if not known:
        raise StudyError(
            "The run has no table about heads. Expected a run of `headscope analyze`; run it with "
            "--text FILE first."
        )
    if place is None or place not in known:
        layers, heads = max(layer for layer, _ in known), max(head for _, head in known)
        raise StudyError(
            f"There is no head {name!r}. Expected layer-head, both counted from 1, of layers 1-"
            f"{layers} and heads 1-{heads}; name one as {known[-1][0]}-{known[-1][1]}."
        )
    return place


def find_heads(tables: Tables) -> list[Place]:
    """Every head that a table has a row of."""
    found: set[Place] = set()
    for table in tables.values():
        if {"layer", "head"} <= set(table.columns):
            places = np.stack([table[n].to_numpy(float, na_value=nan) for n in ("layer", "head")])
            places = places[:, ~np.isnan(places).any(axis=0)].astype(int)
            found.update(zip(*places.tolist(), strict=True))
    return sorted(found)


def _label_places(tables: Tables, places: Sequence[Place]) -> dict[Place, list[str]]:
    """Each head's behaviours: those of the map, whose thresholds a user may have set, or new.

    Of a large model the map has some heads only.
    """
    labelled = next((table for table in tables.values() if "behaviours" in table), None)
    found = {} if labelled is None else _read_labels(labelled)
    rest = [place for place in places if place not in found]
    if rest:
        heads = pd.DataFrame(rest, columns=["layer", "head"])
        found |= _read_labels(label_heads(heads, tables))
    return {place: found[place] for place in places}


def _read_labels(labelled: pd.DataFrame) -> dict[Place, list[str]]:
    rows = labelled[["layer", "head", "behaviours"]].itertuples(index=False)
    return {(int(layer), int(head)): str(names).split("; ") for layer, head, names in rows}


def _list_shares(labelled: Sequence[pd.DataFrame]) -> Shares:
    """The number behind every label that a head may have."""
    found: dict[tuple[int, int, str], float] = {}
    for part in labelled:
        columns = (part[name].tolist() for name in ("layer", "head", "label", "share"))
        for layer, head, label, share in zip(*columns, strict=True):
            found.setdefault((int(layer), int(head), str(label)), float(share))
    return found


def _describe_head(
    place: Place, labels: Sequence[str], shares: Shares, best_at: Sequence[str]
) -> str:
    """Where it looks, what it finds, what it is best at, and what says little of it; or what comes
    nearest."""
    said = {label: _say_share(shares.get((*place, label))) for label in labels}
    known = {behaviour.name: behaviour for behaviour in list_behaviours()}
    own = [known[label] for label in labels if label in known]
    looks, background = (
        [b.phrase.format(said[b.name]) for b in own if b.is_background == is_background]
        for is_background in (False, True)
    )
    found = list(_say_labels([name for name in labels if name not in known], said))
    finds = [f"finds {', '.join(found)}"] * bool(found)
    best = [] if found or not best_at else [", ".join(best_at[:SHOWN_LABELS])]
    return "; ".join([*looks, *finds, *best, *background]) or _nearest_behaviour(place, shares)


def _say_labels(names: Sequence[str], said: Mapping[str, str]) -> Iterator[str]:
    """Free labels, the first few; then those that have a name of their own."""
    fixed = {labels.name: labels.called for labels in list_labels() if labels.name is not None}
    free = [name for name in names if name not in fixed]
    for name in free[:SHOWN_LABELS]:
        plain = [labels.plain(name) for labels in list_labels() if labels.name is None]
        yield f"{name} ({', '.join([*filter(None, plain), said[name]])})"
    n_more = len(free) - SHOWN_LABELS
    if n_more > 0:
        noun = next((labels.noun for labels in list_labels() if labels.name is None), "")
        yield f"{n_more} more {noun}{'s' * (n_more > 1)}"
    yield from (f"{fixed[name]} ({said[name]})" for name in names if name in fixed)


def _nearest_behaviour(place: Place, shares: Shares) -> str:
    looks_at = [b for b in list_behaviours() if not b.is_background]  # those are of another kind
    own = {b: shares[*place, b.name] for b in looks_at if (*place, b.name) in shares}
    if not own:
        return "no clear function in what was measured"
    nearest = max(own, key=lambda behaviour: own[behaviour])
    looks = nearest.phrase.format(_say_share(own[nearest]))
    return f"no clear function; {looks.replace('looks at', 'looks most at')}"


def _say_share(share: float | None) -> str:
    return "-" if share is None or pd.isna(share) else f"{100 * share:.0f} %"
