"""One model of a table that people read, for terminal, page, Markdown and LaTeX.

In a terminal columns drop out where they do not fit, and no word is split.
"""

import csv
import html
import json
import os
import sys
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from io import StringIO
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

from rich.cells import cell_len

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "CORPUS_LABELS", "FIRM", "Column", "Format", "TextTable", "Where", "build_table", "choose_rows",
    "corpus_columns", "from_frame", "lay_out", "name_corpus", "print_table", "render", "rows_of",
    "split_corpora", "terminal_width", "wrap_text",
]  # fmt: skip

Where: TypeAlias = Mapping[str, str | Collection[str]]  # rows, by the values of their labels
CORPUS_LABELS = ("treebank", "corpus", "window", "cut")  # columns that tell corpora apart
PIPE_WIDTH = 200  # of a table where there is no terminal
SPACE = 2  # between columns
LONG = 30  # a cell of so many characters is text, which may go on in the next line
NARROWEST = 24  # of a column of text, if it has words to fill it
BOLD, PLAIN = "\033[1m", "\033[0m"
FIRM = "\u00a0"  # a space at which no line ends: a number stays with its unit
KEPT_COLUMNS = 3  # of a table of a run, in any terminal
MARKDOWN = str.maketrans({"|": "\\|", "<": "\\<"})  # a column, a tag
LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "†": r"\dag{}",
        "‡": r"\ddag{}",
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
    HTML = "html"


