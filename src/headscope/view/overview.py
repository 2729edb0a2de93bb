"""All heads in one picture: a cell for each, coloured by where most of its attention goes."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from headscope.data.table import Tables
from headscope.view.behaviour import find_behaviour, find_kind
from headscope.view.card import Card
from headscope.view.facts import Place
from headscope.view.presentation import list_specs
from headscope.view.specs import GREY, KIND_TITLES, Behaviour, Kind, Labels, Look
from headscope.view.svg import write_on

__all__ = [
    "ELSEWHERE", "GROUNDS", "NOTHING", "STRENGTHS", "Cell", "Grid", "LegendLine", "Overview",
    "Paint", "make_overview", "paint",
]  # fmt: skip

ELSEWHERE = Kind("elsewhere (not measured where)", GREY, "circle")
NOTHING = Kind("nothing that was measured", GREY, "circle")
NAMED_HEADS = 3  # of a colour, in the legend
STEPS = (0.25, 0.4, 0.6)  # shares from which on a colour is stronger
STRENGTHS = (0.4, 0.6, 0.8, 1.0)  # of a colour, from the smallest share to the largest
GROUNDS = {"light": "#ffffff", "dark": "#14171b"}  # of the page


@dataclass(frozen=True)
class Cell:
    """A head: where most of its attention goes, and what it finds."""

    name: str
    look: Kind
    share: float  # of its attention, that goes there
    finds: Kind
    label: str  # what it finds first; "" for nothing
    found: float  # how much of that
    short: str  # the label in a few letters
    says: str
    attention: str  # the kind of attention, of an encoder-decoder

    @property
    def strength(self) -> int:
        """How strong its colour is, from 1 to 4."""
        return 1 + sum(self.share >= step for step in STEPS)


@dataclass(frozen=True)
class Grid:
    """The heads of one kind of attention, a row a layer; None where there is no such head."""

    title: str
    rows: dict[int, list[Cell | None]]

    @property
    def cells(self) -> Iterator[Cell]:
        """Its heads, by layer."""
        return (cell for row in self.rows.values() for cell in row if cell)


@dataclass(frozen=True)
class LegendLine:
    """A colour: what it means, how many heads have it, and the strongest of them."""

    kind: Kind
    n_heads: int
    strongest: tuple[tuple[Cell, str], ...]  # with a number, and what it is of


@dataclass(frozen=True)
class Overview:
    """The grids, a legend for each of both colourings, and the sizes that decide what fits in."""

    grids: tuple[Grid, ...]
    looks: tuple[LegendLine, ...]
    finds: tuple[LegendLine, ...]

    @property
    def n_layers(self) -> int:
        """The rows of all grids."""
        return sum(len(grid.rows) for grid in self.grids)

    @property
    def n_heads(self) -> int:
        """The columns."""
        return max((len(row) for grid in self.grids for row in grid.rows.values()), default=0)

    @property
    def strongest(self) -> frozenset[tuple[str, str, str]]:
        """The first head of each colour, as (colour, kind of attention, head)."""
        lines = (*self.looks, *self.finds)
        first = ((line.kind.name, line.strongest[0][0]) for line in lines if line.strongest)
        return frozenset((name, cell.attention, cell.name) for name, cell in first)


def make_overview(cards: Mapping[str, Sequence[Card]], tables: Mapping[str, Tables]) -> Overview:
    """All heads that have cards; of an encoder-decoder a grid for each kind of attention."""
    grids = [_make_grid(kind, of_kind, tables[kind]) for kind, of_kind in cards.items() if of_kind]
    cells = [cell for grid in grids for cell in grid.cells]
    looks = _count_kinds([(cell, cell.look, cell.share, "") for cell in cells], ELSEWHERE)
    finds = _count_kinds([(cell, cell.finds, cell.found, cell.label) for cell in cells], NOTHING)
    return Overview(tuple(grids), looks, finds)


def _count_kinds(
    shares: Sequence[tuple[Cell, Kind, float, str]], last: Kind
) -> tuple[LegendLine, ...]:
    """A line for each kind, the most frequent first."""
    counts = Counter(kind for _, kind, *_ in shares)
    lines = []
    for kind in sorted(counts, key=lambda kind: (kind == last, -counts[kind])):
        of_kind = sorted((s for s in shares if s[1] == kind), key=lambda item: -item[2])
        shown = of_kind[: NAMED_HEADS * (kind != last)]
        strongest = [
            (cell, f"{f'{label} ' * bool(label)}{100 * share:.0f} %")
            for cell, _, share, label in shown
        ]
        lines.append(LegendLine(kind, counts[kind], tuple(strongest)))
    return tuple(lines)


def _make_grid(attention: str, cards: Sequence[Card], tables: Tables) -> Grid:
    looks = find_looks(tables)
    n_heads = max(card.head for card in cards)
    rows: dict[int, list[Cell | None]] = {card.layer: [None] * n_heads for card in cards}
    shorts = {spec.name: spec.short for spec in list_specs(Labels) if spec.name and spec.short}
    behaviours = {name: find_behaviour(name) for card in cards for name in card.labels}
    for card in cards:
        look, share = looks.get((card.layer, card.head), (ELSEWHERE, 0.0))
        label = next((name for name in card.labels if _is_find(behaviours[name])), "")
        behaviour = behaviours.get(label)
        most = f"most attention to {look.name} ({100 * share:.0f} %); " * (look != ELSEWHERE)
        rows[card.layer][card.head - 1] = Cell(
            name=card.name,
            look=look,
            share=share,
            finds=find_kind(label) if label else NOTHING,
            label=label,
            found=card.shares.get(label, 0.0),
            short=behaviour.short if behaviour else shorts.get(label, label),
            says=f"{most}{card.summary}",
            attention=attention,
        )
    return Grid(KIND_TITLES.get(attention, attention), rows)


def _is_find(behaviour: Behaviour | None) -> bool:
    """Whether a label names what a head finds, and not where it looks; None: a free label."""
    return behaviour is None or not behaviour.is_look


def find_looks(tables: Tables) -> dict[Place, tuple[Kind, float]]:
    """Where the largest share of each head's attention goes, and how much that is.

    None of heads whose attention goes mostly to what was not measured.
    """
    specs = [
        look for look in list_specs(Look) if all(len(tables.get(name, ())) for name in look.needs)
    ]
    if not specs:
        return {}
    with np.errstate(over="ignore"):  # a number that is no share is shown as it is
        shares = pd.DataFrame({n: look.shares(tables) for n, look in enumerate(specs)}).fillna(0.0)
    parts = [n for n, look in enumerate(specs) if not look.is_sum]
    unknown = 1 - shares[parts].sum(axis=1)
    known = shares[shares.max(axis=1) >= unknown]
    places = known.index.to_frame()[["layer", "head"]].astype(int).itertuples(index=False)
    numbers = known.to_numpy().argmax(axis=1) if len(known) else []
    return {
        (layer, head): (specs[number].kind, float(row[number]))
        for (layer, head), number, row in zip(places, numbers, known.to_numpy(), strict=True)
    }


# Colours: the stronger, the larger the share, on a light and on a dark page.


@dataclass(frozen=True)
class Paint:
    """A colour of a cell, and that of the words on it."""

    ground: str
    ink: str


def paint(kind: Kind, strength: int, theme: str) -> Paint:
    """How a kind is painted at a strength from 1 to 4, on a light or a dark page.

    >>> paint(Kind("x", "#0072B2", "circle"), 4, "light")
    Paint(ground='#0072b2', ink='#fff')
    """
    amount = STRENGTHS[strength - 1] * (0.5 if kind in (ELSEWHERE, NOTHING) else 1)
    parts = [
        round(amount * int(kind.colour[n : n + 2], 16) + (1 - amount) * int(page[n : n + 2], 16))
        for page in [GROUNDS[theme]]
        for n in (1, 3, 5)
    ]
    ground = "#" + "".join(f"{part:02x}" for part in parts)
    return Paint(ground, write_on(ground))
