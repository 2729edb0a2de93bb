"""One model of a table that people read, for terminal, page, Markdown and LaTeX."""

import csv
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from io import StringIO
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

from headscope.view.table_layout import lay_out

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Column", "Format", "TextTable", "build_table", "from_frame", "print_table", "render"]

PIPE_WIDTH = 200
KEPT_COLUMNS = 3  # of a table of a run, in any terminal
MARKDOWN = str.maketrans({"|": "\\|", "<": "\\<"})  # a column, a tag
LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    }
)


class Format(StrEnum):
    """How data is printed."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    MARKDOWN = "markdown"
    LATEX = "latex"


@dataclass(frozen=True)
class TextTable:
    """A table in words and written numbers, not escaped."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""
    note: str = ""  # how to read it, or what it leaves out
    drops: tuple[int, ...] = ()  # by column: in a narrow terminal the highest go first, 0 never

    def with_column(self, title: str, cell: str) -> "TextTable":
        """The table with a first column that says the same in every row."""
        rows = tuple((cell, *row) for row in self.rows)
        drops = (0, *self.drops) if self.drops else ()
        return replace(self, columns=(title, *self.columns), rows=rows, drops=drops)


@dataclass(frozen=True)
class Column:
    """A column, and how a row (a mapping) fills its cell."""

    title: str
    cell: Callable[[Mapping[Any, Any]], str]
    drop: int = 0  # in a narrow terminal the highest go first, 0 never


def build_table(
    rows: Iterable[Mapping[Any, Any]], columns: Iterable[Column], title: str = "", note: str = ""
) -> TextTable:
    """The table that these columns make of the rows."""
    columns = tuple(columns)
    cells = tuple(tuple(column.cell(row) for column in columns) for row in rows)
    drops = tuple(column.drop for column in columns)
    return TextTable(tuple(column.title for column in columns), cells, title, note, drops)


def from_frame(frame: "pd.DataFrame") -> TextTable:
    """A table of a run, with numbers of four digits and a dash for none."""

    def cell(value: object) -> str:
        return f"{value:.4g}" if isinstance(value, float) else str(value)

    rows = frame.astype(object).where(frame.notna(), "-").itertuples(index=False)
    drops = tuple(max(0, place - KEPT_COLUMNS + 1) for place in range(len(frame.columns)))
    cells = tuple(tuple(map(cell, row)) for row in rows)
    return TextTable(tuple(frame.columns), cells, drops=drops)


def print_table(table: TextTable, format: Format = Format.TABLE) -> None:
    """Print a table on stdout."""
    if format is not Format.TABLE:
        print(render(table, format), end="")
        return
    print("\n".join(lay_out(table, _terminal_width(), is_bold=sys.stdout.isatty())))


def render(table: TextTable, format: Format) -> str:
    """The table as text that another program reads.

    >>> print(render(TextTable(("a", "b"), (("1", "x|y"),)), Format.MARKDOWN), end="")
    | a | b |
    |---|---|
    | 1 | x\\|y |
    """
    if format is Format.JSON:
        records = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
        return json.dumps(records, ensure_ascii=False) + "\n"
    if format is Format.CSV:
        return _as_csv(table)
    if format is Format.LATEX:
        return _as_latex(table)
    lines = [table.columns, *table.rows]
    escaped = [[" ".join(cell.translate(MARKDOWN).split()) for cell in line] for line in lines]
    written = [f"| {' | '.join(line)} |" for line in escaped]
    return "\n".join([written[0], "|" + "---|" * len(table.columns), *written[1:]]) + "\n"


def _as_csv(table: TextTable) -> str:
    text = StringIO()
    csv.writer(text, lineterminator="\n").writerows([table.columns, *table.rows])
    return text.getvalue()


def _as_latex(table: TextTable) -> str:
    """For the package booktabs."""
    header, *rows = [
        " & ".join(cell.translate(LATEX) for cell in line) + r" \\"
        for line in [table.columns, *table.rows]
    ]
    begin = f"\\begin{{tabular}}{{{'l' * len(table.columns)}}}"
    lines = [begin, r"\toprule", header, r"\midrule", *rows, r"\bottomrule", r"\end{tabular}"]
    return "\n".join(lines) + "\n"


def _terminal_width() -> int:
    """As the terminal or COLUMNS say; a pipe has no width, so nothing need be left out."""
    is_pipe = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return PIPE_WIDTH if is_pipe else get_terminal_size().columns
