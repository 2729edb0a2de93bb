"""Everything that a run knows about each head, on a card."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import nan

import numpy as np
import pandas as pd

from headscope.data.attention import parse_head_name
from headscope.data.table import Tables, split_kinds
from headscope.errors import StudyError
from headscope.view.behaviour import (
    find_behaviour,
    find_labelled,
    label_heads,
    list_behaviours,
)
from headscope.view.facts import Fact, FactMaker, Place
from headscope.view.presentation import list_specs
from headscope.view.specs import OTHER, Behaviour, Labels

__all__ = ["Card", "cards_of_kind", "join_cards", "make_card", "make_cards", "read_head"]

SHOWN_LABELS = 3

Shares = Mapping[tuple[int, int, str], float]  # layer, head, label


@dataclass(frozen=True)
class Card:
    """A head: what it is in a sentence, and every fact that was measured."""

    layer: int
    head: int
    title: str
    summary: str
    facts: tuple[Fact, ...]
    labels: tuple[str, ...] = ()  # what it is known for; none where it has no clear function
    words: str = ""  # by which it is found: what it is known for or best at, and synonyms
    shares: Mapping[str, float] = field(default_factory=dict)  # of its labels

    @property
    def name(self) -> str:
        """The head's name, as 8-10."""
        return f"{self.layer}-{self.head}"


def make_cards(tables: Tables) -> list[Card]:
    """The cards of all heads that the tables speak of, by layer and head.

    In an encoder-decoder several heads have the same place: one card holds what is known of each.
    """
    return join_cards({kind: cards_of_kind(part) for kind, part in split_kinds(tables).items()})


def join_cards(cards: Mapping[str, Sequence[Card]]) -> list[Card]:
    """One card for each place, from those of each kind of attention."""
    by_place: dict[Place, dict[str, Card]] = {}
    for kind, of_kind in cards.items():
        for card in of_kind:
            by_place.setdefault((card.layer, card.head), {})[kind] = card
    joined = []
    for place in sorted(by_place):
        parts = by_place[place]
        first = next(iter(parts.values()))
        if "" in parts:
            joined.append(first)
            continue
        facts = [
            replace(fact, topic=f"{fact.topic} ({kind})")
            for kind, card in parts.items()
            for fact in card.facts
        ]
        labels = dict.fromkeys(label for card in parts.values() for label in card.labels)
        words = " ".join(f"{kind} {card.words}" for kind, card in parts.items() if card.words)
        summary = "; ".join(f"{kind}: {card.summary}" for kind, card in parts.items())
        joined.append(
            replace(first, summary=summary, facts=tuple(facts), labels=tuple(labels), words=words)
        )
    return joined


def cards_of_kind(
    tables: Tables, labelled: Sequence[pd.DataFrame] | None = None, has_facts: bool = True
) -> list[Card]:
    """The cards of the heads of one kind of attention.

    `labelled` is what `find_labelled` gave, where it is known. Without `has_facts` they have what a
    summary is made of alone, which is much quicker.
    """
    places = find_heads(tables)
    facts: dict[Place, list[Fact]] = {place: [] for place in places}
    for maker in list_specs(FactMaker):
        is_wanted = has_facts or maker.has_summary
        if is_wanted and all(len(tables.get(name, ())) for name in maker.needs):
            for place, fact in maker.make(tables):
                facts[place].append(fact)
    labels = _label_places(tables, places)
    shares = _list_shares(find_labelled(tables) if labelled is None else labelled)
    behaviours = list_behaviours(tables)
    synonyms = {name: _list_synonyms(name) for names in labels.values() for name in names}
    cards = []
    for (layer, head), names in labels.items():
        known = tuple(name for name in names if name != OTHER.name)
        of_head = [*[Fact("behaviour", "; ".join(names))] * bool(known), *facts[layer, head]]
        best_at = list(dict.fromkeys(fact.summary for fact in of_head if fact.summary))
        summary = _describe_head((layer, head), known, shares, best_at, behaviours)
        words = [summary, *best_at, *map(synonyms.__getitem__, known)] if known or best_at else []
        cards.append(
            Card(
                *(layer, head, f"Head {layer}-{head}", summary, tuple(of_head), known),
                words=" ".join(words).lower(),
                shares={name: shares.get((layer, head, name), 0.0) for name in known},
            )
        )
    return cards


def _list_synonyms(label: str) -> str:
    """Other words for a label, that a person may look for."""
    behaviour = find_behaviour(label)
    also = [behaviour.also] if behaviour is not None else []
    if behaviour is None and label != OTHER.name:
        also = [spec.also(label) for spec in list_specs(Labels) if spec.name in (None, label)]
    return " ".join([label, *also])


