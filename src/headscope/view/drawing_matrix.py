"""Attention as a matrix: rows are the words that attend, columns those that are attended to."""

from collections.abc import Collection, Sequence
from math import ceil

import numpy as np

from headscope.data.attention import head_name
from headscope.data.head_view import FAINT, HeadView
from headscope.view.drawing import RED, find_words
from headscope.view.svg import (
    Drawing,
    compose,
    draw_title,
    escape_text,
    estimate_width,
    shorten,
    show_unit,
)

__all__ = ["draw_matrices", "draw_matrix"]

MARGIN, TITLE_SIZE = 10, 14
SIDE, SIDE_OF_MANY, BARE_SIDE = 900, 300, 64  # pixels, at most: of one matrix, or of each of many
LARGEST = 18  # of a cell
LEGIBLE = 7  # of a cell: below it every few words have their name, at this distance
SHADES = 20
MOST_CELLS, MOST_BARE = 3000, 400  # of each of many matrices, the strongest

Name = tuple[int, str, str]  # of a unit: its place, what is written, and its colour


def draw_matrix(view: HeadView, red: Collection[str] = (), title: str | None = None) -> Drawing:
    """One head over one example; the darker a cell, the more weight. Marked pairs are framed, and
    the names of `red` words are red."""
    heading = f"Head {head_name(view.layer, view.head)}" if title is None else title
    drawn, width, height = _draw_panel(view, SIDE, red, TITLE_SIZE, heading)
    width = max(width, 1.1 * TITLE_SIZE * estimate_width(heading))
    note = _write_note(view, SIDE, MARGIN + height)
    body = f'<g transform="translate({MARGIN} {MARGIN})">{drawn}</g>{note}'
    return compose(body, width + 2 * MARGIN, height + 2 * MARGIN + TITLE_SIZE, heading)


def draw_matrices(
    views: Sequence[HeadView],
    columns: int,
    red: Collection[str] = (),
    title: str = "",
    bare: bool = False,
) -> Drawing:
    """Several heads in a grid, row by row; `bare` ones are small and name no words."""
    side, most = (BARE_SIDE, MOST_BARE) if bare else (SIDE_OF_MANY, MOST_CELLS)
    size = 9 if bare else 12
    panels = [
        _draw_panel(
            view.strongest(most), side, red, size, head_name(view.layer, view.head), not bare
        )
        for view in views
    ]
    columns, space = max(1, min(columns, len(panels))), 8 if bare else 20
    across = max((width for _, width, _ in panels), default=0) + space
    down = max((height for *_, height in panels), default=0) + space
    top = MARGIN + 2 * TITLE_SIZE
    placed = "".join(
        f'<g transform="translate({MARGIN + place % columns * across:.1f} '
        f'{top + place // columns * down:.1f})">{drawn}</g>'
        for place, (drawn, *_) in enumerate(panels)
    )
    height = top + ceil(len(panels) / columns) * down
    width = max(columns * across - space, 1.1 * TITLE_SIZE * estimate_width(title))
    body = f"{draw_title(title, MARGIN, TITLE_SIZE)}{placed}{_write_note(views[0], side, height)}"
    about = f"Attention of {len(views)} heads as matrices."
    return compose(body, width + 2 * MARGIN, height + MARGIN + TITLE_SIZE, title, about)


def _draw_panel(
    view: HeadView, side: float, red: Collection[str], size: float, heading: str, named: bool = True
) -> tuple[str, float, float]:
    """One matrix with its heading and names, and its width and height."""
    cell = _fit_cell(view, side)
    rows, columns = (
        _choose_names(units, cell, red) if named else [] for units in (view.units, view.key_units)
    )
    font = round(min(0.74 * max(cell, LEGIBLE), 12), 1)
    room = 6 + font * max((estimate_width(name) for _, name, _ in rows + columns), default=0)
    room = room if named else 0
    left, top = room, 1.4 * size + room
    width, height = cell * len(view.key_units), cell * len(view.units)
    written = "".join(_name_row(name, left, top + cell / 2, cell, font) for name in rows)
    written += "".join(_name_column(name, left + cell / 2, top, cell, font) for name in columns)
    markup = (
        f"{draw_title(heading, 0, size)}"
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" fill="none" '
        f'stroke="currentColor" stroke-opacity=".3"/>{_draw_cells(view, left, top, cell)}'
        f'<g font-size="{font}">{written}</g>{_frame_marked(view, left, top, cell)}'
    )
    return markup, left + width, top + height


def _fit_cell(view: HeadView, side: float) -> float:
    return min(LARGEST, side / max(len(view.units), len(view.key_units), 1))


def _find_step(cell: float) -> int:
    """Every so many words are named."""
    return max(1, ceil(LEGIBLE / cell))


def _write_note(view: HeadView, side: float, y: float) -> str:
    """How to read it, below all."""
    step = _find_step(_fit_cell(view, side))
    named = f" One word in {step} is named." * (step > 1 and side != BARE_SIDE)
    place = f'x="{MARGIN}" y="{y + TITLE_SIZE:.1f}"'
    return f'<text {place} font-size="10">Rows attend to columns.{named}</text>'


def _choose_names(units: Sequence[str], cell: float, red: Collection[str]) -> list[Name]:
    """The names of every few units, and of all red ones."""
    reds = find_words(units, red)
    shown = sorted({*range(0, len(units), _find_step(cell)), *reds})
    colours = [f' fill="{RED}"' if unit in reds else "" for unit in shown]
    names = [shorten(show_unit(units[unit])) for unit in shown]
    return list(zip(shown, names, colours, strict=True))


def _name_row(name: Name, left: float, first: float, cell: float, font: float) -> str:
    unit, text, colour = name
    place = f'x="{left - 4:.1f}" y="{first + cell * unit + 0.35 * font:.1f}"'
    return f'<text {place} text-anchor="end"{colour}>{escape_text(text)}</text>'


def _name_column(name: Name, first: float, top: float, cell: float, font: float) -> str:
    unit, text, colour = name
    place = f"translate({first + cell * unit + 0.35 * font:.1f} {top - 4:.1f}) rotate(-90)"
    return f'<text transform="{place}"{colour}>{escape_text(text)}</text>'


def _draw_cells(view: HeadView, left: float, top: float, cell: float) -> str:
    """One path for all cells of a shade; the smallest ones are a little larger, to be seen."""
    shades = np.ceil(np.clip(view.weights, 0, 1) * SHADES).astype(int)
    shades[view.weights < FAINT] = 0
    paths = []
    for shade in range(1, SHADES + 1):
        cells = np.argwhere(shades == shade).tolist()
        if cells:
            drawn = "".join(_outline(pair, left, top, cell) for pair in cells)
            paths.append(f'<path d="{drawn}" fill-opacity="{shade / SHADES:.2g}"/>')
    return "".join(paths)


def _frame_marked(view: HeadView, left: float, top: float, cell: float) -> str:
    frames = "".join(_outline(pair, left, top, cell) for pair in view.marked)
    return f'<path d="{frames}" fill="none" stroke="{RED}"/>' if frames else ""


def _outline(pair: Sequence[int], left: float, top: float, cell: float) -> str:
    query, key = pair
    side = f"{max(cell, 1.2):.3g}"
    return f"M{left + cell * key:.1f} {top + cell * query:.1f}h{side}v{side}h-{side}z"
