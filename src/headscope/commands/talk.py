"""What commands say on stderr: nothing, the usual, or more (`--quiet`, `--verbose`)."""

import inspect
import logging
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from typing import Annotated, Any, get_args

import typer

__all__ = [
    "add_switches", "be_quiet", "declare", "is_quiet", "listen", "loading", "stage", "tell",
    "tell_more", "wrap",
]  # fmt: skip

QUIET, USUAL, VERBOSE = logging.WARNING, logging.INFO, logging.DEBUG
PANEL = "Output"
SAYS_LESS = "Print results and errors only."
SAYS_MORE = "Also print every claim and the time of each stage."
HELP, ALL = "Show the common options.", "Show all options."

# One command runs in a process; what it says is set before it starts.
_level = USUAL


def tell(text: str) -> None:
    """A line for the user; not with --quiet."""
    if _level <= USUAL:
        typer.echo(wrap(text), err=True)


def tell_more(text: str) -> None:
    """A line that is said with --verbose only."""
    if _level <= VERBOSE:
        typer.echo(wrap(text), err=True)


def be_quiet() -> None:
    """Say nothing but errors and warnings from now on."""
    global _level
    _level = QUIET


def is_quiet() -> bool:
    """Whether nothing is to be said but errors and warnings."""
    return _level > USUAL


def wrap(text: str) -> str:
    """Long lines in the width of the terminal; in a file or pipe as they are."""
    from headscope.view.table import terminal_width, wrap_text  # rich: only to say something

    width = terminal_width(sys.stderr, sys.maxsize)
    lines = text.split("\n")
    return "\n".join(wrap_text(line, width, "  ") if len(line) > width else line for line in lines)


@contextmanager
def stage(name: str) -> Iterator[None]:
    """A bar without an end, for a stage that cannot be counted; on a terminal alone."""
    from rich.console import Console  # only where something is said
    from rich.progress import BarColumn, Progress, TimeElapsedColumn

    columns = ("{task.description}", BarColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    is_shown = console.is_terminal and not is_quiet()
    with Progress(*columns, console=console, disable=not is_shown, transient=True) as progress:
        progress.add_task(name, total=None)
        yield


def loading() -> AbstractContextManager[None]:
    """The stage in which torch and transformers are imported, which takes seconds."""
    return stage("loading libraries")


class _Notes(logging.StreamHandler[Any]):
    """Writes to stderr as it is at the time: a bar on it takes what is written, and stays below."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)

    def format(self, record: logging.LogRecord) -> str:
        return wrap(super().format(record))


@contextmanager
def listen() -> Iterator[None]:
    """Notes of the library on stderr, one plain line each."""
    handler = _Notes()
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
    """The command with --quiet, --verbose and --help-all; help leaves out `hidden` options,
    unless they are required."""
    fixed = []
    for parameter in inspect.signature(command).parameters.values():
        if parameter.name in hidden and parameter.default is not parameter.empty:
            kind, told = get_args(parameter.annotation)
            unseen = copy(told)
            unseen.hidden = True
            parameter = parameter.replace(annotation=Annotated[kind, unseen])
        fixed.append(parameter)
    added = [
        _switch("quiet", "-q", SAYS_LESS),
        _switch("verbose", "-v", SAYS_MORE),
        _switch("help", "-h", HELP, _print_help),
        _switch("help_all", None, ALL, _print_all_help),
    ]

    def run(*, quiet: bool, verbose: bool, help: bool, help_all: bool, **given: Any) -> None:
        global _level
        _level = QUIET if quiet else VERBOSE if verbose else USUAL
        command(**given)

    return declare(run, command, (*fixed, *added))


def declare(
    run: Callable[..., None], command: Callable[..., None], parameters: Iterable[inspect.Parameter]
) -> Callable[..., None]:
    """The function under the name of a command, with these parameters."""
    named = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters]
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in named}
    return run


def _switch(
    name: str, letter: str | None, help: str, callback: Callable[..., None] | None = None
) -> inspect.Parameter:
    flags = [f"--{name.replace('_', '-')}", *([letter] if letter else [])]
    is_eager = callback is not None
    told: Any = typer.Option(
        *flags, help=help, is_eager=is_eager, callback=callback, rich_help_panel=PANEL
    )
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=False, annotation=Annotated[bool, told])


def _print_help(context: typer.Context, is_asked: bool) -> None:
    if is_asked:
        typer.echo(context.get_help())
        raise typer.Exit


def _print_all_help(context: typer.Context, is_asked: bool) -> None:
    if is_asked:
        for parameter in context.command.params:
            parameter.hidden = False  # type: ignore[attr-defined]
    _print_help(context, is_asked)
