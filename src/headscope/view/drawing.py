"""Attention drawn as the paper draws it: tokens left and right, a line for each weight.

The darker a line, the more weight; attention from or to chosen words, and gold arcs, are red.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from headscope.data.attention import head_name
from headscope.data.head_view import FAINT, HeadView
from headscope.view.svg import (
    Drawing,
    compose,
    draw_title,
    escape_text,
    estimate_width,
    shorten,
    show_unit,
)

__all__ = ["RED", "Drawing", "draw_head", "draw_heads", "find_words", "without_special"]

TITLE_SIZE = 14
MARGIN = 10
PAD = 5  # between a token and its lines
BARE_WIDTH, BARE_HEIGHT = 58, 66  # of a head among all heads, without its tokens
BARE_TITLE_SIZE = 9

RED = "#d92b2b"  # legible on white and on black
THINNEST, THICKER = 0.9, 1.3  # a line's width at no weight, and what full weight adds
USUAL_ROW = 18  # the height of a row with lines of that width; smaller rows have thinner ones
OVERLOOKED = 0.1  # a marked pair with less weight gets a dotted line, else it would not be seen
BUNDLE = 400  # the strongest lines of a small cell; more would only fill it
SHADES = 100  # lines of one shade are one path
BUNDLE_SHADES = 25

# Hovering a token leaves its own lines alone. Names begin with hs-: a page's styles are shared.
STYLE = (
    ".hs-lines{pointer-events:none}"
    ".hs-rows:hover .hs-row:not(:hover) .hs-lines{opacity:.04}"
    ".hs-row:hover text{font-weight:bold}"
)


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


def draw_head(
    view: HeadView, hide_special: bool = False, red: Collection[str] = (), title: str | None = None
) -> Drawing:
    """One head over one example; `red` are words whose attention, given and got, is red.

    Special tokens can be hidden: the other weights stay as they are.
    """
    shown = without_special(view) if hide_special else view
    name = f"Head {head_name(view.layer, view.head)}"  # read aloud even where no title is drawn
    heading = name if title is None else title
    cell = _lay_out([shown], heading)
    drawn = _draw_cell(shown, cell, red, heading)
    return _frame([drawn], cell, 1, heading or name, _describe(shown))


def draw_heads(
    views: Sequence[HeadView],
    columns: int = 4,
    hide_special: bool = False,
    red: Collection[str] = (),
    title: str | None = None,
    bare: bool = False,
    titles: Sequence[str] = (),
) -> Drawing:
    """Several heads in a grid, row by row; `bare` cells are small and leave the tokens out.

    `titles` stand above the heads, by default their names.
    """
    shown = [without_special(view) if hide_special else view for view in views]
    titles = titles or [f"Head {head_name(view.layer, view.head)}" for view in shown]
    cell = _lay_out_bare(shown) if bare else _lay_out(shown, max(titles, key=len, default=""))
    drawn = [
        _draw_bare(view, cell, red) if bare else _draw_cell(view, cell, red, heading)
        for view, heading in zip(shown, titles, strict=True)
    ]
    words = " ".join(show_unit(unit) for unit in shown[0].units) if shown else ""
    about = f"Attention of {len(views)} heads over: {words}"
    return _frame(drawn, cell, columns, title or f"{len(views)} heads", about, title or "")


def find_words(units: Sequence[str], words: Collection[str]) -> frozenset[int]:
    """The units that are one of these words, or the pieces of one, in whatever case.

    >>> sorted(find_words(["The", "un", "seen", "the"], ["the", "Unseen"]))
    [0, 1, 2, 3]
    """
    folded = [unit.casefold() for unit in units]
    matching: set[int] = set()
    for word in (word.casefold() for word in words):
        for start in range(len(folded)):
            joined, end = "", start
            while end < len(folded) and len(joined) < len(word):
                joined, end = joined + folded[end], end + 1
            if joined and joined == word:
                matching.update(range(start, end))
    return frozenset(matching)


def without_special(view: HeadView) -> HeadView:
    """The same without special tokens; the other weights stay as they are."""
    kept, kept_keys = (
        [unit for unit, special in enumerate(is_special) if not special]
        for is_special in (view.is_special, view.is_special_key)
    )
    row_at, key_at = ({unit: n for n, unit in enumerate(units)} for units in (kept, kept_keys))
    return replace(
        view,
        units=tuple(view.units[unit] for unit in kept),
        is_special=(False,) * len(kept),
        keys=view.keys and tuple(view.keys[unit] for unit in kept_keys),
        special_keys=view.special_keys and (False,) * len(kept_keys),
        weights=view.weights[np.ix_(kept, kept_keys)],
        marked=tuple((row_at[a], key_at[b]) for a, b in view.marked if a in row_at and b in key_at),
    )


def _lay_out(views: Sequence[HeadView], title: str) -> Cell:
    """Room for the title, the longest token and the most tokens; long texts get small rows."""
    n_rows = _count_rows(views)
    row = float(np.interp(n_rows, [24, 128], [18, 10]))
    names = {shorten(show_unit(unit)) for view in views for unit in (*view.units, *view.key_units)}
    column = max(map(estimate_width, names), default=0) * _font_size(row) + PAD
    spare = _title_width(title) - 2 * column  # what the title needs beyond the tokens
    gap = max(float(np.clip(0.4 * row * n_rows, 90, 280)), spare)
    return Cell(column, gap, column, 2.6 * TITLE_SIZE, row, n_rows)


def _count_rows(views: Sequence[HeadView]) -> int:
    return max((len(units) for v in views for units in (v.units, v.key_units)), default=0)


def _lay_out_bare(views: Sequence[HeadView]) -> Cell:
    n_rows = _count_rows(views)
    return Cell(0, BARE_WIDTH, 0, 1.4 * BARE_TITLE_SIZE, BARE_HEIGHT / max(n_rows, 1), n_rows)


def _title_width(title: str) -> float:
    return 1.1 * TITLE_SIZE * estimate_width(title)  # bold is broader


def _font_size(row: float) -> float:
    return round(0.74 * row, 1)


def _draw_cell(view: HeadView, cell: Cell, red: Collection[str], title: str) -> str:
    reds, key_reds = (find_words(units, red) for units in (view.units, view.key_units))
    lines = find_lines(view, reds, key_reds, cell)
    left = [_draw_unit(view, unit, cell, reds, True) for unit in range(len(view.units))]
    right = [_draw_unit(view, unit, cell, key_reds, False) for unit in range(len(view.key_units))]
    middle = cell.left + cell.gap / 2
    small = f'font-size="{0.75 * TITLE_SIZE}" fill-opacity=".65"'
    under = 2.1 * TITLE_SIZE
    return (
        f'<text x="{middle:.1f}" y="{TITLE_SIZE}" text-anchor="middle" font-weight="bold" '
        f'font-size="{TITLE_SIZE}">{escape_text(title)}</text>'
        f'<text x="{cell.left - PAD:.1f}" y="{under:.1f}" text-anchor="end" {small}>from</text>'
        f'<text x="{cell.left + cell.gap + PAD:.1f}" y="{under:.1f}" {small}>to</text>'
        f'<g font-size="{_font_size(cell.row)}">{draw_guides(lines)}'
        f"{draw_rows(lines, left)}{''.join(right)}</g>"
    )


def _draw_unit(view: HeadView, unit: int, cell: Cell, reds: frozenset[int], is_from: bool) -> str:
    """A token at its place, with what it attends to as a tooltip where it attends."""
    name = show_unit((view.units if is_from else view.key_units)[unit])
    is_special = (view.is_special if is_from else view.is_special_key)[unit]
    x = cell.left - PAD if is_from else cell.left + cell.gap + PAD
    y = cell.top + cell.row * (unit + 0.5) + 0.35 * _font_size(cell.row)
    anchor = ' text-anchor="end"' if is_from else ""
    colour = f' fill="{RED}"' if unit in reds else ""
    faint = ' fill-opacity=".65"' if is_special and not colour else ""
    tip_text = _strongest(view, unit) if is_from else name
    tip = f"<title>{escape_text(tip_text)}</title>" if is_from or shorten(name) != name else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}"{anchor}{colour}{faint}>'
        f"{tip}{escape_text(shorten(name))}</text>"
    )


def _strongest(view: HeadView, unit: int, count: int = 3) -> str:
    """What a token attends to most, in words."""
    order = np.argsort(-view.weights[unit], kind="stable")[:count]
    shares = [f"{show_unit(view.key_units[k])} {view.weights[unit, k]:.0%}" for k in order]
    return f"{show_unit(view.units[unit])} → {', '.join(shares)}"


def _describe(view: HeadView) -> str:
    """The picture for those who cannot see it."""
    rows = "; ".join(_strongest(view, unit, 1) for unit in range(len(view.units)))
    return f"What each token attends to most: {rows}."


def _draw_bare(view: HeadView, cell: Cell, red: Collection[str]) -> str:
    reds, key_reds = (find_words(units, red) for units in (view.units, view.key_units))
    lines = find_lines(view, reds, key_reds, cell)
    name = head_name(view.layer, view.head)
    return (
        f"<title>Head {name}</title>"
        f'<text y="{BARE_TITLE_SIZE}" font-size="{BARE_TITLE_SIZE}">{name}</text>'
        f'<rect y="{cell.top:.1f}" width="{cell.gap:.1f}" height="{BARE_HEIGHT}" '
        f'fill="currentColor" fill-opacity=".04"/>{draw_bundle(lines)}'
    )


def _frame(
    cells: Sequence[str], cell: Cell, columns: int, title: str, about: str, above: str = ""
) -> Drawing:
    """The cells side by side in one picture, with a heading `above` them."""
    columns = max(1, min(columns, len(cells)))
    space = 8 if cell.left == 0 else 28
    top = MARGIN + (2 * TITLE_SIZE if above else 0)
    across, down = cell.width + space, cell.height + space
    width = 2 * MARGIN + max(columns * across - space, _title_width(above))
    height = top + MARGIN + ceil(len(cells) / columns) * down - space
    placed = "".join(
        f'<g transform="translate({MARGIN + number % columns * across:.1f} '
        f'{top + number // columns * down:.1f})">{drawn}</g>'
        for number, drawn in enumerate(cells)
    )
    body = f"{draw_title(above, MARGIN, TITLE_SIZE)}{placed}"
    return compose(body, width, height, title, about, STYLE)


# The lines: as dark as their weights, red where chosen.


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
