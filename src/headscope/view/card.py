"""Everything that a run knows about a head, on one card; and the parts that facts are made of."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from headscope.data.attention import parse_head_name
from headscope.data.table import Tables, split_kinds
from headscope.errors import StudyError
from headscope.registry import load_presentations
from headscope.view.behaviour import (
    OTHER,
    behaviour_table,
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
    "Place",
    "accuracy_facts",
    "add_rank",
    "by_head",
    "describe_head",
    "find_heads",
    "label_places",
    "label_shares",
    "make_card",
    "make_cards",
    "name_corpus",
    "read_head",
    "rows_of",
    "share_facts",
]

CORPUS_LABELS = ("treebank", "corpus", "window", "cut")
SHOWN_LABELS = 3

Place = tuple[int, int]  # layer and head, from 1
Shares = Mapping[tuple[int, int, str], float]  # layer, head, label


@dataclass(frozen=True)
class Fact:
    """One thing known about a head: what it is about, and the numbers in words (not escaped)."""

    topic: str
    text: str


Facts = Iterator[tuple[Place, Fact]]


@dataclass(frozen=True)
class FactMaker:
    """Facts of every head, and the tables they are read off."""

    needs: tuple[str, ...]
    make: Callable[[Tables], Facts]


@dataclass(frozen=True)
class Card:
    """A head: what it is in a sentence, and every fact that was measured."""

    layer: int
    head: int
    title: str
    gist: str
    facts: tuple[Fact, ...]


def make_cards(tables: Tables) -> list[Card]:
    """The cards of all heads that the tables speak of, by layer and head.

    In an encoder-decoder several heads have the same place: one card holds what is known of each.
    """
    by_place: dict[Place, dict[str, Card]] = {}
    for kind, own in split_kinds(tables).items():
        for card in _make_cards(own):
            by_place.setdefault((card.layer, card.head), {})[kind] = card
    return [_join_cards(by_place[place]) for place in sorted(by_place)]


def _join_cards(cards: Mapping[str, Card]) -> Card:
    """The heads of each kind of attention on one card."""
    first = next(iter(cards.values()))
    if "" in cards:
        return first
    gist = "; ".join(f"{kind}: {card.gist}" for kind, card in cards.items())
    facts = [
        Fact(f"{fact.topic} ({kind})", fact.text)
        for kind, card in cards.items()
        for fact in card.facts
    ]
    return replace(first, gist=gist, facts=tuple(facts))


def _make_cards(tables: Tables) -> list[Card]:
    places = find_heads(tables)
    facts: dict[Place, list[Fact]] = {place: [] for place in places}
    for maker in (maker for shown in load_presentations().values() for maker in shown.facts):
        if all(len(tables.get(name, ())) for name in maker.needs):
            for place, fact in maker.make(tables):
                facts[place].append(fact)
    labels, shares = label_places(tables, places), label_shares(tables)
    cards = []
    for (layer, head), names in labels.items():
        own = [Fact("behaviour", "; ".join(names))] * (names != [OTHER.name])
        gist = describe_head((layer, head), names, shares)
        own += facts[layer, head]
        cards.append(Card(layer, head, f"Head {layer}-{head}", gist, tuple(own)))
    return cards


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


def rows_of(table: pd.DataFrame) -> Iterator[Any]:
    """The rows, each with its columns as attributes."""
    return iter(table.itertuples(index=False))


def by_head(table: pd.DataFrame, topic: str, phrase: Callable[[Any], str]) -> Facts:
    """A fact for each head: its rows in words, one after the other."""
    found: dict[Place, list[str]] = {}
    for row in rows_of(table):
        found.setdefault((int(row.layer), int(row.head)), []).append(phrase(row))
    return ((place, Fact(topic, ", ".join(said))) for place, said in found.items())


def share_facts(topic: str, table: pd.DataFrame, names: Mapping[str, str]) -> Facts:
    """Shares of attention by target, each with the head's rank; not of what no head can see."""
    is_visible = table.groupby("target")["weight"].transform("max") > 0
    ranked = add_rank(table[is_visible], "weight", "target")
    n_heads = table.groupby(["layer", "head"]).ngroups

    def phrase(row: Any) -> str:
        share = f"{names.get(row.target, row.target)} {SHARE.row(row, 'weight')}"
        return f"{share} (rank {row.rank:.0f} of {n_heads})"

    return by_head(ranked, topic, phrase)


