"""Run all benchmarks, or those named, and print one table."""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from benchmarks.registry import BENCHMARKS
from benchmarks.row import Row, Settings, format_table


def main(arguments: Sequence[str] | None = None) -> None:
    """The table on stdout, talk on stderr; a missed target is a figure, not a failure."""
    options = _read_arguments(arguments)
    settings = Settings(options.repeats, options.threads)
    torch.set_num_threads(settings.threads)
    rows = list(_run(options.names or list(BENCHMARKS), settings))
    print(format_table(rows))
    if options.json:
        text = json.dumps([row.to_json() for row in rows], indent=2)
        options.json.write_text(text + "\n", encoding="utf-8")


def _read_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    known = ", ".join(BENCHMARKS)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of: {known}")
    parser.add_argument("--repeats", type=int, default=5, help="best of how many (default 5)")
    parser.add_argument("--threads", type=int, default=2, help="threads of torch (default 2)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows here too")
    options = parser.parse_args(arguments)
    for name in options.names:
        if name not in BENCHMARKS:
            parser.error(f"no benchmark named {name!r}; known: {known}")
    if options.repeats < 1 or options.threads < 1:
        parser.error("--repeats and --threads must be 1 or more")
    return options


def _run(names: Sequence[str], settings: Settings) -> Iterator[Row]:
    for name in names:
        print(f"{name} ...", file=sys.stderr)
        for row in BENCHMARKS[name](settings):
            print("  " + "  ".join(row.cells()[1:]), file=sys.stderr)
            yield row


if __name__ == "__main__":
    main()
