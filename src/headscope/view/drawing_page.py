"""Attention over a long text: the text as one reads it, with arcs for the strongest weights."""

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from headscope.data.attention import head_name
from headscope.data.head_view import HeadView
from headscope.view.drawing import RED
from headscope.view.svg import (
    Drawing,
    compose,
    draw_title,
    escape_text,
    estimate_width,
    shorten,
    show_unit,
)

__all__ = ["LONG_TEXT", "STRONGEST", "draw_page"]

MARGIN, TITLE_SIZE = 14, 14
WIDTH = 900  # pixels, of a line of text
SIZE, LINE, SPACE = 13, 38, 5  # of the words, the height of a line, and between words
SMALL = 9  # of the names of words in other lines
LONG_TEXT = 100  # tokens or words: more are drawn as running text
STRONGEST = 60  # arcs

Pair = tuple[int, int]  # the word that attends, and the attended one


@dataclass(frozen=True)
class Word:
    """Where a word stands."""

    text: str
    x: float
    y: float
    width: float

    @property
    def middle(self) -> float:
        return self.x + self.width / 2


def draw_page(
    view: HeadView,
    strongest: int = STRONGEST,
    reds: frozenset[int] = frozenset(),
    title: str | None = None,
) -> Drawing:
    """One head over a long text; the arcs run from the word that attends to the attended one."""
    words = _place(view)
    heading = f"Head {head_name(view.layer, view.head)}" if title is None else title
    arcs = _find_strongest(view, strongest)
    height = ceil((words[-1].y if words else TITLE_SIZE) + LINE + 2 * MARGIN)
    width = WIDTH + 2 * MARGIN
    named = {unit for pair in arcs for unit in pair}
    written = "".join(
        f'<text x="{word.x:.1f}" y="{word.y:.1f}"'
        f"{_tint(unit, view, reds, named)}>{escape_text(word.text)}</text>"
        for unit, word in enumerate(words)
    )
    marked = set(view.marked)

    def is_red(pair: Pair) -> bool:
        return pair in marked or not reds.isdisjoint(pair)

    drawn = "".join(
        _draw_arc(words[start], words[end], float(view.weights[start, end]), is_red((start, end)))
        for start, end in arcs
    )
    note = (
        f"The {len(arcs)} strongest weights. A dot is at the attended word; an arrow names one "
        "in another line."
    )
    body = (
        f"{draw_title(heading, MARGIN, TITLE_SIZE)}"
        f'<g fill="none">{drawn}</g><g font-size="{SIZE}">{written}</g>'
        f"{_name_far(words, arcs, is_red)}"
        f'<text x="{MARGIN}" y="{height - MARGIN}" font-size="10" fill-opacity=".65">{note}</text>'
    )
    return compose(body, width, height, heading)


def _place(view: HeadView) -> list[Word]:
    """The words in lines, as in a book."""
    placed, x, y = [], float(MARGIN), float(MARGIN + 2 * TITLE_SIZE + LINE)
    for unit in view.units:
        text = show_unit(unit)
        width = SIZE * estimate_width(text)
        if x + width > MARGIN + WIDTH and x > MARGIN:
            x, y = float(MARGIN), y + LINE
        placed.append(Word(text, x, y, width))
        x += width + SPACE
    return placed


def _find_strongest(view: HeadView, strongest: int) -> list[Pair]:
    """The pairs with the largest weights, the weakest first; a word and itself aside."""
    weights = view.weights.copy()
    np.fill_diagonal(weights, 0)
    order = np.argsort(-weights, axis=None, kind="stable")[:strongest]
    pairs = [(int(place) // len(view.units), int(place) % len(view.units)) for place in order]
    return [pair for pair in reversed(pairs) if weights[pair] > 0]


def _tint(unit: int, view: HeadView, reds: Collection[int], named: Collection[int]) -> str:
    if unit in reds:
        return f' fill="{RED}"'
    return "" if unit in named else ' fill-opacity=".7"'


def _draw_arc(start: Word, end: Word, weight: float, is_red: bool) -> str:
    """A dot at the attended word, and an arc over the words between if they stand in one line."""
    colour = RED if is_red else "currentColor"
    opacity = f"{0.25 + 0.75 * min(weight, 1):.2f}"
    x1, x2, y = start.middle, end.middle, end.y - SIZE
    bend = min(18.0, 4 + abs(x2 - x1) / 12)
    arc = (
        f'<path d="M{x1:.1f} {y:.1f}Q{(x1 + x2) / 2:.1f} {y - bend:.1f} {x2:.1f} {y:.1f}" '
        f'stroke="{colour}" stroke-opacity="{opacity}" stroke-width="{0.6 + 1.2 * weight:.1f}"/>'
    )
    dot = f'<circle cx="{x2:.1f}" cy="{y:.1f}" r="1.8" fill="{colour}" fill-opacity="{opacity}"/>'
    return arc * (start.y == end.y) + dot


def _name_far(words: Sequence[Word], arcs: Sequence[Pair], is_red: Callable[[Pair], bool]) -> str:
    """Below a word the names of those in other lines that it attends to, the strongest first."""
    far: dict[int, list[Pair]] = defaultdict(list)
    for pair in reversed(arcs):
        if words[pair[0]].y != words[pair[1]].y:
            far[pair[0]].append(pair)
    names, ends = [], {0: (0.0, 0.0), 1: (0.0, 0.0)}  # in two rows: where the last name ends
    for start, pairs in sorted(far.items()):
        text = "→ " + ", ".join(shorten(words[end].text) for _, end in pairs)
        width = SMALL * estimate_width(text)
        x, y = min(words[start].x, WIDTH + MARGIN - width), words[start].y
        row = int(ends[0][0] == y and ends[0][1] > x)
        ends[row] = y, x + width
        colour = f' fill="{RED}"' if any(map(is_red, pairs)) else ""
        y += (row + 1.2) * SMALL
        names.append(f'<text x="{x:.1f}" y="{y:.1f}"{colour}>{escape_text(text)}</text>')
    return f'<g font-size="{SMALL}">{"".join(names)}</g>'
