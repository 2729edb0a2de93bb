"""All heads of a run: everything it knows about each on a card, and all of them in one picture."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import nan

import numpy as np
import pandas as pd

from headscope.data.attention import parse_head_name
from headscope.data.table import Tables, split_kinds
from headscope.errors import StudyError
from headscope.view.behaviour import find_kind, find_labelled, label_heads
from headscope.view.facts import Fact, FactMaker, Place
from headscope.view.presentation import list_specs
from headscope.view.specs import KIND_TITLES, OTHER, Behaviour, Kind, Labels

__all__ = [
    "Card", "Cell", "Overview", "cards_of_kind", "join_cards", "make_card", "make_cards",
    "make_overview", "read_head",
]  # fmt: skip

SHOWN_LABELS = 3
NAMED_HEADS = 3  # of a kind, in the legend

Shares = Mapping[tuple[int, int, str], float]  # layer, head, label


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
        gist = "; ".join(f"{kind}: {card.gist}" for kind, card in parts.items())
        joined.append(
            replace(first, gist=gist, facts=tuple(facts), labels=tuple(labels), words=words)
        )
    return joined


def cards_of_kind(
    tables: Tables, labelled: Sequence[pd.DataFrame] | None = None, has_facts: bool = True
) -> list[Card]:
    """The cards of the heads of one kind of attention.

    `labelled` is what `find_labelled` gave, where it is known. Without `has_facts` they have what a
    gist is made of alone, which is much quicker.
    """
    places = find_heads(tables)
    facts: dict[Place, list[Fact]] = {place: [] for place in places}
    for maker in list_specs(FactMaker):
        is_wanted = has_facts or maker.has_gist
        if is_wanted and all(len(tables.get(name, ())) for name in maker.needs):
            for place, fact in maker.make(tables):
                facts[place].append(fact)
    labels = _label_places(tables, places)
    shares = _list_shares(find_labelled(tables) if labelled is None else labelled)
    synonyms = {name: _list_synonyms(name) for names in labels.values() for name in names}
    cards = []
    for (layer, head), names in labels.items():
        known = tuple(name for name in names if name != OTHER.name)
        of_head = [*[Fact("behaviour", "; ".join(names))] * bool(known), *facts[layer, head]]
        best_at = list(dict.fromkeys(fact.gist for fact in of_head if fact.gist))
        gist = _describe_head((layer, head), known, shares, best_at)
        words = [gist, *best_at, *map(synonyms.__getitem__, known)] if known or best_at else []
        cards.append(
            Card(
                *(layer, head, f"Head {layer}-{head}", gist, tuple(of_head), known),
                words=" ".join(words).lower(),
                share=shares.get((layer, head, known[0] if known else OTHER.name), 0.0),
            )
        )
    return cards


def _list_synonyms(label: str) -> str:
    """Other words for a label, that a person may look for."""
    also = [behaviour.also for behaviour in list_specs(Behaviour) if behaviour.name == label]
    if not also and label != OTHER.name:
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
    place: Place, labels: Sequence[str], shares: Shares, best_at: Sequence[str]
) -> str:
    """Where it looks, what it finds, what it is best at, and what says little of it; or what comes
    nearest."""
    percents = {label: _write_share(shares.get((*place, label))) for label in labels}
    known = {behaviour.name: behaviour for behaviour in list_specs(Behaviour)}
    of_head = [known[label] for label in labels if label in known]
    looks, background = (
        [b.phrase.format(percents[b.name]) for b in of_head if b.is_background == is_background]
        for is_background in (False, True)
    )
    finds_what = _name_labels([name for name in labels if name not in known], percents)
    finds = [f"finds {', '.join(finds_what)}"] * bool(finds_what)
    best = [] if finds_what or not best_at else [", ".join(best_at[:SHOWN_LABELS])]
    return "; ".join([*looks, *finds, *best, *background]) or _nearest_behaviour(place, shares)


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


def _nearest_behaviour(place: Place, shares: Shares) -> str:
    # Behaviours in the background are of another kind.
    looks_at = [behaviour for behaviour in list_specs(Behaviour) if not behaviour.is_background]
    measured = {b: shares[*place, b.name] for b in looks_at if (*place, b.name) in shares}
    if not measured:
        return "no clear function in what was measured"
    nearest = max(measured, key=lambda behaviour: measured[behaviour])
    looks = nearest.phrase.format(_write_share(measured[nearest]))
    return f"no clear function; {looks.replace('looks at', 'looks most at')}"


def _write_share(share: float | None) -> str:
    return "-" if share is None or pd.isna(share) else f"{100 * share:.0f} %"


# All heads in one picture: a grid of layers and heads, coloured by what each head does.


@dataclass(frozen=True)
class Cell:
    """A head: what it is known for first, and all of it in words."""

    name: str
    kind: Kind
    label: str
    short: str  # the label in a few letters; "" where it is not worth it
    share: float  # how much of it
    says: str
    is_strongest: bool  # of its label
    attention: str  # the kind of attention, of an encoder-decoder


@dataclass(frozen=True)
class Grid:
    """The heads of one kind of attention, a row a layer; None where there is no such head."""

    title: str
    rows: dict[int, list[Cell | None]]


@dataclass(frozen=True)
class LegendLine:
    """A colour: what it means, how many heads have it, and the strongest of each label."""

    kind: Kind
    n_heads: int
    strongest: tuple[Cell, ...]


@dataclass(frozen=True)
class Overview:
    """The grids, the legend, and the sizes that decide what fits in."""

    grids: tuple[Grid, ...]
    legend: tuple[LegendLine, ...]

    @property
    def n_layers(self) -> int:
        """The rows of all grids."""
        return sum(len(grid.rows) for grid in self.grids)

    @property
    def n_heads(self) -> int:
        """The columns."""
        return max((len(row) for grid in self.grids for row in grid.rows.values()), default=0)


def make_overview(cards: Mapping[str, Sequence[Card]]) -> Overview:
    """All heads that have cards; of an encoder-decoder a grid for each attention."""
    grids = [_make_grid(kind, of_kind) for kind, of_kind in cards.items() if of_kind]
    cells = [cell for grid in grids for row in grid.rows.values() for cell in row if cell]
    counts = Counter(cell.kind for cell in cells)
    kinds = sorted(counts, key=lambda kind: (kind == OTHER, -counts[kind]))
    strongest = sorted((cell for cell in cells if cell.is_strongest), key=lambda c: -c.share)
    legend = [
        LegendLine(
            kind, counts[kind], tuple([c for c in strongest if c.kind == kind][:NAMED_HEADS])
        )
        for kind in kinds
    ]
    return Overview(tuple(grids), tuple(legend))


def _make_grid(attention: str, cards: Sequence[Card]) -> Grid:
    by_place = {(card.layer, card.head): card for card in cards}
    labels = {place: (card.labels or (OTHER.name,))[0] for place, card in by_place.items()}
    strongest: dict[str, Place] = {}
    for place in sorted(by_place, key=lambda place: -by_place[place].share):
        strongest.setdefault(labels[place], place)
    kinds = {label: find_kind(label) for label in strongest}
    behaviours = list_specs(Behaviour)
    shorts = {spec.name: spec.short for spec in behaviours if spec.short}
    shorts |= {spec.name: spec.short for spec in list_specs(Labels) if spec.name and spec.short}
    quiet = {OTHER.name, *(b.name for b in behaviours if b.is_background)}
    n_heads = max(head for _, head in by_place)
    rows: dict[int, list[Cell | None]] = {layer: [None] * n_heads for layer, _ in by_place}
    for place, card in by_place.items():
        label = labels[place]
        is_strongest = label != OTHER.name and strongest[label] == place
        rows[card.layer][card.head - 1] = Cell(
            name=card.name,
            kind=kinds[label],
            label=label,
            short=shorts.get(label, label) if is_strongest or label not in quiet else "",
            share=card.share,
            says=card.gist,
            is_strongest=is_strongest,
            attention=attention,
        )
    return Grid(KIND_TITLES.get(attention, attention), rows)
