"""Pages of measured results: runs of the command, and a page whose numbers are read from them.

A page has a name, such as "paper"; `benchmarks/NAME.md` is its text. A line `TABLE: name` there
becomes what the function of that name makes, `COMMANDS: run run` the commands of these runs.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

import headscope as hs

Maker = Callable[["Page"], str]

SHARED = Path(__file__).parents[2] / "shared"
FILES = {  # what stands in the commands, and where it lies
    "e5-small": "models/e5-small",
    "gum.conllx": "data/treebanks/en_gum5-sd-ccby.conllx",
    "ewt-dev.conllu": "data/treebanks/en_ewt-ud-dev.conllu",
    "ewt-test.conllu": "data/treebanks/en_ewt-ud-test.conllu",
    "ewt-train.conllu": "data/treebanks/en_ewt-ud-train.conllu",
    "enwiki.txt": "data/text/enwiki.txt",
    "ontogum": "data/coref/ontogum",
    "gap.tsv": "data/coref/gap-validation.tsv",
    "glove.txt.gz": "data/vectors/glove-100d.txt.gz",
}


class Page:
    """The tables of the runs in a folder, and lines of Markdown made from them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def table(self, run: str, name: str, **where: Any) -> pd.DataFrame:
        """The rows of a table with these labels."""
        table = pd.read_parquet(self.folder / run / "tables" / f"{name}.parquet")
        for column, value in where.items():
            table = table[table[column] == value]
        return table

    def answers(self, run: str) -> str:
        """The sentences about a run."""
        return "\n".join(f"- {answer}" for answer in hs.load_run(self.folder / run).answers)

    def layers(self, run: str, column: str = "weight", **where: str) -> pd.Series:
        """The mean over the heads of each layer."""
        name = "special-tokens" if column == "weight" else column.partition(".")[0]
        rows = self.table(run, name, **where)
        return rows.groupby("layer")[column.rpartition(".")[2]].mean()


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def share(value: float, low: float | None = None, high: float | None = None) -> str:
    """A share in percent, with its interval if it has one."""
    if pd.isna(value):
        return ""
    ends = "" if low is None or pd.isna(low) else f" [{100 * low:.1f}-{100 * high:.1f}]"
    return f"{100 * value:.1f}{ends}"


def points(row: Any, name: str) -> str:
    """A difference in points with its interval."""
    low, high = row["difference_low"], row["difference_high"]
    none = "" if not row["p_value"] >= 0.05 else ", worse" if high < 0 else ", n.s."
    return f"{100 * row[name]:+.1f} [{100 * low:.1f} to {100 * high:.1f}]{none}"


def best_head(row: Any, own: str = "dependent-to-head", mark: str = "h>d") -> str:
    """A best head: held out, in how many choices it was chosen, and on all data."""
    other = "" if row["direction"] == own else f" ({mark})"
    held_out = share(row["heldout_accuracy"], row["heldout_low"], row["heldout_high"])
    chosen = f"{row['chosen_in']}/{row['folds']}"
    return f"{row['layer']}-{row['head']}{other} {held_out}, {chosen}; {share(row['accuracy'])}"


def by_name(*makers: Maker) -> dict[str, Maker]:
    """Functions by their names."""
    return {maker.__name__: maker for maker in makers}


def measure_runs(folder: Path, runs: Mapping[str, str], paths: Mapping[str, str]) -> None:
    """Every run into its folder, with what it cost beside it; what is there already stays. `paths`
    are the files and models that stand in the commands by name."""
    for name, command in runs.items():
        if (folder / name / "manifest.json").exists():
            continue
        words = [paths.get(word, word) for word in shlex.split(command)]
        print(name, file=sys.stderr)
        command_line = [sys.executable, "-m", "headscope", *words, "--out", str(folder / name)]
        with subprocess.Popen(command_line) as process:
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            sys.exit(f"headscope {command}: exit code {process.returncode}")
        cost = {"cpu_seconds": used.ru_utime + used.ru_stime, "peak_bytes": used.ru_maxrss * 1024}
        (folder / f"{name}-cost.json").write_text(json.dumps(cost))


def shared_paths() -> dict[str, str]:
    """Where the files and models lie that commands name."""
    return {name: str(SHARED / path) for name, path in FILES.items()}


def write_page(
    page: Page, lines: Iterable[str], runs: Mapping[str, str], makers: Mapping[str, Maker]
) -> Iterator[str]:
    """The lines of the page, with commands and tables wherever it names them."""
    for line in lines:
        kind, _, name = line.partition(": ")
        if kind == "TABLE":
            try:
                yield makers[name](page)
            except (FileNotFoundError, hs.HeadscopeError) as error:
                print(f"{name}: {error}", file=sys.stderr)
                yield "Not measured."
        elif kind == "COMMANDS":
            yield from (f"    headscope {runs[run]}" for run in name.split())
        else:
            yield line


def measure_or_write(
    name: str,
    runs: Mapping[str, str],
    makers: Mapping[str, Maker],
    measure: Callable[[Path, Path | None], None],
) -> None:
    """The command of a page: measure its runs, or write it."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}")
    parser.add_argument("verb", choices=("measure", "page"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", type=Path)
    options = parser.parse_args()
    if options.verb == "measure":
        measure(options.folder, options.model)
    else:
        lines = (Path(__file__).parent / f"{name}.md").read_text().splitlines()
        print("\n".join(write_page(Page(options.folder), lines, runs, makers)))
