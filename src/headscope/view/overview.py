"""All heads in one picture: a grid of layers and heads, coloured by what each head does."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headscope.view.behaviour import find_kind
from headscope.view.card import Card
from headscope.view.facts import Place
from headscope.view.presentation import list_specs
from headscope.view.specs import KIND_TITLES, OTHER, Behaviour, Kind, Labels

__all__ = ["Cell", "Grid", "LegendLine", "Overview", "make_overview", "write_on"]

NAMED_HEADS = 3  # of a kind, in the legend


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

    @property
    def cells(self) -> list[Cell]:
        """All heads."""
        return [cell for row in self.rows.values() for cell in row if cell]


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
    grids = [_make_grid(kind, of_kind) for kind, of_kind in cards.items()]
    grids = [grid for grid in grids if grid.rows]
    cells = [cell for grid in grids for cell in grid.cells]
    kinds = [kind for kind in dict.fromkeys(cell.kind for cell in cells) if kind != OTHER]
    order = sorted(kinds, key=lambda kind: -sum(cell.kind == kind for cell in cells))
    has_other = any(cell.kind == OTHER for cell in cells)
    return Overview(
        tuple(grids), tuple(_make_line(kind, cells) for kind in [*order, *[OTHER] * has_other])
    )


def _make_grid(attention: str, cards: Sequence[Card]) -> Grid:
    by_place = {(card.layer, card.head): card for card in cards}
    labels = {place: (card.labels or (OTHER.name,))[0] for place, card in by_place.items()}
    strongest: dict[str, Place] = {}
    for place in sorted(by_place, key=lambda place: -by_place[place].share):
        strongest.setdefault(labels[place], place)
    shorts, kinds = _list_shorts(), {label: find_kind(label) for label in strongest}
    quiet = {OTHER.name, *(b.name for b in list_specs(Behaviour) if b.is_background)}
    n_heads = max((head for _, head in by_place), default=0)
    rows: dict[int, list[Cell | None]] = {layer: [None] * n_heads for layer, _ in by_place}
    for place, card in by_place.items():
        label = labels[place]
        is_strongest = label != OTHER.name and strongest[label] == place
        rows[place[0]][place[1] - 1] = Cell(
            name=f"{place[0]}-{place[1]}",
            kind=kinds[label],
            label=label,
            short=shorts.get(label, label) if is_strongest or label not in quiet else "",
            share=card.share,
            says=card.gist,
            is_strongest=is_strongest,
            attention=attention,
        )
    return Grid(KIND_TITLES.get(attention, attention), rows)


def _list_shorts() -> dict[str, str]:
    shorts = {behaviour.name: behaviour.short for behaviour in list_specs(Behaviour)}
    shorts |= {
        labels.name: labels.short for labels in list_specs(Labels) if labels.name is not None
    }
    return {name: short for name, short in shorts.items() if short}


def _make_line(kind: Kind, cells: Sequence[Cell]) -> LegendLine:
    of_kind = [cell for cell in cells if cell.kind == kind]
    strongest = sorted((c for c in of_kind if c.is_strongest), key=lambda cell: -cell.share)
    return LegendLine(kind, len(of_kind), tuple(strongest[:NAMED_HEADS]))


def write_on(colour: str) -> str:
    """Black or white, whichever is easier to read on a colour (WCAG's relative luminance).

    >>> write_on("#0072B2"), write_on("#E69F00")
    ('#fff', '#000')
    """
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    return "#000" if (luminance + 0.05) / 0.05 > 1.05 / (luminance + 0.05) else "#fff"
