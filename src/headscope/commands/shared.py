"""What commands share: options, names that a shell completes, and what is said of a run."""

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headscope.commands import talk
from headscope.files import read_sealed
from headscope.options import Option, collect_options, command_parameters
from headscope.registry import ANALYSES, PROBES
from headscope.view.table import Format

if TYPE_CHECKING:
    from headscope.runs.run import Run

__all__ = [
    "RUN", "FormatOption", "MinCount", "Model", "Resume", "RunFolderArgument", "choose_folder",
    "complete_analysis", "complete_figure", "complete_head", "complete_probe", "complete_run",
    "complete_table", "expand_options", "find_begun", "name_folder", "of_data", "of_output",
    "of_run", "show_report", "show_run",
]  # fmt: skip


def complete_run(incomplete: str) -> list[str]:
    """Folders of runs, here and in `runs`."""
    folder = Path(incomplete).parent if "/" in incomplete else Path()
    manifests = [*folder.glob("*/manifest.json"), *Path("runs").glob("*/manifest.json")]
    return _matching(sorted({str(path.parent) for path in manifests}), incomplete)


def complete_head(context: typer.Context, incomplete: str) -> list[str]:
    """The heads of the run that stands before."""
    model = _read_manifest(context).get("model", {})
    layers, heads = model.get("layer_numbers", ()), range(1, model.get("heads", 0) + 1)
    return _matching((f"{layer}-{head}" for layer in layers for head in heads), incomplete)


def complete_table(context: typer.Context, incomplete: str) -> list[str]:
    """The tables of the run that stands before."""
    of_paper = [f"table-{number}" for number in (1, 2, 3)]
    return _matching([*_read_manifest(context).get("tables", ()), *of_paper], incomplete)


def complete_analysis(incomplete: str) -> list[str]:
    """All analyses, after the last comma."""
    return _after_comma(ANALYSES.entries(), incomplete)


def complete_probe(incomplete: str) -> list[str]:
    """All probes, after the last comma."""
    return _after_comma(PROBES.entries(), incomplete)


def complete_figure(incomplete: str) -> list[str]:
    """All figures."""
    from headscope.view.figure import list_figures  # altair: only when it is needed
    from headscope.view.sheet import SHEETS

    return _matching([*list_figures(), *SHEETS], incomplete)


def _after_comma(names: Iterable[str], incomplete: str) -> list[str]:
    before, comma, last = incomplete.rpartition(",")
    return [before + comma + name for name in _matching(names, last)]


