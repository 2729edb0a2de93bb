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

    found = {"behaviours": behaviour_table(tables)}
    if "dependency-best" in tables:
        found["dependency-best"] = tables["dependency-best"]
    if "distance-layers" in tables:
        found["distance-layers"] = tables["distance-layers"]
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
    return f"{key}: {', '.join(parts)}"


def _print_readable(found: Mapping[str, "pd.DataFrame"], min_count: int) -> None:
    from headscope.report.dependency import across_treebanks, best_lines  # pandas: as above
    from headscope.report.distance import layer_lines
    from headscope.report.summary import summary_lines

    if "behaviours" in found:
        header = ("looks at", "heads", "strongest heads (layer-head, share, 95 % interval)")
        print_rows(header, summary_lines(found["behaviours"]))
    if "distance-layers" in found:
        print()
        print_rows(*layer_lines(found["distance-layers"]))
    if "dependency-best" not in found:
        return
    best = found["dependency-best"]
    if len(found) > 1:
        print()
    print_rows(*best_lines(best, min_count))
    n_rare = int((best["count"] < min_count).sum())
    if n_rare:
        print(f"({n_rare} relations with fewer than {min_count} words are in the tables alone)")
    if "treebank" in best:
        print()
        print_rows(
            ("caught by a head", "in (held-out accuracy)"), across_treebanks(best, min_count)
        )
