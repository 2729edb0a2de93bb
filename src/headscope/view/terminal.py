"""A run in the terminal or a notebook: tables and sentences; what became of its examples."""

import json
import sys
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import pandas as pd

from headscope.contracts import CorpusRole
from headscope.data.table import KIND, Tables, split_kinds, to_csv
from headscope.errors import say_count
from headscope.view.behaviour import behaviour_table
from headscope.view.numbers import ROUND_PERCENT, SHARE
from headscope.view.presentation import list_specs
from headscope.view.specs import Figure, PrintedTable
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
    "describe_answers", "describe_counts", "describe_run", "describe_tokenization",
    "doubt_languages", "print_frame", "print_run", "summary_table", "warn_of_few_documents",
]  # fmt: skip

BEHAVIOURS = "behaviours"
SHOWN_HEADS = 5
FEW_DOCUMENTS = 20
PIPE_WIDTH = 100  # of sentences, where there is no terminal
# Measured on one text in 16 languages. A multilingual tokenizer has at most 3.9 % unknown pieces,
# and where it needs 3 pieces a word at most 41 % of these are single characters. English ones on
# other scripts have 5 to 100 % unknown pieces, or over 3 pieces a word and 72 % or more single.
MOST_UNKNOWN = 0.05
MANY_PIECES, MANY_SINGLE = 3, 0.5
LEAST_WORDS = 20  # fewer words do not tell


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
        parts = [summary_table(frames[BEHAVIOURS])] if BEHAVIOURS in frames else []
        for name, spec in printed.items():
            if name in frames and spec.read is not None:
                for kind, part_tables in split_kinds({name: frames[name]}).items():
                    read = spec.read(part_tables[name], min_count)
                    parts += [table.with_column(KIND, kind) for table in read] if kind else read
        for number, part in enumerate(parts):
            print("\n" * (number > 0), end="")
            print_table(part)
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

    def describe(row: Any) -> str:
        return f"{row.layer}-{row.head} {ROUND_PERCENT.row(row, 'share')}".replace(" ", FIRM)

    rows: list[tuple[str, ...]] = []
    for name, heads in behaviours.groupby(labels, sort=False):
        chosen = heads[heads["holds"]]
        shown = [describe(row) for row in chosen.head(SHOWN_HEADS).itertuples()]
        shown += ["..."] * (len(chosen) > SHOWN_HEADS)
        if not shown:
            shown = [f"none; highest {describe(next(heads.itertuples()))}"]
        count = f"{len(chosen)} of {len(heads)} (> {heads['threshold'].iloc[0]:.0%})"
        rows.append((*map(str, name), count, ", ".join(shown)))
    return TextTable((*labels[:-1], *columns), tuple(rows))


def describe_run(tables: Tables, manifest: Mapping[str, Any]) -> str:
    """The run in a few lines of HTML, for a notebook; names from files and models are escaped."""
    passes = manifest.get("passes", {})
    used = ", ".join(
        f"{name}: {counts['used']:,} examples"
        for name, counts in manifest.get("counts", {}).items()
        if not passes.get(name, {}).get("repeats")
    )
    parts = [f"<p><strong>{escape(str(manifest['model']['name']))}</strong> ({escape(used)})</p>"]
    behaviours = behaviour_table(tables)
    if len(behaviours):
        table = summary_table(behaviours)
        head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in table.columns)
        rows = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in table.rows)
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")
    figures = [figure.name for figure in list_specs(Figure) if not figure.missing(tables)]
    for name, kept in {"tables": tables, "figures": figures}.items():
        parts.append(f"<p>run.{name}: {escape(', '.join(kept))}</p>")
    parts.append("<p>headscope.open_explorer(run): all heads on any text</p>")
    return "".join(parts)


def describe_answers(answers: Sequence[str], width: int | None = None) -> str:
    """The sentences, one a line; long ones go on under themselves, and no word is split."""
    width = width or terminal_width(sys.stderr, PIPE_WIDTH)
    return "\n".join(wrap_text(f"- {answer}", width, "  ") for answer in answers)