def _matching(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _read_manifest(context: typer.Context) -> dict[str, Any]:
    """What the run that was typed says of itself; nothing where there is none."""
    try:
        return read_sealed(Path(str(context.params.get("run", ""))) / "manifest.json")
    except (OSError, ValueError):
        return {}


DATA, RUN = "Data (each option may be repeated; .gz is read too)", "Run"  # panels of help
of_data = partial(typer.Option, rich_help_panel=DATA)
of_run = partial(typer.Option, rich_help_panel=RUN)
of_output = partial(typer.Option, rich_help_panel=talk.PANEL)
FormatOption = Annotated[
    Format, of_output(help="table, csv, json, markdown, latex, html.", metavar="FORMAT")
]
MinCount = Annotated[
    int, of_output(help="Do not print relations with fewer than N words. Files keep all.")
]
Model = Annotated[str, typer.Argument(help="A hub name, a local folder, a .gguf file, or 'demo'.")]
Resume = Annotated[bool, of_run("--resume", help="Continue a stopped run in --out.")]
RunFolderArgument = Annotated[
    Path, typer.Argument(help="Folder of a run.", autocompletion=complete_run)
]


def expand_options(
    command: Callable[..., None],
    panels: Mapping[str, Iterable[type] | Iterable[Option]],
    shown: Collection[str] | None = None,
) -> Callable[..., None]:
    """The command with its `**options` spelled out, panel by panel: those of some dataclasses, or
    options themselves. It is called with those that were given. Help has all of them, or those
    with the names `shown`."""
    parameters = inspect.signature(command).parameters.values()
    fixed = [p for p in parameters if p.kind is not inspect.Parameter.VAR_KEYWORD]
    taken = {parameter.name for parameter in fixed}
    derived: list[inspect.Parameter] = []
    for panel, kinds in panels.items():
        items = list(kinds)
        of_kinds = collect_options(*(item for item in items if isinstance(item, type)))
        options = [*of_kinds.values(), *(item for item in items if isinstance(item, Option))]
        fresh = [option for option in options if option.name not in taken]
        taken |= {option.name for option in fresh}
        derived += command_parameters(fresh, panel, shown)
    names = {parameter.name for parameter in derived}

    def run(**given: Any) -> None:
        command(**{n: v for n, v in given.items() if n not in names or v not in (None, [])})

    return talk.declare(run, command, (*fixed, *derived))


_chosen: list[Path] = []  # where this command writes


def choose_folder(out: Path | None, usual: Path, resume: bool) -> Path:
    """Where a command writes: `out`, or the usual folder, which is remembered."""
    _chosen[:] = [out or _free_folder(usual, resume)]
    return _chosen[0]


def find_begun() -> Path | None:
    """The folder that this command writes to, if it holds a run that can be continued."""
    for folder in _chosen:
        with suppress(OSError):
            if any(any(folder.glob(f"{place}manifest.json")) for place in ("", "*/")):
                return folder
    return None


def _free_folder(folder: Path, resume: bool) -> Path:
    """The folder for a run that was given none; with a number where the name is taken."""
    if resume or not _is_taken(folder):
        return folder
    numbered = (folder.with_name(f"{folder.name}-{number}") for number in count(2))
    chosen = next(folder for folder in numbered if not _is_taken(folder))
    talk.tell(f"{folder} is taken; this run is written to {chosen}.")
    return chosen


def _is_taken(folder: Path) -> bool:
    with suppress(NotADirectoryError, FileNotFoundError):
        return any(folder.iterdir())
    return folder.exists()


def name_folder(model: str) -> str:
    """A model's name as that of a folder.

    >>> name_folder("../models/e5-small/")
    'models--e5-small'
    """
    return model.strip("/.").replace("/", "--")


def show_run(run: "Run", format: Format, min_count: int = 50) -> None:
    """Print a run's main tables on stdout; on stderr claims, the answer in short and counts."""
    from headscope.runs.run import explain_damage  # pandas: only when it is needed
    from headscope.view.claim import sum_up
    from headscope.view.terminal import describe_answers, print_run

    with explain_damage(run):
        print_run(run.tables, format, min_count)
    for finding in run.findings:
        talk.tell_more(f"{finding.verdict}: {finding.claim.says} ({finding.claim.name})")
    if any(finding.verdict != "not measured" for finding in run.findings):
        talk.tell(sum_up(run.findings))
    if run.answers:
        talk.tell(f"\nIn short:\n{describe_answers(run.answers)}\n")
    with explain_damage(run):
        _show_counts(run)


def show_report(run: "Run") -> None:
    """Write the run's report and say where it is."""
    with talk.stage("report"):
        path = run.report()
    talk.tell(f"Report: {path}")


def _show_counts(run: "Run") -> None:
    """What became of the examples, and where the tables are."""
    # pandas: only when it is needed
    from headscope.view.terminal import (
        describe_counts,
        describe_tokenization,
        warn_of_few_documents,
    )

    of_passes = run.manifest["counts"]
    for key, counts in of_passes.items():
        read = run.manifest.get("passes", {}).get(key, {})
        first = read.get("repeats")  # the pass whose examples an untrained model reads again
        if first is None or counts["used"] != of_passes[first]["used"]:
            talk.tell(f"{key}: {describe_counts(counts, read)}")
        if first is None and (line := describe_tokenization(counts)):
            talk.tell(f"{key}: {line}")
        for reason in read.get("skipped_files", {}).values():
            talk.tell(f"{key}: left out: {reason}")
    for note in warn_of_few_documents(run.manifest):
        talk.tell(note)
    for key, seconds in run.manifest.get("seconds", {}).items():
        times = ", ".join(f"{stage} {time:.1f} s" for stage, time in seconds.items())
        talk.tell_more(f"{key}: {times}")
    talk.tell(f"Tables: {run.folder}/tables (csv and parquet)")