@dataclass(frozen=True)
class TextTable:
    """A table in words and written numbers, not escaped."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""
    note: str = ""  # how to read it, or what it leaves out
    drops: tuple[int, ...] = ()  # by column: in a narrow terminal the highest go first, 0 never
    bold: frozenset[tuple[int, int]] = frozenset()  # cells (row, column) to stress in a paper
    n_first: int = 0  # so many rows are shown first, the others on demand; 0: all

    def for_paper(self) -> "TextTable":
        """The table without what may be dropped: its first rows, and the columns never dropped."""
        drops = self.drops or (0,) * len(self.columns)
        kept = [column for column, drop in enumerate(drops) if not drop]
        rows = self.rows[: self.n_first or None]
        return replace(
            self,
            columns=tuple(self.columns[column] for column in kept),
            rows=tuple(tuple(row[column] for column in kept) for row in rows),
            drops=(),
            bold=frozenset((r, kept.index(c)) for r, c in self.bold if c in kept),
            n_first=0,
        )

    def with_column(self, title: str, cell: str) -> "TextTable":
        """The table with a first column that says the same in every row."""
        rows = tuple((cell, *row) for row in self.rows)
        drops = (0, *self.drops) if self.drops else ()
        bold = frozenset((number, column + 1) for number, column in self.bold)
        return replace(self, columns=(title, *self.columns), rows=rows, drops=drops, bold=bold)


@dataclass(frozen=True)
class Column:
    """A column, and how a row (a mapping) fills its cell."""

    title: str
    cell: Callable[[Mapping[Any, Any]], str]
    drop: int = 0  # in a narrow terminal the highest go first, 0 never
    is_bold: Callable[[Mapping[Any, Any]], bool] = lambda row: False  # in a paper


def build_table(
    rows: Iterable[Mapping[Any, Any]], columns: Iterable[Column], title: str = "", note: str = ""
) -> TextTable:
    """The table that these columns make of the rows."""
    columns, rows = tuple(columns), list(rows)
    cells = tuple(tuple(column.cell(row) for column in columns) for row in rows)
    drops = tuple(column.drop for column in columns)
    bold = frozenset(
        (number, place)
        for number, row in enumerate(rows)
        for place, column in enumerate(columns)
        if column.is_bold(row)
    )
    return TextTable(tuple(column.title for column in columns), cells, title, note, drops, bold)


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
    width = terminal_width(sys.stdout, PIPE_WIDTH)
    if table.note and not table.rows:  # a heading over nothing says nothing
        print(wrap_text(table.note, width))
        return
    print("\n".join(lay_out(table, width, is_bold=sys.stdout.isatty())))


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
    if format is Format.HTML:
        return _as_html(table)
    lines = _mark(table, lambda cell: " ".join(cell.translate(MARKDOWN).split()), "**{}**")
    written = [f"| {' | '.join(line)} |" for line in lines]
    caption = [f"\n{' '.join(filter(None, (table.title + '.', table.note)))}"] * bool(table.title)
    parts = [written[0], "|" + "---|" * len(table.columns), *written[1:], *caption]
    return "\n".join(parts) + "\n"


def _mark(table: TextTable, escape: Callable[[str], str], bold: str) -> list[list[str]]:
    """The cells of the heading and of all rows, escaped, with bold ones marked."""
    lines = [[escape(cell) for cell in line] for line in (table.columns, *table.rows)]
    for row, column in table.bold:
        lines[row + 1][column] = bold.format(lines[row + 1][column])
    return lines


def _as_csv(table: TextTable) -> str:
    text = StringIO()
    csv.writer(text, lineterminator="\n").writerows([table.columns, *table.rows])
    return text.getvalue()


def _as_latex(table: TextTable) -> str:
    """For the package booktabs; with a title, as a table with a caption."""
    lines = _mark(table, lambda cell: cell.translate(LATEX), r"\textbf{{{}}}")
    header, *rows = [f"{' & '.join(line)} \\\\" for line in lines]
    parts = [
        f"\\begin{{tabular}}{{{'l' * len(table.columns)}}}",
        *(r"\toprule", header, r"\midrule", *rows, r"\bottomrule"),
        r"\end{tabular}",
    ]
    if table.title:
        caption = f"{table.title}. {table.note}".strip().translate(LATEX)
        head = [r"\begin{table}", r"\centering", r"\small"]
        parts = [*head, *parts, f"\\caption{{{caption}}}", r"\end{table}"]
    return "\n".join(parts) + "\n"


def _as_html(table: TextTable) -> str:
    header, *rows = _mark(table, html.escape, "<strong>{}</strong>")
    caption = " ".join(filter(None, (f"{table.title}." * bool(table.title), table.note)))
    lines = ["<table>", *[f"<caption>{html.escape(caption)}</caption>"] * bool(caption)]
    for tag, part, of_part in (("th", "thead", [header]), ("td", "tbody", rows)):
        cells = ["".join(f"<{tag}>{cell}</{tag}>" for cell in line) for line in of_part]
        lines += [f"<{part}>", *(f"<tr>{line}</tr>" for line in cells), f"</{part}>"]
    return "\n".join([*lines, "</table>"]) + "\n"


def terminal_width(stream: TextIO, otherwise: int) -> int:
    """As COLUMNS or the terminal of the stream say; `otherwise` for a pipe or a file.

    Some terminals, such as those of containers and editors, say that they are 0 columns wide.
    """
    if "COLUMNS" in os.environ:
        return get_terminal_size().columns
    try:
        return os.get_terminal_size(stream.fileno()).columns or otherwise
    except (OSError, ValueError):
        return otherwise


def lay_out(table: TextTable, width: int, is_bold: bool = False) -> list[str]:
    """The lines of the table, at most so wide unless a word is wider, and which columns it lacks.

    Columns with the highest `drops` leave first. What remains is wrapped between words.
    """
    drops = table.drops or (0,) * len(table.columns)
    kept = list(range(len(table.columns)))
    cells = [
        [cell.replace(" %", f"{FIRM}%") for cell in row] for row in (table.columns, *table.rows)
    ]
    while _needed(cells, kept) > width and any(drops[place] for place in kept):
        kept.remove(max(kept, key=lambda place: (drops[place], place)))
    widths = _share_out(cells, kept, width)
    lines = []
    for number, row in enumerate(cells):
        for line in _wrap_row([row[place] for place in kept], widths):
            line = line.rstrip().replace(FIRM, " ")
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
    lines = _wrap(text.replace(" %", f"{FIRM}%"), width, subsequent_indent=indent)
    return "\n".join(lines).replace(FIRM, " ")


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
    """The least widths, and what is left over to the columns with the longest text."""
    widths = [_least(cells, place) for place in kept]
    spare = width - sum(widths) - SPACE * (len(kept) - 1)
    wanted = [max(cell_len(row[place]) for row in cells) for place in kept]
    for number in sorted(range(len(kept)), key=lambda number: -wanted[number]):
        more = max(0, min(spare, wanted[number] - widths[number]))
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


# Rows of tables, by their labels; of several corpora and windows.


def choose_rows(table: "pd.DataFrame", where: Where) -> "pd.DataFrame":
    """The rows with these labels; of each label one value or several."""
    for label, values in where.items():
        table = table[table[label].isin([values] if isinstance(values, str) else list(values))]
    return table


def rows_of(table: "pd.DataFrame") -> Iterator[Any]:
    """The rows, each with its columns as attributes."""
    return iter(table.itertuples(index=False))


def name_corpus(row: Any) -> str:
    """In which corpus or window, where there are several."""
    names = [str(getattr(row, label)) for label in CORPUS_LABELS[:2] if hasattr(row, label)]
    names += [f"{row.window} tokens"] if hasattr(row, "window") else []
    names += ["truncated documents"] if getattr(row, "cut", "") == "truncate" else []
    return f" in {', '.join(names)}" if names else ""


def split_corpora(best: "pd.DataFrame") -> "list[tuple[str, pd.DataFrame]]":
    """The rows of each corpus and window, with its name; "" where there is but one."""
    if best.empty:
        return []
    labels = [label for label in CORPUS_LABELS if label in best]
    parts = [part for _, part in best.groupby(labels, sort=False)] if labels else [best]
    return [(name_corpus(part.iloc[0]).removeprefix(" in "), part) for part in parts]


def corpus_columns(best: "pd.DataFrame") -> list[Column]:
    """The columns that tell the rows of several corpora and windows apart."""

    def column(label: str) -> Column:
        return Column(label, lambda row: str(row[label]))

    return [column(label) for label in CORPUS_LABELS if label in best]
