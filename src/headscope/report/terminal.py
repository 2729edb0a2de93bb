"""A run in the terminal: readable tables, or the same as CSV or JSON."""

import csv
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["describe_counts", "print_rows", "print_run"]

Rows = Sequence[tuple[str, ...]]

PIPE_WIDTH = 200
LOOKS = ("looks at", "heads", "strongest heads (layer-head, share, 95 % interval)")
PRINTED = (
    "gradient",
    "ablation",
    "distance-layers",
    "dependency-best",
    "coreference-best",
    "gap-best",
    "probes",
    "probe-relations",
    "probe-curve",
    "probe-weights",
)


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
    found |= {name: tables[name] for name in PRINTED if name in tables}
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
    from headscope.report.matter import ablation_lines, gradient_lines
    from headscope.report.probes import probe_lines, relation_lines
    from headscope.report.summary import summary_lines

    lines_of: dict[str, Callable[[pd.DataFrame], tuple[tuple[str, ...], Rows]]] = {
        "behaviours": lambda table: (LOOKS, summary_lines(table)),
        "gradient": gradient_lines,
        "ablation": ablation_lines,
        "distance-layers": layer_lines,
        "dependency-best": lambda table: best_lines(table, min_count),
        "coreference-best": antecedent_lines,
        "gap-best": gap_lines,
        "probes": probe_lines,
        "probe-relations": lambda table: relation_lines(table, min_count),
    }
    for place, name in enumerate(name for name in lines_of if name in found):
        print("\n" * (place > 0), end="")
        print_rows(*lines_of[name](found[name]))
        if name == "dependency-best":
            _print_about_relations(found[name], min_count)


def _print_about_relations(best: "pd.DataFrame", min_count: int) -> None:
    """What is not shown, and several treebanks beside each other."""
    from headscope.report.dependency import across_treebanks  # pandas: as above

    n_rare = int((best["count"] < min_count).sum())
    if n_rare:
        print(f"({n_rare} relations with fewer than {min_count} words are in the tables alone)")
    if "treebank" in best:
        print()
        header = ("caught by a head", "in (held-out accuracy)")
        print_rows(header, across_treebanks(best, min_count))
