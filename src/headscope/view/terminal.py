"""A run in the terminal: readable tables, or the same as CSV or JSON."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from headscope.contracts import CorpusRole
from headscope.data.table import KIND, Tables, split_kinds, to_csv
from headscope.view.behaviour import behaviour_table
from headscope.view.numbers import ROUND_PERCENT
from headscope.view.presentation import list_specs
from headscope.view.specs import Answer, PrintedTable
from headscope.view.table import (
    FIRM,
    Format,
    TextTable,
    from_frame,
    print_table,
    terminal_width,
    wrap_text,
)

__all__ = [
    "describe_answers",
    "describe_counts",
    "print_frame",
    "print_run",
    "summary_table",
    "warn_of_few_documents",
]

BEHAVIOURS = "behaviours"
SHOWN_HEADS = 5
FEW_DOCUMENTS = 20
PIPE_WIDTH = 100  # of sentences, where there is no terminal


def print_run(tables: Tables, format: Format, min_count: int) -> None:
    """The behaviours of heads, and what each analysis prints, as far as it was measured.

    As JSON one object of tables; as CSV, Markdown and LaTeX one block a table, under its name.
    """
    printed = {spec.name: spec for spec in list_specs(PrintedTable) if spec.name in tables}
    frames = {BEHAVIOURS: behaviour_table(tables)} | {
        name: tables[name]
        for name, spec in printed.items()
        if spec.read is None or spec.read(tables[name], min_count)
    }
    frames = {name: frame for name, frame in frames.items() if len(frame)}
    if format is Format.JSON:
        print(json.dumps({name: _as_records(frame) for name, frame in frames.items()}))
    elif format is Format.TABLE:
        _print_readable(frames, printed, min_count)
    else:
        comment = {Format.CSV: "#", Format.MARKDOWN: "##", Format.LATEX: "%"}[format]
        for name, frame in frames.items():
            print(f"{comment} {name}")
            print_frame(frame, format)
            print()


def print_frame(frame: pd.DataFrame, format: Format) -> None:
    """A table of a run as it is; for the eye with fewer digits."""
    if format is Format.JSON:
        print(json.dumps(_as_records(frame)))
    elif format is Format.CSV:
        print(to_csv(frame), end="")
    else:
        print_table(from_frame(frame), format)


def summary_table(behaviours: pd.DataFrame) -> TextTable:
    """For each behaviour: its name, how many heads show it, and the strongest ones."""
    columns = ("looks at", "heads", "strongest heads (layer-head, share, 95 % interval)")
    labels = [label for label in (KIND, "behaviour") if label in behaviours]
    rows: list[tuple[str, ...]] = []
    for name, heads in behaviours.groupby(labels, sort=False):
        chosen = heads[heads["holds"]]
        shown = [_describe(row) for row in chosen.head(SHOWN_HEADS).itertuples()]
        shown += ["..."] * (len(chosen) > SHOWN_HEADS)
        if not shown:
            shown = [f"none; highest {_describe(next(heads.itertuples()))}"]
        count = f"{len(chosen)} of {len(heads)} (> {heads['threshold'].iloc[0]:.0%})"
        rows.append((*map(str, name), count, ", ".join(shown)))
    return TextTable((*labels[:-1], *columns), tuple(rows))


def describe_answers(answers: Sequence[Answer], width: int | None = None) -> str:
    """The sentences, one a line; long ones go on under themselves, and no word is split."""
    width = width or terminal_width(sys.stderr, PIPE_WIDTH)
    return "\n".join(wrap_text(f"- {answer.text}", width, "  ") for answer in answers)


def describe_counts(counts: Mapping[str, Any], read: Mapping[str, Any]) -> str:
    """What became of the examples of a pass; `read` is what the manifest says of the pass."""
    available, n_drawn = read.get("available"), read.get("examples")
    of_all = f" of {available:,}" if available else ""
    unit = CorpusRole(read.get("role", CorpusRole.TEXT)).unit
    what = f"{counts['used']:,}{of_all} {unit} used"
    if available and counts["used"] > (n_drawn or available):  # documents were cut
        n_read = f"{n_drawn:,} of " if n_drawn and n_drawn < available else ""
        what = f"{counts['used']:,} windows from {n_read}{available:,} documents used"
    parts = [f"{what} ({counts['tokens']:,} tokens)"]
    if "documents" in counts and " documents " not in what:
        known_by = f": {read['documents']}" if read.get("documents") else ""
        parts.append(_count(counts["documents"], "document") + known_by)
    if counts["truncated"]:
        parts.append(f"{counts['truncated']:,} cut to the token limit")
    for reason, n in counts["skipped"].items():
        ids = counts["skipped_ids"][reason]
        shown = ", ".join(ids[:3]) + (", ..." if n > 3 else "")
        parts.append(f"{n:,} skipped: {reason} ({shown})")
    if counts["unaligned_words"]:
        parts.append(f"{_count(counts['unaligned_words'], 'word')} without tokens")
    parts += [f"{what}: {n:,}" for what, n in counts["notes"].items()]
    return "; ".join(parts)


def warn_of_few_documents(manifest: Mapping[str, Any]) -> list[str]:
    """What the number of documents means for intervals: a line for all passes it concerns."""
    counts = {
        key: count
        for key, count in manifest.get("counts", {}).items()
        if "documents" in count and not manifest.get("passes", {}).get(key, {}).get("repeats")
    }
    single = [key for key, count in counts.items() if count["documents"] < 2]
    together = [
        key for key, count in counts.items() if count.get("buckets") == 1 and key not in single
    ]
    few = [key for key, count in counts.items() if 2 <= count["documents"] < FEW_DOCUMENTS]
    unmarked = [key for key, count in counts.items() if count["without_document"]]
    notes = {
        "There are no intervals: they need two documents or more": single,
        "There are no intervals: all documents fell into one bucket; add documents": together,
        f"Intervals are rough with fewer than {FEW_DOCUMENTS} documents": few,
        "Some examples have no document mark and count as one document each": unmarked,
    }
    return [f"{note} ({', '.join(keys)})." for note, keys in notes.items() if keys]


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'s' * (n != 1)}"


def _print_readable(frames: Tables, printed: Mapping[str, PrintedTable], min_count: int) -> None:
    """Each part that was measured, with an empty line between them."""
    parts = [summary_table(frames[BEHAVIOURS])] if BEHAVIOURS in frames else []
    for name, spec in printed.items():
        if name in frames and spec.read is not None:
            for kind, part_tables in split_kinds({name: frames[name]}).items():
                read = spec.read(part_tables[name], min_count)
                parts += [table.with_column(KIND, kind) for table in read] if kind else read
    for number, part in enumerate(parts):
        print("\n" * (number > 0), end="")
        print_table(part)


def _describe(row: Any) -> str:
    return f"{row.layer}-{row.head} {ROUND_PERCENT.row(row, 'share')}".replace(" ", FIRM)


def _as_records(frame: pd.DataFrame) -> Any:
    return json.loads(frame.to_json(orient="records", double_precision=15))