def accuracy_facts(topic: str, table: pd.DataFrame, directions: Mapping[str, str]) -> Facts:
    """Each head's better direction, with its rank among heads; once for every corpus."""
    labels = [label for label in CORPUS_LABELS if label in table]
    rows = table.sort_values("accuracy", ascending=False, kind="stable")
    rows = add_rank(rows.drop_duplicates([*labels, "layer", "head"]), "accuracy", *labels)
    n_heads = rows.groupby(["layer", "head"]).ngroups

    def phrase(row: Any) -> str:
        way = directions.get(str(getattr(row, "direction", "")), "")
        rank = f"rank {row.rank:.0f} of {n_heads}" + f"; {way}" * bool(way)
        return f"{SHARE.row(row, 'accuracy')}{name_corpus(row)} ({rank})"

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
            "The run has no table about heads. Expected one as `headscope analyze` makes; run it "
            "with --text FILE first."
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
            heads = table[["layer", "head"]].dropna().drop_duplicates()
            found |= {(int(layer), int(head)) for layer, head in heads.to_numpy().tolist()}
    return sorted(found)


def label_places(tables: Tables, places: Sequence[Place]) -> dict[Place, list[str]]:
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


def label_shares(tables: Tables) -> Shares:
    """The number behind every label that a head may have."""
    measured = behaviour_table(tables).rename(columns={"behaviour": "label"})
    parts = [measured, *(part for labels in list_labels() if len(part := labels.find(tables)))]
    found: dict[tuple[int, int, str], float] = {}
    for part in parts:
        for row in rows_of(part[["layer", "head", "label", "share"]]):
            found.setdefault((int(row.layer), int(row.head), str(row.label)), float(row.share))
    return found


def describe_head(place: Place, labels: Sequence[str], shares: Shares) -> str:
    """Where it looks, what it finds, and what says little of it; or what comes nearest."""
    if list(labels) == [OTHER.name]:
        return _nearest_behaviour(place, shares)
    said = {label: _say_share(shares.get((*place, label))) for label in labels}
    known = {behaviour.name: behaviour for behaviour in list_behaviours()}
    own = [known[label] for label in labels if label in known]
    looks, background = (
        [b.phrase.format(said[b.name]) for b in own if b.is_background == is_background]
        for is_background in (False, True)
    )
    found = list(_say_labels([name for name in labels if name not in known], said))
    finds = [f"finds {', '.join(found)}"] * bool(found)
    return "; ".join([*looks, *finds, *background])


def _say_labels(names: Sequence[str], said: Mapping[str, str]) -> Iterator[str]:
    """Free labels, the first few; then those that have a name of their own."""
    fixed = {labels.name: labels.called for labels in list_labels() if labels.name is not None}
    free = [name for name in names if name not in fixed]
    yield from (f"{name} ({said[name]})" for name in free[:SHOWN_LABELS])
    n_more = len(free) - SHOWN_LABELS
    if n_more > 0:
        noun = next((labels.noun for labels in list_labels() if labels.name is None), "")
        yield f"{n_more} more {noun}{'s' * (n_more > 1)}"
    yield from (f"{fixed[name]} ({said[name]})" for name in names if name in fixed)


def _nearest_behaviour(place: Place, shares: Shares) -> str:
    looks_at = [b for b in list_behaviours() if not b.is_background]  # those are of another kind
    own = {b: shares[*place, b.name] for b in looks_at if (*place, b.name) in shares}
    if not own:
        return "nothing stands out in what was measured"
    nearest = max(own, key=lambda behaviour: own[behaviour])
    looks = nearest.phrase.format(_say_share(own[nearest]))
    return f"nothing stands out; {looks.replace('looks at', 'looks most at')}"


def _say_share(share: float | None) -> str:
    return "-" if share is None or pd.isna(share) else f"{100 * share:.0f} %"
