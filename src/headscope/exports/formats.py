"""`headscope export`: a finished run in a format that another program reads."""

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pandas as pd

from headscope.arguments import checked
from headscope.data.table import split_kinds
from headscope.errors import StudyError, shorten, suggest
from headscope.files import write_folder
from headscope.registry import load_presentations
from headscope.runs.folder import RunFolder
from headscope.runs.run import Run, explain_damage, load_run
from headscope.view.answer import answer_run
from headscope.view.numbers import bounds
from headscope.view.specs import HeadMeasure
from headscope.view.table import choose_rows

__all__ = [
    "FORMATS", "Files", "Measured", "draw_figures", "export", "list_measured", "refuse_kinds",
]  # fmt: skip

Files: TypeAlias = dict[str, bytes]  # by their paths in the folder
FORMATS = {  # the function of a run and options that makes the files
    "headvis": "headscope.exports.headvis:make_files",
    "duoattention": "headscope.exports.duoattention:make_files",
}
MOST_FIGURES = 4


@checked
def export(
    run: Run | str | Path,
    out: str | Path | None = None,
    format: str = "headvis",
    *,
    measure: str | None = None,
    first: int | None = None,
    recent: int | None = None,
) -> Path:
    """Write a run as another program reads it, by default into its folder; give that folder.

    `measure`, `first` and `recent` are for "duoattention": what decides which heads keep all keys
    and values, and how many first and recent tokens the others keep.
    """
    if format not in FORMATS:
        raise StudyError(
            f"No format {shorten(format)!r} to export to.{suggest(format, FORMATS)} Expected one "
            f"of {', '.join(FORMATS)}; choose one."
        )
    run = run if isinstance(run, Run) else load_run(run)
    if out is None and run.folder is None:
        raise StudyError(
            "This run has no folder to put its export in. Expected a path; give --out FOLDER."
        )
    target = Path(out) if out is not None else Path(str(run.folder)) / "exports" / format
    given = {"measure": measure, "first": first, "recent": recent}
    options = {name: value for name, value in given.items() if value is not None}
    module, _, name = FORMATS[format].partition(":")
    make: Callable[..., Files] = getattr(import_module(module), name)
    RunFolder(target).refuse_if_taken()
    with explain_damage(run):
        files = make(run, options)
    write_folder(target, files)
    return target


class Measured(NamedTuple):
    """A number of every head of a run: layer, head, value, and low and high if it has them."""

    spec: HeadMeasure
    analysis: str
    made_by: str  # what to add to `headscope analyze MODEL` to have it
    heads: pd.DataFrame | None  # None: the run does not have it


def list_measured(tables: Mapping[str, pd.DataFrame]) -> Iterator[Measured]:
    """What analyses declare for other programs, with what the run has of it."""
    for analysis, shown in load_presentations().items():
        for spec in shown.specs(HeadMeasure):
            table = tables.get(spec.needs)
            heads = None
            if table is not None and len(table) and spec.column in table:  # older runs lack some
                heads = read_measure(spec, table)
            yield Measured(spec, analysis, shown.made_by, heads)


def read_measure(spec: HeadMeasure, table: pd.DataFrame) -> pd.DataFrame:
    """The number of every head with its interval."""
    rows = choose_rows(table, spec.where)
    columns = (spec.column, *bounds(table, spec.column))
    named = zip(("value", "low", "high"), columns, strict=True)
    return rows[["layer", "head"]].assign(**{new: rows[old] for new, old in named if old in rows})


def refuse_kinds(run: Run, format: str) -> None:
    """An error for an encoder-decoder, which has three kinds of attention."""
    kinds = [kind for kind in split_kinds(run.tables) if kind]
    if kinds:
        raise StudyError(
            f"This run has several kinds of attention ({', '.join(kinds)}), and the format "
            f"{format} has one. Expected a run of an encoder or a decoder; choose another run."
        )


def draw_figures(run: Run) -> dict[str, bytes]:
    """A few figures of a run as PNG: those of its answer first, then those of its analyses."""
    names = [answer.figure for answer in answer_run(run.tables, run.manifest)]
    names += [str(shown.figure) for shown in load_presentations().values()]
    known = set(run.figures)
    chosen = [name for name in dict.fromkeys(names) if name in known][:MOST_FIGURES]
    return {name: run.figure(name).encode(".png") for name in chosen}
