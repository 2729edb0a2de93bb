"""Attention as a matrix: rows are the words that attend, columns those that are attended to."""

from collections.abc import Collection
from math import ceil

import numpy as np

from headscope.data.attention import head_name
from headscope.data.head_view import FAINT, HeadView
from headscope.view.drawing_lines import RED
from headscope.view.svg import Drawing, escape_text, estimate_width, shorten, show_unit

__all__ = ["draw_matrix"]

MARGIN, TITLE_SIZE = 10, 14
SIDE = 900  # pixels: of the matrix of a long text
LARGEST, SMALLEST = 18, 2.5  # of a cell
LEGIBLE = 7  # of a cell: below it every few words have their name, at this distance
SHADES = 20


def draw_matrix(view: HeadView, reds: Collection[int] = (), title: str | None = None) -> Drawing:
    """One head over one example; the darker a cell, the more weight. Marked pairs are framed, and
    the names of `reds` are red."""
    n_units = len(view.units)
    cell = max(SMALLEST, min(LARGEST, SIDE / max(n_units, 1)))
    step = max(1, ceil(LEGIBLE / cell))  # every so many words are named
    size = round(min(0.74 * max(cell, LEGIBLE), 12), 1)
    names = [shorten(show_unit(unit)) for unit in view.units]
    shown = sorted({*range(0, n_units, step), *reds})
    room = 6 + size * max((estimate_width(names[unit]) for unit in shown), default=0)
    heading = f"Head {head_name(view.layer, view.head)}" if title is None else title
    top = MARGIN + 2 * TITLE_SIZE + room
    left, side = MARGIN + room, cell * n_units
    words = "".join(
        f'<g fill="{RED if unit in reds else "currentColor"}">'
        f"{_name(names[unit], left, top, cell, unit, size)}</g>"
        for unit in shown
    )
    named = f" One word in {step} is named." * (step > 1)
    note = f"Rows attend to columns.{named}"
    svg_width, svg_height = ceil(left + side + MARGIN), ceil(top + side + MARGIN + TITLE_SIZE)
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{svg_width}" height="{svg_height}" '
        f'viewBox="0 0 {svg_width} {svg_height}" role="img" '
        'font-family="Helvetica, Arial, sans-serif" fill="currentColor">'
        f"<title>{escape_text(heading)}</title>"
        f'<text x="{MARGIN}" y="{MARGIN + TITLE_SIZE}" font-weight="bold" '
        f'font-size="{TITLE_SIZE}">{escape_text(heading)}</text>'
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{side:.1f}" height="{side:.1f}" fill="none" '
        f'stroke="currentColor" stroke-opacity=".3"/>{_draw_cells(view, left, top, cell)}'
        f'<g font-size="{size}">{words}</g>{_frame_marked(view, left, top, cell)}'
        f'<text x="{left:.1f}" y="{top + side + TITLE_SIZE:.1f}" font-size="10">{note}</text></svg>'
    )
    return Drawing(svg, svg_width, svg_height, heading)


def _name(name: str, left: float, top: float, cell: float, unit: int, size: float) -> str:
    """A word beside its row and above its column."""
    middle = cell * (unit + 0.5)
    text = escape_text(name)
    x, y = left + middle + 0.35 * size, top - 4
    return (
        f'<text x="{left - 4:.1f}" y="{top + middle + 0.35 * size:.1f}" text-anchor="end">{text}'
        f'</text><text transform="translate({x:.1f} {y:.1f}) rotate(-90)">{text}</text>'
    )


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
