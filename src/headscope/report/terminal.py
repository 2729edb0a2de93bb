"""A run in the terminal: readable tables, or the same as CSV or JSON."""

import csv
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["describe_counts", "print_rows", "print_run"]

Rows = Sequence[tuple[str, ...]]

PIPE_WIDTH = 200


def print_rows(header: tuple[str, ...], rows: Rows, format: str = "table") -> None:
    """Print one table on stdout, as a table, CSV or JSON."""
    if format == "json":
        print(json.dumps([dict(zip(header, row, strict=True)) for row in rows]))
    elif format == "csv":
        csv.writer(sys.stdout, lineterminator="\n").writerows([header, *rows])
    else:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for name in header:
            table.add_column(name, overflow="fold")  # nothing is cut off, however narrow
        for row in rows:
            table.add_row(*map(escape, row))
        _console().print(table)


def _console() -> Console:
    """As wide as the terminal or COLUMNS say; a pipe has no width, so lines need not fold."""
    console = Console()
    is_pipe = not console.is_terminal and "COLUMNS" not in os.environ
    return Console(width=PIPE_WIDTH) if is_pipe else console


def print_run(tables: Mapping[str, "pd.DataFrame"], format: str, min_count: int) -> None:
    """The heads' behaviours and the best head of each relation, as far as they were measured.

    As JSON one object of tables; as CSV one block a table, under a line `# name`.
    """
    from headscope.report.summary import behaviour_table  # pandas: `list` does without

    shown = ("distance-layers", "dependency-best", "coreference-best", "gap-best")
    found = {"behaviours": behaviour_table(tables)}
    found |= {name: tables[name] for name in shown if name in tables}
    found = {name: table for name, table in found.items() if len(table)}
    if format == "json":
        records = {name: json.loads(t.to_json(orient="records")) for name, t in found.items()}
        print(json.dumps(records))
    elif format == "csv":
        for name, table in found.items():
            print(f"# {name}\n{table.to_csv(index=False)}")
    else:
        _print_readable(found, min_count)


def describe_counts(key: str, counts: Mapping[str, Any]) -> str:
    """What became of the examples of a pass, in a line."""
    parts = [f"{counts['used']} examples used ({counts['tokens']} tokens)"]
    if counts["truncated"]:
        parts.append(f"{counts['truncated']} cut to the token limit")
    for reason, n in counts["skipped"].items():
        ids = counts["skipped_ids"][reason]
        shown = ", ".join(ids[:3]) + (", ..." if n > 3 else "")
        parts.append(f"{n} skipped: {reason} ({shown})")
    if counts["unaligned_words"]:
        parts.append(f"{counts['unaligned_words']} words without tokens")
    parts += [f"{n} {what}" for what, n in counts["notes"].items()]
    return f"{key}: {', '.join(parts)}"


def _print_readable(found: Mapping[str, "pd.DataFrame"], min_count: int) -> None:
    """Each part that was measured, with an empty line between them."""
    from headscope.report.coreference import antecedent_lines, gap_lines  # pandas: as above
    from headscope.report.dependency import best_lines
    from headscope.report.distance import layer_lines
    from headscope.report.summary import summary_lines

    parts: list[tuple[tuple[str, ...], Rows]] = []
    notes: dict[int, str] = {}
    if "behaviours" in found:
        looks = ("looks at", "heads", "strongest heads (layer-head, share, 95 % interval)")
        parts.append((looks, summary_lines(found["behaviours"])))
    if "distance-layers" in found:
        parts.append(layer_lines(found["distance-layers"]))
    if "dependency-best" in found:
        best = found["dependency-best"]
        parts.append(best_lines(best, min_count))
        notes[len(parts)] = _count_rare(best, min_count)
        if "treebank" in best:
            parts.append(_compare_treebanks(best, min_count))
    if "coreference-best" in found:
        parts.append(antecedent_lines(found["coreference-best"]))
    if "gap-best" in found:
        parts.append(gap_lines(found["gap-best"]))
    for number, (header, rows) in enumerate(parts, start=1):
        print("\n" * (number > 1), end="")
        print_rows(header, rows)
        print(notes.get(number, ""), end="")


def _count_rare(best: "pd.DataFrame", min_count: int) -> str:
    n_rare = int((best["count"] < min_count).sum())
    told = f"({n_rare} relations with fewer than {min_count} words are in the tables alone)\n"
    return told if n_rare else ""


def _compare_treebanks(best: "pd.DataFrame", min_count: int) -> tuple[tuple[str, ...], Rows]:
    from headscope.report.dependency import across_treebanks  # pandas: as above

    header = ("caught by a head", "in (held-out accuracy)")
    return header, across_treebanks(best, min_count)