def make_card(tables: Tables, layer: int, head: int) -> Card:
    """The card of one head, or an error that says which heads there are."""
    _refuse_unknown(f"{layer}-{head}", (layer, head), tables)
    return next(card for card in make_cards(tables) if (card.layer, card.head) == (layer, head))


def read_head(name: str, tables: Tables) -> Place:
    """Layer and head of a name as `8-10`, or an error that says which heads there are."""
    indices = parse_head_name(name)
    return _refuse_unknown(name, (indices[0] + 1, indices[1] + 1) if indices else None, tables)


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
    heads: set[Place] = set()
    for table in tables.values():
        if {"layer", "head"} <= set(table.columns):
            places = np.stack([table[n].to_numpy(float, na_value=nan) for n in ("layer", "head")])
            places = places[:, ~np.isnan(places).any(axis=0)].astype(int)
            heads.update(zip(*places.tolist(), strict=True))
    return sorted(heads)


def _label_places(tables: Tables, places: Sequence[Place]) -> dict[Place, list[str]]:
    """Each head's behaviours: those of the map, whose thresholds a user may have set, or new.

    Of a large model the map has some heads only.
    """

    def read(labelled: pd.DataFrame) -> dict[Place, list[str]]:
        rows = labelled[["layer", "head", "behaviours"]].itertuples(index=False)
        return {(int(layer), int(head)): str(names).split("; ") for layer, head, names in rows}

    mapped = next((table for table in tables.values() if "behaviours" in table), None)
    known = {} if mapped is None else read(mapped)
    if rest := [place for place in places if place not in known]:
        known |= read(label_heads(pd.DataFrame(rest, columns=["layer", "head"]), tables))
    return {place: known[place] for place in places}


def _list_shares(labelled: Sequence[pd.DataFrame]) -> Shares:
    """The number behind every label that a head may have."""
    shares: dict[tuple[int, int, str], float] = {}
    for part in labelled:
        columns = (part[name].tolist() for name in ("layer", "head", "label", "share"))
        for layer, head, label, share in zip(*columns, strict=True):
            key = int(layer), int(head), str(label)
            shares.setdefault(key, nan if share is None else float(share))  # None: not held out
    return shares


def _describe_head(
    place: Place,
    labels: Sequence[str],
    shares: Shares,
    best_at: Sequence[str],
    behaviours: Sequence[Behaviour],
) -> str:
    """Where it looks, what it finds, what it is best at, and what says little of it; or what comes
    nearest."""
    percents = {label: _write_share(shares.get((*place, label))) for label in labels}
    known = {behaviour.name: behaviour for behaviour in behaviours}
    of_head = [known[label] for label in labels if label in known]
    looks, background = (
        [b.phrase.format(percents[b.name]) for b in of_head if b.is_background == is_background]
        for is_background in (False, True)
    )
    finds_what = _name_labels([name for name in labels if name not in known], percents)
    finds = [f"finds {', '.join(finds_what)}"] * bool(finds_what)
    best = [] if finds_what or not best_at else [", ".join(best_at[:SHOWN_LABELS])]
    told = "; ".join([*looks, *finds, *best, *background])
    return told or _nearest_behaviour(place, shares, behaviours)


def _name_labels(names: Sequence[str], percents: Mapping[str, str]) -> list[str]:
    """Free labels, the first few; then those that have a name of their own."""
    specs = list_specs(Labels)
    fixed = {labels.name: labels.called for labels in specs if labels.name is not None}
    free = [name for name in names if name not in fixed]
    written = []
    for name in free[:SHOWN_LABELS]:
        plain = [labels.plain(name) for labels in specs if labels.name is None]
        written.append(f"{name} ({', '.join([*filter(None, plain), percents[name]])})")
    n_more = len(free) - SHOWN_LABELS
    if n_more > 0:
        noun = next((labels.noun for labels in specs if labels.name is None), "")
        written.append(f"{n_more} more {noun}{'s' * (n_more > 1)}")
    return written + [f"{fixed[name]} ({percents[name]})" for name in names if name in fixed]


def _nearest_behaviour(place: Place, shares: Shares, behaviours: Sequence[Behaviour]) -> str:
    # Behaviours in the background are of another kind.
    looks_at = [behaviour for behaviour in behaviours if not behaviour.is_background]
    measured = {b: shares[*place, b.name] for b in looks_at if (*place, b.name) in shares}
    if not measured:
        return "no clear function in what was measured"
    nearest = max(measured, key=lambda behaviour: measured[behaviour])
    looks = nearest.phrase.format(_write_share(measured[nearest]))
    return f"no clear function; {looks.replace('looks at', 'looks most at')}"


def _write_share(share: float | None) -> str:
    return "-" if share is None or pd.isna(share) else f"{100 * share:.0f} %"
