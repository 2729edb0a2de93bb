"""One model of a table that people read, for terminal, page, Markdown and LaTeX."""

import csv
import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from io import StringIO
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Column", "Format", "TextTable", "build_table", "from_frame", "print_table", "render"]

PIPE_WIDTH = 200
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

    def with_column(self, title: str, cell: str) -> "TextTable":
        """The table with a first column that says the same in every row."""
        rows = tuple((cell, *row) for row in self.rows)
        return replace(self, columns=(title, *self.columns), rows=rows)


@dataclass(frozen=True)
class Column:
    """A column, and how a row (a mapping) fills its cell."""

    title: str
    cell: Callable[[Mapping[Any, Any]], str]


def build_table(
    rows: Iterable[Mapping[Any, Any]], columns: Iterable[Column], title: str = "", note: str = ""
) -> TextTable:
    """The table that these columns make of the rows."""
    columns = tuple(columns)
    cells = tuple(tuple(column.cell(row) for column in columns) for row in rows)
    return TextTable(tuple(column.title for column in columns), cells, title, note)


def from_frame(frame: "pd.DataFrame") -> TextTable:
    """A table of a run, with numbers of four digits and a dash for none."""

    def cell(value: object) -> str:
        return f"{value:.4g}" if isinstance(value, float) else str(value)

    rows = frame.astype(object).where(frame.notna(), "-").itertuples(index=False)
    return TextTable(tuple(frame.columns), tuple(tuple(map(cell, row)) for row in rows))


def print_table(table: TextTable, format: Format = Format.TABLE) -> None:
    """Print a table on stdout."""
    if format is not Format.TABLE:
        print(render(table, format), end="")
        return
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for name in table.columns:
        shown.add_column(name, overflow="fold")  # nothing is cut off, however narrow
    for row in table.rows:
        shown.add_row(*map(escape, row))
    _console().print(shown)
    if table.note:
        print(table.note)


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


def _console() -> Console:
    """As wide as the terminal or COLUMNS say; a pipe has no width, so lines need not fold."""
    console = Console()
    is_pipe = not console.is_terminal and "COLUMNS" not in os.environ
    return Console(width=PIPE_WIDTH) if is_pipe else console
