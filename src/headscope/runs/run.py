"""A finished run: its tables, figures, cards, examples and report."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from logging import getLogger
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from headscope.arguments import checked
from headscope.data.head_view import ShownExample, read_examples
from headscope.data.table import split_kinds
from headscope.errors import HeadscopeError, OutputError, StudyError, say_count, shorten, suggest
from headscope.registry import ANALYSES, PROBES, warn_once
from headscope.runs.folder import TABLES, UNTRAINED, RunFolder

if TYPE_CHECKING:
    from headscope.view.card import Card
    from headscope.view.claim import Finding
    from headscope.view.svg import Drawing

__all__ = ["Run", "add_tables", "explain_damage", "load_run"]

log = getLogger("headscope")

BAD_TABLES = (  # what comes of tables that do not fit together
    *(ArithmeticError, AttributeError, LookupError, TypeError, ValueError),
    pd.errors.InvalidIndexError,
)


class RunTables(dict[str, pd.DataFrame]):
    """The tables of a run by name; a wrong name is told with the nearest one."""

    def __missing__(self, name: str) -> pd.DataFrame:
        known = ", ".join(self)
        raise UnknownTable(
            f"No table {shorten(name)!r} in this run.{suggest(shorten(name), self)} Known: {known}."
        )


class UnknownTable(StudyError, KeyError):
    """A table that a run does not have: a KeyError too, as of any dictionary."""


@dataclass(frozen=True)
class Run:
    """A finished run: its tables, its manifest, and its folder if it has one."""

    tables: Mapping[str, pd.DataFrame]
    manifest: dict[str, Any]
    folder: Path | None = None
    examples: list[ShownExample] = field(default_factory=list)  # notable heads, best and worst
    untrained: Mapping[str, pd.DataFrame] = field(default_factory=dict)  # by draw (--null)
    is_loaded: bool = field(default=False, repr=False)  # from a folder, where others may write

    def __post_init__(self) -> None:
        object.__setattr__(self, "tables", RunTables(self.tables))

    def __repr__(self) -> str:
        place = f" in {self.folder}" if self.folder else ""
        return f"<Run of {self.manifest['model']['name']}: {', '.join(self.tables)}{place}>"

    def _repr_html_(self) -> str:
        from headscope.view.terminal import describe_run  # all analyses: only to show it

        with explain_damage(self):
            return describe_run(self.tables, self.manifest)

    @checked
    def report(self, path: str | Path | None = None) -> Path:
        """Write the run as one HTML page, by default into its folder, and return the path."""
        from headscope.view.page import write_report  # altair: only to show it

        if path is None and self.folder is None:
            raise StudyError(
                "This run has no folder to put its report in. Expected a path; give one, or run "
                "the analysis with --out."
            )
        target = Path(path) if path is not None else Path(str(self.folder)) / "report.html"
        with explain_damage(self):
            write_report(target, self.tables, self.manifest, self.examples, self.findings)
        return target

    @cached_property
    def answers(self) -> list[str]:
        """What the run shows, in a few sentences: those of the report's first screen."""
        from headscope.view.answer import answer_run  # all analyses: only to show it

        with explain_damage(self):
            return [answer.text for answer in answer_run(self.tables, self.manifest)]

    @cached_property
    def findings(self) -> "list[Finding]":
        """What the run shows of every claim of the paper, in the paper's order."""
        from headscope.view.claim import check_claims  # all analyses: only to show it

        with explain_damage(self):
            return check_claims(self.tables, self.untrained, self.manifest["model"])

    @cached_property
    def labelled(self) -> dict[str, list[pd.DataFrame]]:
        """What heads are measured for and what they find, by kind of attention."""
        from headscope.view.behaviour import find_labelled  # all analyses: only to show it

        with explain_damage(self):
            return {
                kind: find_labelled(of_kind) for kind, of_kind in split_kinds(self.tables).items()
            }

    @checked
    def card(self, head: str | tuple[int, int]) -> "Card":
        """All that the run knows about one head, named "8-10" or (8, 10)."""
        from headscope.view.card import make_card, read_head  # all analyses: only to show it

        name = head if isinstance(head, str) else "-".join(map(str, head))
        with explain_damage(self):
            return make_card(self.tables, *read_head(name, self.tables))

    @checked
    def paper_table(self, name: str, format: str = "latex") -> str:
        """A table as papers have it, "table-1", "table-2" or "table-3", in LaTeX (with booktabs),
        Markdown, HTML, CSV, JSON or as text."""
        from headscope.view.paper_tables import make_paper_tables, write_tables  # as above

        with explain_damage(self):
            return write_tables(make_paper_tables(name, self.tables), format)

    @checked
    def figure(
        self,
        name: str,
        *,
        width: float | str | None = None,
        height: float | str | None = None,
        font: str | None = None,
        palette: str | None = None,
        background: str | None = None,
    ) -> "Drawing":
        """One picture for a paper: `run.figure("position", width="8cm").save("position.pdf")`.

        `palette` is the name of a scheme, or colours separated by commas.
        """
        from headscope.view.paper import (  # altair: as above
            PaperStyle,
            fit_figure,
            read_length,
            style_drawing,
        )
        from headscope.view.svg import Drawing

        size = read_length(width), read_length(height)
        style = PaperStyle(*size, font, palette, background)
        with explain_damage(self):
            figure = self.figures[name]
            if isinstance(figure, Drawing):  # a sheet of heads
                return style_drawing(figure, style)
            return fit_figure(figure, style, name)

    @property
    def figures(self) -> "RunFigures":
        """The run's figures by name, each drawn when you access it."""
        return RunFigures(self.tables, self.examples)


