"""The whole of `headscope compare`: runs in; tables of differences, an answer and a page out."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from logging import getLogger
from pathlib import Path

import pandas as pd

from headscope.arguments import checked
from headscope.comparison.answers import answer
from headscope.comparison.load import (
    Compared,
    Loaded,
    RunLike,
    best_heads,
    claims_table,
    different_options,
    judge_pairs,
    kinds_table,
    load_runs,
)
from headscope.comparison.measures import compare_numbers
from headscope.comparison.replicates import Replicates, read_replicates
from headscope.errors import StudyError
from headscope.files import write_atomically
from headscope.runs.run import RunTables, explain_damage

__all__ = ["Comparison", "compare"]

log = getLogger("headscope")


@dataclass(frozen=True)
class Comparison(Compared[str]):
    """What several runs have in common and how they differ."""

    def __repr__(self) -> str:
        return f"<Comparison of {', '.join(self.runs)}: {', '.join(self.tables)}>"

    @checked
    def report(self, path: str | Path) -> Path:
        """Write the page."""
        from headscope.comparison.page import render_comparison  # altair: only to show it

        write_atomically(Path(path), render_comparison(self).encode())
        return Path(path)

    @checked
    def write(self, folder: str | Path) -> Path:
        """Write the tables, what was compared, and the page, into a new or empty folder."""
        path = self.write_tables(folder)
        about = {
            "runs": {name: str(run.folder or "") for name, run in self.runs.items()},
            "notes": self.notes,
            "left_out": self.left_out,
            "answer": self.answers,
        }
        content = json.dumps(about, indent=2, ensure_ascii=False) + "\n"
        write_atomically(path / "compare.json", content.encode())
        return self.report(path / "compare.html")


@checked
def compare(runs: Iterable[RunLike], *, out: str | Path | None = None) -> Comparison:
    """Compare several runs with the first one.

    `runs` are folders, or runs that `analyze` returned with `out`. Differences are paired by bucket
    where both runs read the same documents. Without `out` nothing is written.
    """
    loaded = load_runs(list(runs), out=out)
    with explain_damage(*loaded.runs.values()):
        replicates = _read_all(loaded)
        names = list(loaded.runs)
        pairs = judge_pairs(replicates, names)
        tables = RunTables(
            {
                "claims": pd.concat([claims_table(loaded.runs), pairs], ignore_index=True),
                "kinds": kinds_table(loaded.runs),
                "best": best_heads(loaded.runs),
                **compare_numbers(replicates, names[0]),
            }
        )
        for note in loaded.notes:
            log.info("%s", note)
        answers = list(answer(names, tables))
        answers = answers or ["The runs have nothing in common that could be compared."]
        answers += [
            f"{row.says} {row.run}: {row.verdict}. {row.shows}"
            for row in pairs.itertuples()
            if row.verdict != "not measured"
        ]
        comparison = Comparison(loaded.runs, tables, answers, loaded.notes, loaded.left_out)
        if out is not None:
            comparison.write(out)
    return comparison


def _read_all(loaded: Loaded) -> dict[str, Replicates]:
    """The replicates of all runs that have their sums, without analyses that do not compare.

    Notes say what is left out, and which tables are about other documents than the first run's.
    """
    differing = different_options(loaded.runs)
    loaded.notes.extend(
        f"{reason}. It is left out of differences." for reason in differing.values()
    )
    replicates = {}
    for name, run in loaded.runs.items():
        of_run = read_replicates(run, without=frozenset(differing))
        if of_run is None:
            loaded.notes.append(
                f"{name} has no sums of this version (tallies/), so its differences have no "
                "intervals and are left out; `headscope analyze ... --out` writes them."
            )
        else:
            replicates[name] = of_run
    shared = [frozenset(of_run.tables) for of_run in replicates.values()]
    if len(shared) > 1 and not frozenset.intersection(*shared):
        raise StudyError(
            f"{' and '.join(replicates)} have no table in common. Expected runs of the same "
            "analyses; run `headscope analyze` on the same kinds of corpora."
        )
    first = next(iter(loaded.runs))
    documents = replicates[first].documents if first in replicates else {}
    for name, of_run in replicates.items():
        both = documents.keys() & of_run.documents.keys()
        apart = sorted(table for table in both if documents[table] != of_run.documents[table])
        if apart:
            loaded.notes.append(
                f"{name} and {first} read different documents for {', '.join(apart)}: these "
                f"differences are not paired, so their intervals are wider."
            )
    return replicates
