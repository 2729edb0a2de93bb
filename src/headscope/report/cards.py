"""Everything that a run knows about a head, on one card."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from headscope.analyses.behaviours import (
    BEHAVIOURS,
    Thresholds,
    behaviour_table,
    label_heads,
)
from headscope.data.attention import parse_head_name
from headscope.errors import StudyError
from headscope.report.card_facts import ATTENTION_FACTS, Fact, FactMaker, Place, Tables
from headscope.report.card_language import LANGUAGE_FACTS

__all__ = ["Card", "Fact", "make_card", "make_cards", "read_head"]

PHRASES = {
    "previous token": "looks at the previous token ({})",
    "next token": "looks at the next token ({})",
    "same token": "looks at the token itself ({})",
    "opening token (cls)": "looks at the opening token ({})",
    "closing tokens (sep)": "looks at the closing tokens ({})",
    "first token (sink)": "looks at the first token ({})",
    "period and comma": "looks at periods and commas ({})",
    "everything, broadly": "attends broadly ({} of even attention)",
}
COREFERENCE, OTHER, BROAD = "coreference", "other", BEHAVIOURS[-1].name
SHOWN_RELATIONS = 3
NOTHING = "nothing stands out in what was measured"

Shares = Mapping[tuple[int, int, str], float]  # layer, head, label


@dataclass(frozen=True)
class Card:
    """A head: what it is in a sentence, and every fact that was measured."""

    layer: int
    head: int
    title: str
    gist: str
    facts: tuple[Fact, ...]


def make_cards(tables: Tables) -> list[Card]:
    """The cards of all heads that the tables speak of, by layer and head."""
    places = _find_heads(tables)
    facts: dict[Place, list[Fact]] = {place: [] for place in places}
    makers = (*ATTENTION_FACTS, *LANGUAGE_FACTS)
    for place, fact in _all_facts(makers, tables):
        facts[place].append(fact)
    labels, shares = _labels(tables, places), _shares(tables)
    return [
        Card(
            layer,
            head,
            f"Head {layer}-{head}",
            _gist((layer, head), labels[layer, head], shares),
            (*_behaviour_fact(labels[layer, head]), *facts[layer, head]),
        )
        for layer, head in places
    ]


def make_card(tables: Tables, layer: int, head: int) -> Card:
    """The card of one head, or an error that says which heads there are."""
    _refuse_unknown(f"{layer}-{head}", (layer, head), tables)
    return next(card for card in make_cards(tables) if (card.layer, card.head) == (layer, head))


def read_head(name: str, tables: Tables) -> Place:
    """Layer and head of a name as `8-10`, or an error that says which heads there are."""
    found = parse_head_name(name)
    place = (found[0] + 1, found[1] + 1) if found else None
    return _refuse_unknown(name, place, tables)


def _refuse_unknown(name: str, place: Place | None, tables: Tables) -> Place:
    known = _find_heads(tables)
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


def _find_heads(tables: Tables) -> list[Place]:
    """Every head that a table has a row of."""
    found: set[Place] = set()
    for table in tables.values():
        if {"layer", "head"} <= set(table.columns):
            heads = table[["layer", "head"]].dropna().drop_duplicates()
            found |= {(int(layer), int(head)) for layer, head in heads.to_numpy().tolist()}
    return sorted(found)


def _all_facts(makers: Iterable[FactMaker], tables: Tables) -> Iterator[tuple[Place, Fact]]:
    for needs, make in makers:
        if all(len(tables.get(name, ())) for name in needs):
            yield from make(tables)


def _labels(tables: Tables, places: Sequence[Place]) -> dict[Place, list[str]]:
    """Each head's behaviours: those of the map, whose thresholds a user may have set, or new."""
    labelled = tables.get("layout")
    if labelled is None or labelled.empty:
        heads = pd.DataFrame(places, columns=["layer", "head"])
        labelled = label_heads(heads, tables, Thresholds())
    rows = labelled[["layer", "head", "behaviours"]].itertuples(index=False)
    found = {(int(layer), int(head)): str(names).split("; ") for layer, head, names in rows}
    return {place: found.get(place, [OTHER]) for place in places}


def _shares(tables: Tables) -> Shares:
    """The number behind every label that a head may have."""
    measured = behaviour_table(tables)[["layer", "head", "behaviour", "share"]]
    parts = [measured]
    best = tables.get("dependency-best")
    if best is not None:
        parts.append(best[["layer", "head", "relation", "accuracy"]])
    best = tables.get("coreference-best")
    if best is not None:
        rows = best[(best["mention_type"] == "all") & (best["candidates"] == "mentions")]
        parts.append(rows.assign(label=COREFERENCE)[["layer", "head", "label", "accuracy"]])
    found: dict[tuple[int, int, str], float] = {}
    for part in parts:
        for layer, head, label, share in part.itertuples(index=False):
            found.setdefault((int(layer), int(head), str(label)), float(share))
    return found


def _behaviour_fact(labels: Sequence[str]) -> tuple[Fact, ...]:
    return () if labels == [OTHER] else (Fact("behaviour", "; ".join(labels)),)


def _gist(place: Place, labels: Sequence[str], shares: Shares) -> str:
    """Where it looks, what it finds, and whether it is broad; or what comes nearest."""
    if list(labels) == [OTHER]:
        return _nearest_behaviour(place, shares)
    said = {label: _say_share(shares.get((*place, label))) for label in labels}
    looks = [PHRASES[name].format(said[name]) for name in labels if name in PHRASES]
    relations = [name for name in labels if name not in PHRASES and name != COREFERENCE]
    found = [f"{name} ({said[name]})" for name in relations[:SHOWN_RELATIONS]]
    n_more = len(relations) - len(found)
    found += [f"{n_more} more relation{'s' * (n_more > 1)}"] * bool(n_more)
    found += [f"antecedents ({said[name]})" for name in labels if name == COREFERENCE]
    n_first = len(looks) - (BROAD in labels)  # breadth, which says least, comes last
    finds = [f"finds {', '.join(found)}"] * bool(found)
    return "; ".join([*looks[:n_first], *finds, *looks[n_first:]])


def _nearest_behaviour(place: Place, shares: Shares) -> str:
    own = {name: shares[*place, name] for name in PHRASES if (*place, name) in shares}
    own.pop(BROAD, None)  # a share of another kind
    if not own:
        return NOTHING
    name = max(own, key=lambda label: own[label])
    looks = PHRASES[name].format(_say_share(own[name]))
    return f"nothing stands out; {looks.replace('looks at', 'looks most at')}"


def _say_share(share: float | None) -> str:
    return "-" if share is None or pd.isna(share) else f"{100 * share:.0f} %"
