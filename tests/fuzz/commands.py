"""Cases of bad command lines: a good one in which a word or two is bad, or an option too many."""

import os
from contextlib import chdir
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import typer.main
from typer.testing import CliRunner

from headscope.cli import build_app
from tests.fuzz.corpora import ACCEPTED, REFUSED, Failure
from tests.fuzz.mutate import NASTY

__all__ = ["try_command"]

LINES = (
    "analyze MODEL --text TEXT --only position --limit 2 --out run --no-report",
    "analyze --models TEXT --text TEXT --only position --out runs",
    "distance MODEL MODEL --text TEXT --limit 2 --out matched",
    "show MODEL Boats --head 1-1 --size 8cm --out head.svg",
    "report RUN --out page.html",
    "report RUN --figure position --size 8x5cm --format svg --out figure.svg",
    "card RUN 1-1",
    "table RUN position --format csv",
    "layout RUN --clusters 2 --seed 1",
    "merge RUN RUN --out merged",
    "compare RUN RUN --out compared",
    "compare --series RUN --steps 1,2 --out series",
    "atlas RUNS --out atlas",
    "export RUN --format headvis --out headvis",
    "push RUN me/heads --dry-run --out dataset",
    "list tables",
)
BAD = tuple(os.fsdecode(part) for part in NASTY if b"\0" not in part)
MORE = ("/dev/zero", "/dev/null", "/dev/fd/99", "/", ".", "nowhere", "9" * 400 + "cm", "99-99")
REFUSALS, PARTIAL = (1, 2), 3  # exit codes


def try_command(rng: Random, folder: Path, good: Path) -> str:
    """Call a command as a user would; it may do its work or refuse, in a few words."""
    (folder / "a.txt").write_text("The boat sails home.\nNobody sees it.\n")
    names = {"MODEL": good / "model", "RUN": good / "run", "RUNS": good, "TEXT": folder / "a.txt"}
    words = [str(names.get(word, word)) for word in rng.choice(LINES).split()]
    for _ in range(rng.choice((1, 1, 2))):
        bad = rng.choice((*BAD, *MORE))
        if rng.random() < 0.3:
            words += [rng.choice(_list_flags(words[0])), bad]
        else:
            words[rng.randrange(1, len(words))] = bad
    with chdir(folder):
        done = CliRunner().invoke(_build(), words)
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    said = max(done.stderr.splitlines(), key=len, default="")
    if len(said) > 3000:
        raise Failure(f"a message of {len(said)} characters: {said[:300]}")
    if done.exit_code in REFUSALS and not done.stderr:
        raise Failure(f"{words[0]} failed without a word")
    return REFUSED if done.exit_code in (*REFUSALS, PARTIAL) else ACCEPTED


@cache
def _build() -> Any:
    return build_app()


@cache
def _list_flags(command: str) -> list[str]:
    """The options of a command; not those that print help."""
    group: Any = typer.main.get_command(_build())
    flags = [flag for parameter in group.commands[command].params for flag in parameter.opts]
    return [flag for flag in flags if flag.startswith("--") and "help" not in flag]