@dataclass(frozen=True)
class RunFigures(Mapping[str, Any]):
    """The figures that a run has tables or examples for.

    `run.figures["position"]` is an Altair chart, `run.figures["heads-sheet"]` a drawing.
    """

    tables: Mapping[str, pd.DataFrame]
    examples: Sequence[ShownExample] = ()

    def __getitem__(self, name: str) -> Any:
        known, sheets = self._list(), self._draw_sheets()
        if name in sheets:
            return sheets[name]
        known = {**known, **sheets}
        if name not in known:
            raise UnknownTable(
                f"No figure named {shorten(name)!r}.{suggest(shorten(name), known)} Known: "
                f"{', '.join(sorted(known))} (see `headscope list figures`)."
            )
        from headscope.view.figure import save_alike  # altair: only to show it

        return save_alike(known[name].draw(self.tables))

    def __contains__(self, name: object) -> bool:
        return any(name == known for known in self)

    def __iter__(self) -> Iterator[str]:
        names = [name for name, figure in self._list().items() if not figure.missing(self.tables)]
        return iter([*names, *self._draw_sheets()])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _list(self) -> Mapping[str, Any]:
        from headscope.view.figure import list_figures  # altair: only to show it

        return list_figures()

    def _draw_sheets(self) -> dict[str, "Drawing"]:
        """The sheets of heads that its examples give."""
        from headscope.view.sheet import draw_sheets  # all analyses: only to show it

        return draw_sheets(self.examples)


@contextmanager
def explain_damage(*runs: Run) -> Iterator[None]:
    """An error that says so if tables or manifests of loaded runs do not fit together.

    Their types are checked when they are read; that is what no type tells.
    """
    try:
        yield
    except HeadscopeError:
        raise
    except BAD_TABLES as error:
        loaded = [str(run.folder) for run in runs if run.is_loaded]
        if not loaded:
            raise
        raise OutputError(
            f"{shorten(', '.join(loaded), 200)} cannot be shown: a table or the manifest is not "
            f"what headscope writes ({type(error).__name__}: {shorten(str(error))}). Expected a "
            "run that nobody changed; rebuild its tables with `headscope analyze ... --resume`, or "
            "report this as a bug if nobody did."
        ) from error


@checked
def load_run(folder: str | Path, skip_missing: bool = False) -> Run:
    """A finished run, read back from its folder.

    A missing table file is an error; with `skip_missing` it is left out with a warning. The tables
    of the probes of `analyze --train` are included; another run in a subfolder is not.
    """
    run, probes = _load_alone(Path(folder), skip_missing), RunFolder(Path(folder) / PROBES.plural)
    return add_tables(run, _load_alone(probes.path, False)) if probes.has_run else run


def _load_alone(folder: Path, skip_missing: bool) -> Run:
    store = RunFolder(folder)
    manifest = store.read_manifest()
    if manifest["status"] not in ("complete", "partial"):
        if part := manifest.get("options", {}).get("shard"):
            what = f"part {part} of a run", "all parts in one folder; join them: `headscope merge`"
        else:
            what = (
                "a run that is not finished",
                "a complete one; continue it with `headscope analyze ... --resume`",
            )
        raise OutputError(f"{folder} holds {what[0]}. Expected {what[1]}.")
    if failed := manifest.get("failed"):
        n_failed = say_count(len(failed), "shard")
        log.warning("%s lacks %s that could not be measured.", folder, n_failed)
    _tell_unknown(folder, manifest)
    checksums = manifest.get("checksums", {})
    listed = {TABLES: manifest["tables"], UNTRAINED: manifest.get("untrained_tables", [])}
    tables: dict[str, dict[str, pd.DataFrame]] = {TABLES: {}, UNTRAINED: {}}
    for place, names in listed.items():
        for name in names:
            if skip_missing and not store.has_table(name, place):
                log.warning(
                    "Table %s/%s of %s is missing; the report leaves out what it would show.",
                    place, name, folder,
                )  # fmt: skip
            else:
                tables[place][name] = store.read_table(name, place, checksums)
    examples = read_examples(store.path)
    return Run(tables[TABLES], manifest, store.path, examples, tables[UNTRAINED], is_loaded=True)


def _tell_unknown(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Say which analyses of a run are of packages that are not installed here."""
    known = ANALYSES.entries()
    if unknown := [name for name in manifest.get("analyses", ()) if name not in known]:
        warn_once(
            f"{folder} holds {', '.join(unknown)}, of a package that is not installed or passed as "
            "an object: the tables are read, but cards and reports leave them out. Install the "
            "package to show them."
        )


def add_tables(run: Run, part: Run) -> Run:
    """The run with the tables of another, which keeps a manifest of its own."""
    return replace(run, tables={**run.tables, **part.tables})
