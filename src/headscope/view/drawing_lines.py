"""The lines of a drawing of attention: as dark as their weights, red where chosen."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from headscope.data.head_view import FAINT, HeadView

__all__ = ["RED", "Cell", "Lines", "draw_bundle", "draw_guides", "draw_rows", "find_lines"]

RED = "#d92b2b"  # legible on white and on black
THINNEST, THICKER = 0.9, 1.3  # a line's width at no weight, and what full weight adds
USUAL_ROW = 18  # the height of a row with lines of that width; smaller rows have thinner ones
OVERLOOKED = 0.1  # a marked pair with less weight gets a dotted line, else it would not be seen
BUNDLE = 400  # the strongest lines of a small cell; more would only fill it
SHADES = 100  # lines of one shade are one path
BUNDLE_SHADES = 25


@dataclass(frozen=True)
class Cell:
    """Where things are in the drawing of one head."""

    left: float  # the width of the column of tokens that attend
    gap: float  # what the lines cross
    right: float
    top: float  # what stands above the first row
    row: float  # the height of a token
    n_rows: int

    @property
    def width(self) -> float:
        return self.left + self.gap + self.right

    @property
    def height(self) -> float:
        return self.top + self.row * self.n_rows


@dataclass(frozen=True)
class Line:
    """A weight, from one unit to another."""

    start: int
    end: int
    weight: float
    is_red: bool


@dataclass(frozen=True)
class Lines:
    """The lines of one head that can be seen, and where its units are."""

    lines: tuple[Line, ...]
    missed: tuple[tuple[int, int], ...]  # marked pairs with next to no weight
    cell: Cell

    def path(self, pairs: Iterable[tuple[int, int]]) -> str:
        """The straight ways between these units, as SVG writes them."""
        left, right = self.cell.left, self.cell.left + self.cell.gap
        return "".join(
            f"M{left:.5g} {self._middle(start):.5g}L{right:.5g} {self._middle(end):.5g}"
            for start, end in pairs
        )

    def _middle(self, unit: int) -> float:
        return round(self.cell.top + self.cell.row * (unit + 0.5), 1)


def find_lines(
    view: HeadView, reds: Collection[int], key_reds: Collection[int], cell: Cell
) -> Lines:
    """A line for each weight that is not faint; red at red units and on marked pairs."""
    marked = set(view.marked)
    lines = tuple(
        Line(a, b, float(view.weights[a, b]), a in reds or b in key_reds or (a, b) in marked)
        for a, b in np.argwhere(view.weights >= FAINT).tolist()
    )
    missed = tuple(pair for pair in view.marked if view.weights[pair] < OVERLOOKED)
    return Lines(lines, missed, cell)


def draw_rows(lines: Lines, units: Sequence[str]) -> str:
    """Each unit that attends, in one group with its lines, so that hovering can single it out."""
    cell = lines.cell
    by_start: dict[int, list[Line]] = defaultdict(list)
    for line in lines.lines:
        by_start[line.start].append(line)
    rows = (
        f'<g class="hs-row"><rect y="{cell.top + cell.row * start:.1f}" '
        f'width="{cell.left:.1f}" height="{cell.row:.1f}" fill="none" pointer-events="all"/>'
        f'{unit}<g class="hs-lines" fill="none">'
        f"{_draw_shades(lines, by_start[start], SHADES)}</g></g>"
        for start, unit in enumerate(units)
    )
    return f'<g class="hs-rows">{"".join(rows)}</g>'


def draw_bundle(lines: Lines) -> str:
    """The strongest lines of a head at once, for a cell too small to tell them apart."""
    strongest = sorted(lines.lines, key=lambda line: -line.weight)[:BUNDLE]
    return f'<g fill="none">{_draw_shades(lines, strongest, BUNDLE_SHADES)}</g>'


def draw_guides(lines: Lines) -> str:
    """Thin dotted lines for marked pairs that the head does not attend to: what it misses."""
    if not lines.missed:
        return ""
    return (
        f'<path d="{lines.path(lines.missed)}" fill="none" stroke="{RED}" stroke-width=".8" '
        'stroke-opacity=".6" stroke-dasharray="1.5 3"/>'
    )


def _draw_shades(lines: Lines, chosen: Iterable[Line], n_shades: int) -> str:
    """One path for all lines of a shade: a third of the size of one element for each line."""
    shades: dict[tuple[bool, int], list[tuple[int, int]]] = defaultdict(list)
    for line in chosen:
        shade = int(line.weight * n_shades + 0.5)  # halves up, unlike round()
        shades[line.is_red, shade].append((line.start, line.end))
    scale = min(1, max(0.15, lines.cell.row / USUAL_ROW))
    return "".join(
        f'<path d="{lines.path(shades[is_red, shade])}" '
        f'stroke="{RED if is_red else "currentColor"}" stroke-opacity="{shade / n_shades:.2g}" '
        f'stroke-width="{scale * (THINNEST + THICKER * shade / n_shades):.2g}"/>'
        for is_red, shade in sorted(shades)  # red last, on top
        if shade
    )
