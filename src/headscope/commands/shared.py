"""What commands share: options derived from dataclasses, and what is said of a run."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headscope.options import Option, collect_options, command_parameters
from headscope.view.table import Format

if TYPE_CHECKING:
    from headscope.runs.run import Run

__all__ = [
    "FormatOption",
    "MinCount",
    "Model",
    "OutOption",
    "Resume",
    "RunFolderArgument",
    "expand_options",
    "name_folder",
    "show_counts",
    "show_report",
    "show_run",
]

FormatOption = Annotated[Format, typer.Option(help="How to print the result on stdout.")]
MinCount = Annotated[
    int, typer.Option(help="Do not print relations with fewer than N words. Files keep all.")
]
Model = Annotated[str, typer.Argument(help="A hub name, a local folder, a .gguf file, or 'demo'.")]
OutOption = Annotated[Path | None, typer.Option(help="Folder for the results.")]
Resume = Annotated[
    bool, typer.Option("--resume", help="Continue the run in --out where it stopped.")
]
RunFolderArgument = Annotated[Path, typer.Argument(help="Folder of a run.")]


def expand_options(
    command: Callable[..., None], panels: Mapping[str, Iterable[type] | Iterable[Option]]
) -> Callable[..., None]:
    """The command with its `**options` spelled out, panel by panel: those of some dataclasses, or
    options themselves. It is called with those that were given."""
    own = inspect.signature(command)
    fixed = [p for p in own.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    taken = {parameter.name for parameter in fixed}
    derived: list[inspect.Parameter] = []
    for panel, kinds in panels.items():
        items = list(kinds)
        of_kinds = collect_options(*(item for item in items if isinstance(item, type)))
        options = [*of_kinds.values(), *(item for item in items if isinstance(item, Option))]
        fresh = [option for option in options if option.name not in taken]
        taken |= {option.name for option in fresh}
        derived += command_parameters(fresh, panel)
    names = {parameter.name for parameter in derived}

    def run(**given: Any) -> None:
        command(**{n: v for n, v in given.items() if n not in names or v not in (None, [])})

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (*fixed, *derived)]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def name_folder(model: str) -> str:
    """A model's name as that of a folder.

    >>> name_folder("../models/e5-small/")
    'models--e5-small'
    """
    return model.strip("/.").replace("/", "--")


def show_run(run: "Run", format: Format, min_count: int = 50) -> None:
    """Print a run's main tables on stdout; on stderr claims, the answer in short and counts."""
    from headscope.view.answer import choose_answers  # pandas: only when it is needed
    from headscope.view.claim import check_claims, sum_up
    from headscope.view.terminal import describe_answers, print_run

    print_run(run.tables, format, min_count)
    typer.echo(sum_up(check_claims(run.tables, run.untrained)), err=True)
    answers = choose_answers(run.tables)
    if answers:
        typer.echo(f"\nIn short:\n{describe_answers(answers)}\n", err=True)
    show_counts(run)


def show_report(run: "Run") -> None:
    """Write the run's report and say where it is."""
    from headscope.engine.progress import show_progress  # rich: only when it is needed

    with show_progress(True) as bars:
        advance = bars.add("report", 1)
        advance(0)
        path = run.report()
        advance(1)
    typer.echo(f"Report: {path}", err=True)


def show_counts(run: "Run") -> None:
    """What became of the examples, and where the tables are."""
    from headscope.view.terminal import describe_counts  # pandas: only when it is needed
    from headscope.view.tokenization import describe_tokenization

    for key, counts in run.manifest["counts"].items():
        available = run.manifest.get("passes", {}).get(key, {}).get("available")
        typer.echo(describe_counts(key, counts, available), err=True)
        is_repeat = run.manifest.get("passes", {}).get(key, {}).get("repeats") is not None
        if not is_repeat and (line := describe_tokenization(counts)):
            typer.echo(f"{key}: {line}", err=True)
        for reason in run.manifest.get("passes", {}).get(key, {}).get("skipped_files", {}).values():
            typer.echo(f"{key}: a file was left out: {reason}", err=True)
    typer.echo(f"Tables: {run.folder}/tables (csv and parquet)", err=True)
