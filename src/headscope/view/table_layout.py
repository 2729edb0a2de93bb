"""A table as lines of text: columns drop out where they do not fit, and no word is split."""

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len

if TYPE_CHECKING:
    from headscope.view.table import TextTable

__all__ = ["lay_out", "wrap_text"]

SPACE = 2  # between columns
LONG = 30  # a cell of so many characters is text, which may go on in the next line
NARROWEST = 24  # of a column of text, if it has words to fill it
BOLD, PLAIN = "\033[1m", "\033[0m"
UNIT = "\u00a0%"  # a number stays with its unit


def lay_out(table: "TextTable", width: int, is_bold: bool = False) -> list[str]:
    """The lines of the table, at most so wide unless a word is wider, and which columns it lacks.

    Columns with the highest `drops` leave first. What remains is wrapped between words.
    """
    drops = table.drops or (0,) * len(table.columns)
    kept = list(range(len(table.columns)))
    cells = [[cell.replace(" %", UNIT) for cell in row] for row in (table.columns, *table.rows)]
    while _needed(cells, kept) > width and any(drops[place] for place in kept):
        kept.remove(max(kept, key=lambda place: (drops[place], place)))
    widths = _share_out(cells, kept, width)
    lines = []
    for number, row in enumerate(cells):
        for line in _wrap_row([row[place] for place in kept], widths):
            line = line.rstrip().replace(UNIT, " %")
            lines.append(f"{BOLD}{line}{PLAIN}" if is_bold and number == 0 else line)
    notes = [table.note] * bool(table.note)
    if len(kept) < len(table.columns):
        absent = [table.columns[place] for place in range(len(drops)) if place not in kept]
        notes.append(
            f"Left out at {width} columns: {', '.join(absent)}. A wider terminal or --format csv "
            "shows all."
        )
    return [*lines, *(line for note in notes for line in wrap_text(note, width).split("\n"))]


def wrap_text(text: str, width: int, indent: str = "") -> str:
    """A paragraph in lines of this width, unless a word is wider; a number stays with its unit.

    >>> print(wrap_text("- Head 1-3 looks back (98 %).", 25, indent="  "))
    - Head 1-3 looks back
      (98 %).
    """
    lines = _wrap(text.replace(" %", UNIT), width, subsequent_indent=indent)
    return "\n".join(lines).replace(UNIT, " %")


def _wrap(text: str, width: int, subsequent_indent: str = "") -> list[str]:
    return textwrap.wrap(
        text,
        width,
        subsequent_indent=subsequent_indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _needed(cells: Sequence[Sequence[str]], kept: Sequence[int]) -> int:
    """The least width at which only text and headings are wrapped."""
    return sum(_least(cells, place) for place in kept) + SPACE * (len(kept) - 1)


def _least(cells: Sequence[Sequence[str]], place: int) -> int:
    heading, *rows = (row[place] for row in cells)
    longest = max(map(cell_len, rows), default=0)
    of_rows = longest if longest < LONG else max(NARROWEST, *map(_longest_word, rows))
    return max(1, of_rows, _longest_word(heading))


def _longest_word(text: str) -> int:
    return max(map(cell_len, text.split(" ")))


def _share_out(cells: Sequence[Sequence[str]], kept: Sequence[int], width: int) -> list[int]:
    """The least widths, and what is left over to the columns from the first that wants it."""
    widths = [_least(cells, place) for place in kept]
    spare = width - sum(widths) - SPACE * (len(kept) - 1)
    for number, place in enumerate(kept):
        wanted = max(cell_len(row[place]) for row in cells) - widths[number]
        more = max(0, min(spare, wanted))
        widths[number] += more
        spare -= more
    return widths


def _wrap_row(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    wrapped = [_wrap(cell, width) or [""] for cell, width in zip(row, widths, strict=True)]
    height = max(map(len, wrapped), default=0)
    return [
        (" " * SPACE).join(
            _pad(lines[number] if number < len(lines) else "", width)
            for lines, width in zip(wrapped, widths, strict=True)
        )
        for number in range(height)
    ]


def _pad(text: str, width: int) -> str:
    return text + " " * (width - cell_len(text))
