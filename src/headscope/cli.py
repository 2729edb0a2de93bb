"""The command line: thin, quick to start; all work is done by the library."""

import gc
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import TextIOWrapper
from typing import Annotated, Any

import typer

from headscope.commands import talk
from headscope.commands.analyze import analyze, probe
from headscope.commands.explore import explore, show
from headscope.commands.export import export, push
from headscope.commands.interrupt import (
    INTERRUPTED,
    catch_interrupts,
    end_interrupted,
    was_interrupted,
)
from headscope.commands.runs import (
    atlas,
    card,
    compare,
    distance,
    layout,
    list_names,
    merge,
    report,
    table,
)  # fmt: skip
from headscope.commands.shared import RUN, expand_options, find_begun
from headscope.contracts import Watch
from headscope.errors import HeadscopeError, WriteError, on_command_line
from headscope.options import (
    ClusterOptions,
    ModelOptions,
    Option,
    ProbeOptions,
    RunOptions,
    ShowOptions,
    collect_options,
    flag_of,
)

OF_MODEL, OF_ANALYSES, OF_CLUSTER = "Model", "Analyses", "Cluster"
# What short help leaves out of the options of commands, and what it shows of derived ones.
RARE = frozenset({"train", "vectors", "models", "report", "min_count", "store", "port", "browser",
                  "revision_a", "revision_b"})  # fmt: skip
COMMON = frozenset({"limit", "max_tokens", "null", "head", "layer",
                    "words", "view", "strongest", "span", "treebank", "sentence", "size",
                    "sentences", "epochs"})  # fmt: skip


# How long threads of torch wait for each other before they sleep: by default 30 times as long.
# Where another program used the same cores, probes were 7 times slower with the default.
SHORT_WAIT = {"GOMP_SPINCOUNT": "10000"}
# How often Python looks for garbage: by default after 700 new objects. Libraries make a million as
# they load, and none of them is garbage.
SELDOM = (5_000, 20, 20)


def main() -> None:
    """The `headscope` command."""
    os.environ.update(SHORT_WAIT | os.environ)  # what the user has set stays
    gc.set_threshold(*SELDOM)
    with catch_interrupts():
        try:
            _run()
        except SystemExit as ended:
            if was_interrupted():  # threads that still compute must not hold up the end, or fail
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(ended.code if isinstance(ended.code, int) else 0)
            raise


def _run() -> None:
    try:
        with on_command_line():  # to ask analyses for their options may find a bad plug-in
            completed = os.environ.get("_TYPER_COMPLETE_ARGS")
            typed = (completed or " ".join(sys.argv)).split()
            if completed is not None or {"-q", "--quiet"} & set(typed):
                talk.be_quiet()
            app = build_app(None if len(typed) < 2 else typed[1], is_short=True)
        app(prog_name="headscope")
    except Exception:
        if not was_interrupted():
            raise
        end_interrupted()
    except KeyboardInterrupt:
        end_interrupted()


def __getattr__(name: str) -> Any:
    if name == "app":  # all commands with all their options
        return build_app()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def build_app(command: str | None = "", is_short: bool = False) -> typer.Typer:
    """The commands; with options of analyses for the one that is called ("": for all of them).

    Analyses declare their own options, and to ask them loads torch: `headscope --help` need not.
    `is_short` help leaves out the less common options, which `--help-all` shows.
    """
    app = typer.Typer(
        no_args_is_help=True,
        add_completion=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(headscope)
    of_run = collect_options(RunOptions)
    of_run["max_tokens"] = replace(of_run["max_tokens"], shown_default="128")
    of_pairs = [option for option in of_run.values() if option.name != "null"]
    panels: dict[Any, dict[str, Any]] = {
        analyze: {
            OF_ANALYSES: [],
            RUN: [RunOptions],
            OF_MODEL: [ModelOptions],
            OF_CLUSTER: [ClusterOptions],
        },
        show: {"Drawing": [ShowOptions], OF_MODEL: [ModelOptions]},
        explore: {OF_MODEL: [ModelOptions]},
        probe: {
            "Probes": [ProbeOptions],
            OF_MODEL: [ModelOptions],
            OF_CLUSTER: [ClusterOptions],
        },
        distance: {OF_ANALYSES: [], RUN: of_pairs, OF_MODEL: [ModelOptions]},
        layout: {"Thresholds": []},
    }
    if command in ("", analyze.__name__, distance.__name__):
        with talk.loading():
            from headscope.engine.resolve import analysis_kinds  # torch: see above

            kinds = analysis_kinds().values()
        for kind in kinds:
            is_of_pair = kind.watches is Watch.MODEL_PAIR
            panels[distance if is_of_pair else analyze][OF_ANALYSES].append(kind)
    if command in ("", layout.__name__):
        with talk.loading():
            from headscope.view.behaviour import list_thresholds  # pandas: only for `layout`

            panels[layout]["Thresholds"] = [
                Option(t.name, float, t.default, t.help, flag_of(t.name), None, False, None, True)
                for t in list_thresholds()
            ]
    commands = (analyze, report, show, explore, card, probe, compare, distance, layout, merge)
    for function in (*commands, atlas, table, export, push):
        called = _explained("resume" in function.__annotations__)(function)
        if function in panels:
            called = expand_options(called, panels[function], COMMON if is_short else None)
        app.command(add_help_option=False)(talk.add_switches(called, RARE if is_short else ()))
    listing = talk.add_switches(_explained(can_resume=False)(list_names))
    app.command("list", add_help_option=False)(listing)
    return app


def _print_version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version  # only here: it costs time that --help need not pay

        typer.echo(f"headscope {version('headscope')}")
        raise typer.Exit


def headscope(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Version."),
    ] = False,
) -> None:
    """What do a transformer's attention heads look at?

    Measures any Hugging Face model on your text, with a 95 % interval on every number.

    Start with: headscope analyze --demo
    """
    for stream in (sys.stdout, sys.stderr):  # a file may have a name that no encoding has
        if isinstance(stream, TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


@contextmanager
def _explained(can_resume: bool) -> Iterator[None]:
    """Turn errors a user can fix (exit code 2) and Ctrl-C (130) into a message."""
    try:
        with talk.listen(), on_command_line():
            yield
    except HeadscopeError as error:
        with on_command_line():
            plain = str(error).encode(errors="backslashreplace").decode()
            typer.echo(talk.wrap(f"Error: {plain}"), err=True)
        if can_resume and isinstance(error, WriteError):
            _say_how_to_go_on()
        raise typer.Exit(2) from None
    except (KeyboardInterrupt, Exception) as error:
        if not isinstance(error, KeyboardInterrupt) and not was_interrupted():
            raise
        typer.echo("\nInterrupted.", err=True)
        if can_resume:
            _say_how_to_go_on()
        raise typer.Exit(INTERRUPTED) from None


def _say_how_to_go_on() -> None:
    """How to continue the run that was begun; nothing where none was."""
    begun = find_begun()
    if begun is None:
        return
    arguments = [argument for argument in sys.argv[1:] if argument != "--resume"]
    has_out = any(argument.partition("=")[0] == "--out" for argument in arguments)
    place = () if has_out else ("--out", str(begun))  # another than the usual one, if it was taken
    again = shlex.join(["headscope", *arguments, *place, "--resume"])
    typer.echo(f"Finished work is saved. Continue with:\n  {again}", err=True)


if __name__ == "__main__":
    main()
