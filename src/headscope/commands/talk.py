"""What commands say on stderr: nothing, the usual, or more (`--quiet`, `--verbose`)."""

import inspect
import logging
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from copy import copy
from typing import Annotated, Any, get_args

import typer

__all__ = ["add_switches", "is_quiet", "listen", "stage", "tell", "tell_more"]

QUIET, USUAL, VERBOSE = logging.WARNING, logging.INFO, logging.DEBUG
PANEL = "Output"
SAYS_LESS, SAYS_MORE = "Results and errors only.", "Also every claim and the time of each stage."
ALL = "Show all options."

# One command runs in a process; what it says is set before it starts.
_level = USUAL


def tell(text: str) -> None:
    """A line for the user; not with --quiet."""
    if _level <= USUAL:
        typer.echo(text, err=True)


def tell_more(text: str) -> None:
    """A line that is said with --verbose only."""
    if _level <= VERBOSE:
        typer.echo(text, err=True)


def is_quiet() -> bool:
    """Whether nothing is to be said but errors and warnings."""
    return _level > USUAL


@contextmanager
def stage(name: str) -> Iterator[None]:
    """A bar without an end, for a stage that cannot be counted; on a terminal alone."""
    from rich.console import Console  # only where something is said
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    is_shown = console.is_terminal and not is_quiet()
    with Progress(*columns, console=console, disable=not is_shown, transient=True) as progress:
        progress.add_task(name, total=None)
        yield


@contextmanager
def listen() -> Iterator[None]:
    """Notes of the library on stderr, one plain line each."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    log = logging.getLogger("headscope")
    level = log.level
    log.addHandler(handler)
    log.setLevel(_level)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


def add_switches(command: Callable[..., None], hidden: Collection[str] = ()) -> Callable[..., None]:
    """The command with --quiet, --verbose and --help-all; help leaves `hidden` options out."""
    fixed = [
        _hide(parameter) if parameter.name in hidden else parameter
        for parameter in inspect.signature(command).parameters.values()
    ]
    added = [
        _switch("quiet", typer.Option("-q", "--quiet", help=SAYS_LESS, rich_help_panel=PANEL)),
        _switch("verbose", typer.Option("-v", "--verbose", help=SAYS_MORE, rich_help_panel=PANEL)),
        _switch(
            "help_all",
            typer.Option(
                "--help-all", help=ALL, is_eager=True, callback=_help, rich_help_panel=PANEL
            ),
        ),
    ]

    def run(*, quiet: bool, verbose: bool, help_all: bool, **given: Any) -> None:
        global _level
        _level = QUIET if quiet else VERBOSE if verbose else USUAL
        command(**given)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (*fixed, *added)]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def _switch(name: str, told: Any) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=False, annotation=Annotated[bool, told])


def _hide(parameter: inspect.Parameter) -> inspect.Parameter:
    kind, told = get_args(parameter.annotation)
    hidden = copy(told)
    hidden.hidden = True
    return parameter.replace(annotation=Annotated[kind, hidden])


def _help(context: typer.Context, is_asked: bool) -> None:
    if is_asked:
        for parameter in context.command.params:
            parameter.hidden = False  # type: ignore[attr-defined]
        typer.echo(context.get_help())
        raise typer.Exit
