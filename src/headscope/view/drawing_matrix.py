"""Attention as a matrix: rows are the words that attend, columns those that are attended to."""

from collections.abc import Collection, Sequence
from math import ceil

import numpy as np

from headscope.data.attention import head_name
from headscope.data.head_view import FAINT, HeadView
from headscope.view.drawing import find_words
from headscope.view.drawing_lines import RED
from headscope.view.svg import Drawing, escape_text, estimate_width, shorten, show_unit

__all__ = ["draw_matrix"]

MARGIN, TITLE_SIZE = 10, 14
SIDE = 900  # pixels: of the matrix of a long text
LARGEST, SMALLEST = 18, 2.5  # of a cell
LEGIBLE = 7  # of a cell: below it every few words have their name, at this distance
SHADES = 20


def draw_matrix(view: HeadView, red: Collection[str] = (), title: str | None = None) -> Drawing:
    """One head over one example; the darker a cell, the more weight. Marked pairs are framed, and
    the names of `red` words are red."""
    sides = (view.units, view.key_units)
    n_units, n_keys = map(len, sides)
    cell = max(SMALLEST, min(LARGEST, SIDE / max(n_units, n_keys, 1)))
    step = max(1, ceil(LEGIBLE / cell))  # every so many words are named
    size = round(min(0.74 * max(cell, LEGIBLE), 12), 1)
    rows, columns = (_choose_names(units, step, red) for units in sides)
    room = 6 + size * max((estimate_width(name) for _, name, _ in rows + columns), default=0)
    heading = f"Head {head_name(view.layer, view.head)}" if title is None else title
    top = MARGIN + 2 * TITLE_SIZE + room
    left, width, height = MARGIN + room, cell * n_keys, cell * n_units
    words = "".join(
        _name_row(name, left, top + cell * (i + 0.5), size, colour) for i, name, colour in rows
    ) + "".join(
        _name_column(name, left + cell * (i + 0.5), top, size, colour)
        for i, name, colour in columns
    )
    named = f" One word in {step} is named." * (step > 1)
    note = f"Rows attend to columns.{named}"
    across = max(left + width, MARGIN + 1.1 * TITLE_SIZE * estimate_width(heading))
    svg_width, svg_height = ceil(across + MARGIN), ceil(top + height + MARGIN + TITLE_SIZE)
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{svg_width}" height="{svg_height}" '
        f'viewBox="0 0 {svg_width} {svg_height}" role="img" '
        'font-family="Helvetica, Arial, sans-serif" fill="currentColor">'
        f"<title>{escape_text(heading)}</title>"
        f'<text x="{MARGIN}" y="{MARGIN + TITLE_SIZE}" font-weight="bold" '
        f'font-size="{TITLE_SIZE}">{escape_text(heading)}</text>'
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" fill="none" '
        f'stroke="currentColor" stroke-opacity=".3"/>{_draw_cells(view, left, top, cell)}'
        f'<g font-size="{size}">{words}</g>{_frame_marked(view, left, top, cell)}'
        f'<text x="{left:.1f}" y="{top + height + TITLE_SIZE:.1f}" font-size="10">{note}</text>'
        "</svg>"
    )
    return Drawing(svg, svg_width, svg_height, heading)


def _choose_names(
    units: Sequence[str], step: int, red: Collection[str]
) -> list[tuple[int, str, str]]:
    """Of every few units the place, the name and its colour; red ones are all there."""
    reds = find_words(units, red)
    shown = sorted({*range(0, len(units), step), *reds})
    colours = [f' fill="{RED}"' if unit in reds else "" for unit in shown]
    names = [shorten(show_unit(units[unit])) for unit in shown]
    return list(zip(shown, names, colours, strict=True))


def _name_row(name: str, left: float, middle: float, size: float, colour: str) -> str:
    place = f'x="{left - 4:.1f}" y="{middle + 0.35 * size:.1f}"'
    return f'<text {place} text-anchor="end"{colour}>{escape_text(name)}</text>'


def _name_column(name: str, middle: float, top: float, size: float, colour: str) -> str:
    place = f"translate({middle + 0.35 * size:.1f} {top - 4:.1f}) rotate(-90)"
    return f'<text transform="{place}"{colour}>{escape_text(name)}</text>'


def _draw_cells(view: HeadView, left: float, top: float, cell: float) -> str:
    """One path for all cells of a shade."""
    shades = np.ceil(np.clip(view.weights, 0, 1) * SHADES).astype(int)
    shades[view.weights < FAINT] = 0
    paths = []
    for shade in range(1, SHADES + 1):
        cells = np.argwhere(shades == shade).tolist()
        if cells:
            drawn = "".join(
                f"M{left + cell * key:.1f} {top + cell * query:.1f}h{cell:.1f}v{cell:.1f}"
                f"h-{cell:.1f}z"
                for query, key in cells
            )
            paths.append(f'<path d="{drawn}" fill-opacity="{shade / SHADES:.2g}"/>')
    return "".join(paths)


def _frame_marked(view: HeadView, left: float, top: float, cell: float) -> str:
    frames = "".join(
        f"M{left + cell * key:.1f} {top + cell * query:.1f}h{cell:.1f}v{cell:.1f}h-{cell:.1f}z"
        for query, key in view.marked
    )
    return f'<path d="{frames}" fill="none" stroke="{RED}"/>' if frames else ""
