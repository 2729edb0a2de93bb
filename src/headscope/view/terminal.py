"""A run in the terminal: readable tables, or the same as CSV or JSON."""

import json
import textwrap
from collections.abc import Mapping, Sequence
from shutil import get_terminal_size
from typing import Any

import pandas as pd

from headscope.data.table import KIND, Tables, split_kinds, to_csv
from headscope.registry import load_presentations
from headscope.view.answer import Answer
from headscope.view.behaviour import behaviour_table
from headscope.view.numbers import ROUND_PERCENT
from headscope.view.presentation import PrintedTable
from headscope.view.table import Format, TextTable, from_frame, print_table

__all__ = [
    "describe_answers",
    "describe_counts",
    "describe_documents",
    "print_frame",
    "print_run",
    "summary_table",
]

BEHAVIOURS = "behaviours"
SHOWN_HEADS = 5
FEW_DOCUMENTS = 20
EXAMPLES = {"treebank": "sentences", "coref": "documents"}  # what the examples of a corpus are
PIPE_WIDTH = 100  # of sentences, where there is no terminal


def print_run(tables: Tables, format: Format, min_count: int) -> None:
    """The behaviours of heads, and what each analysis prints, as far as it was measured.

    As JSON one object of tables; as CSV, Markdown and LaTeX one block a table, under its name.
    """
    shown = [printed for one in load_presentations().values() for printed in one.printed]
    printed = {one.name: one for one in shown if one.name in tables}
    frames = {BEHAVIOURS: behaviour_table(tables)} | {name: tables[name] for name in printed}
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
    width = width or get_terminal_size((PIPE_WIDTH, 24)).columns
    wrapped = [
        textwrap.fill(
            answer.text.replace(" %", "\u00a0%"),  # a number stays with its unit
            width,
            initial_indent="- ",
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        for answer in answers
    ]
    return "\n".join(wrapped).replace("\u00a0", " ")


def describe_counts(
    key: str,
    counts: Mapping[str, Any],
    available: int | None = None,
    role: str = "",
    n_drawn: int | None = None,
) -> str:
    """What became of the examples of a pass, in a line.

    `available` is how many there were, `n_drawn` how many of them were to be used.
    """
    of_all = f" of {available:,}" if available else ""
    what = f"{counts['used']:,}{of_all} {EXAMPLES.get(role, 'examples')} used"
    if available and counts["used"] > (n_drawn or available):  # documents were cut
        n_read = f"{n_drawn:,} of " if n_drawn and n_drawn < available else ""
        what = f"{counts['used']:,} windows from {n_read}{available:,} documents used"
    parts = [f"{what} ({counts['tokens']:,} tokens)"]
    parts += [describe_documents(counts)] if "documents" in counts else []
    if counts["truncated"]:
        parts.append(f"{counts['truncated']} cut to the token limit")
    for reason, n in counts["skipped"].items():
        ids = counts["skipped_ids"][reason]
        shown = ", ".join(ids[:3]) + (", ..." if n > 3 else "")
        parts.append(f"{n} skipped: {reason} ({shown})")
    if counts["unaligned_words"]:
        parts.append(f"{counts['unaligned_words']} words without tokens")
    parts += [f"{what}: {n:,}" for what, n in counts["notes"].items()]
    return f"{key}: {', '.join(parts)}"


def describe_documents(counts: Mapping[str, Any]) -> str:
    """How many documents there are, and what that means for the intervals."""
    n, n_unknown = int(counts["documents"]), int(counts["without_document"])
    text = f"{n} document" + "s" * (n != 1)
    if n < 2:
        text += ": too few for intervals"
    elif n < FEW_DOCUMENTS:
        text += f": intervals are rough with fewer than {FEW_DOCUMENTS}"
    if n_unknown:
        text += f"; {n_unknown} examples have no document mark and count as one document each"
    return text


def _print_readable(frames: Tables, printed: Mapping[str, PrintedTable], min_count: int) -> None:
    """Each part that was measured, with an empty line between them."""
    parts = [summary_table(frames[BEHAVIOURS])] if BEHAVIOURS in frames else []
    for name, one in printed.items():
        if name in frames and one.read is not None:
            for kind, own in split_kinds({name: frames[name]}).items():
                read = one.read(own[name], min_count)
                parts += [table.with_column(KIND, kind) for table in read] if kind else read
    for place, part in enumerate(parts):
        print("\n" * (place > 0), end="")
        print_table(part)


def _describe(row: Any) -> str:
    return f"{row.layer}-{row.head} {ROUND_PERCENT.row(row, 'share')}"


def _as_records(frame: pd.DataFrame) -> Any:
    return json.loads(frame.to_json(orient="records", double_precision=15))