def describe_counts(counts: Mapping[str, Any], read: Mapping[str, Any]) -> str:
    """What became of the examples of a pass; `read` is what the manifest says of the pass."""
    available, n_drawn = read.get("available"), read.get("examples")
    of_all = f" of {available:,}" if available else ""
    unit = CorpusRole(read.get("role", CorpusRole.TEXT)).unit
    what = f"{counts['used']:,}{of_all} {unit} used"
    if available and counts["used"] > (n_drawn or available):  # documents were cut
        n_read = f"{n_drawn:,} of " if n_drawn and n_drawn < available else ""
        what = f"{counts['used']:,} windows from {n_read}{available:,} {unit} used"
    parts = [f"{what} ({counts['tokens']:,} tokens)"]
    if "documents" in counts and " documents " not in what:
        known_by = f": {read['documents']}" if read.get("documents") else ""
        parts.append(say_count(counts["documents"], "document") + known_by)
    if counts["truncated"]:
        parts.append(f"{counts['truncated']:,} cut to the token limit{_say_unread(counts)}")
    for reason, n in counts["skipped"].items():
        ids = counts["skipped_ids"][reason]
        shown = ", ".join(ids[:3]) + (", ..." if n > 3 else "")
        parts.append(f"{n:,} skipped: {reason} ({shown})")
    if counts["unaligned_words"]:
        parts.append(f"{say_count(counts['unaligned_words'], 'word')} without tokens")
    parts += [f"{what}: {n:,}" for what, n in counts["notes"].items()]
    return "; ".join(parts)


def _say_unread(counts: Mapping[str, Any]) -> str:
    """Which share of the text was not read, where some was not."""
    unread = counts.get("unread", 0) / max(counts.get("characters", 0), 1)
    return f", so {100 * unread:.0f} % of the text was not read" if unread >= 0.005 else ""


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


# How words became tokens; and whether the model seems to know the language.


def describe_tokenization(counts: Mapping[str, Any]) -> str | None:
    """The tokenization of a pass in a line, by its counts; None where nothing was counted."""
    shares = _tokenization_shares(counts)
    if shares is None:
        return None
    pieces, split, unknown, single = shares
    return (
        f"{pieces:.2f} pieces per word, {SHARE.number(split)} of words split, "
        f"{SHARE.number(unknown)} of pieces unknown, {SHARE.number(single)} single characters"
    )


def doubt_languages(manifest: Mapping[str, Any]) -> list[str]:
    """Of each corpus whose language the model does not seem to know, why so."""
    doubts: dict[str, str] = {}
    for key, counts in manifest.get("counts", {}).items():
        corpus = manifest.get("passes", {}).get(key, {}).get("corpus", key)
        shares = _tokenization_shares(counts)
        if corpus in doubts or shares is None or counts["tokenization"]["words"] < LEAST_WORDS:
            continue
        pieces, _, unknown, single = shares
        if unknown >= MOST_UNKNOWN or (pieces >= MANY_PIECES and single >= MANY_SINGLE):
            doubts[corpus] = (
                f"The model does not seem to know the language of {corpus}: "
                f"{describe_tokenization(counts)}. Its tokens are letters rather than words; "
                f"choose a model for this language."
            )
    return list(doubts.values())


def _tokenization_shares(counts: Mapping[str, Any]) -> tuple[float, float, float, float] | None:
    """Pieces per word, and the shares of split words, unknown and single-character pieces."""
    tokenization = counts.get("tokenization", {})
    if not tokenization.get("words"):
        return None
    words, pieces = tokenization["words"], tokenization["pieces"]
    unknown, single = tokenization["unknown pieces"], tokenization["single-character pieces"]
    return pieces / words, tokenization["split words"] / words, unknown / pieces, single / pieces


def _as_records(frame: pd.DataFrame) -> Any:
    return json.loads(frame.to_json(orient="records", double_precision=15))
