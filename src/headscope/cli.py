"""The command line: thin, quick to start; all work is done by the library."""

import logging
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from headscope.commands.analyze import analyze
from headscope.commands.card import card
from headscope.commands.distance import distance, layout
from headscope.commands.probe import probe
from headscope.commands.report import report
from headscope.commands.runs import list_names, merge, table
from headscope.commands.show import show
from headscope.errors import HeadscopeError, WriteError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version  # only here: it costs time that --help need not pay

        typer.echo(f"headscope {version('headscope')}")
        raise typer.Exit


@app.callback()
def headscope(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Version."),
    ] = False,
) -> None:
    """What do a transformer's attention heads look at?

    Measures any Hugging Face model on your own text in one pass, with a 95 % interval on every
    number. Start with: headscope analyze --demo
    """


def main() -> None:
    """The `headscope` command."""
    app()


@contextmanager
def _explained(can_resume: bool) -> Iterator[None]:
    """Turn errors a user can mend, and Ctrl-C, into a message and exit code 2."""
    _show_talk()
    try:
        yield
    except HeadscopeError as error:
        typer.echo(f"Error: {error}", err=True)
        if can_resume and isinstance(error, WriteError):
            _say_how_to_go_on()
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        typer.echo("\nInterrupted.", err=True)
        if can_resume:
            _say_how_to_go_on()
        raise typer.Exit(2) from None


def _say_how_to_go_on() -> None:
    arguments = [argument for argument in sys.argv[1:] if argument != "--resume"]
    again = shlex.join(["headscope", *arguments, "--resume"])
    typer.echo(f"Finished shards are kept; go on with:\n  {again}", err=True)


def _show_talk() -> None:
    """Notes of the library on stderr, one plain line each."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    talk = logging.getLogger("headscope")
    talk.handlers = [handler]
    talk.setLevel(logging.INFO)


for command in (analyze, report, show, card, probe, distance, layout, merge, table):
    app.command()(_explained("resume" in command.__annotations__)(command))
app.command("list")(_explained(can_resume=False)(list_names))
