"""The whole of `headscope compare`: runs in, tables of differences and a page out."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from logging import getLogger
from pathlib import Path

import pandas as pd

from headscope.arguments import checked
from headscope.comparison.answer import answer_comparison
from headscope.comparison.findings import best_heads, claims_table, judge_pairs, kinds_table
from headscope.comparison.load import Compared, Loaded, RunLike, different_options, load_runs
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
        said = {
            "runs": {name: str(run.folder or "") for name, run in self.runs.items()},
            "notes": self.notes,
            "left_out": self.left_out,
            "answer": self.answers,
        }
        content = json.dumps(said, indent=2, ensure_ascii=False) + "\n"
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
        made = _compare(loaded)
        if out is not None:
            made.write(out)
    return made


def _compare(loaded: Loaded) -> Comparison:
    replicates = _read_all(loaded)
    first = next(iter(loaded.runs))
    pairs = judge_pairs(replicates, list(loaded.runs))
    tables = {
        "claims": pd.concat([claims_table(loaded.runs), pairs], ignore_index=True),
        "kinds": kinds_table(loaded.runs),
        "best": best_heads(loaded.runs),
        **compare_numbers(replicates, first),
    }
    for note in loaded.notes:
        log.info("%s", note)
    tables = RunTables(tables)
    answers = answer_comparison(list(loaded.runs), tables)
    answers += [
        f"{row.says} {row.run}: {row.verdict}. {row.shows}"
        for row in pairs.itertuples()
        if row.verdict != "not measured"
    ]
    return Comparison(loaded.runs, tables, answers, loaded.notes, loaded.left_out)


def _read_all(loaded: Loaded) -> dict[str, Replicates]:
    """The replicates of all runs that have their sums, without analyses that do not compare."""
    differing = different_options(loaded.runs)
    loaded.notes.extend(
        f"{reason}. It is left out of differences." for reason in differing.values()
    )
    found = {}
    for name, run in loaded.runs.items():
        own = read_replicates(run, without=frozenset(differing))
        if own is None:
            loaded.notes.append(
                f"{name} has no sums of this version (tallies/), so its differences have no "
                "intervals and are left out; `headscope analyze ... --out` writes them."
            )
        else:
            found[name] = own
    shared = [frozenset(own.tables) for own in found.values()]
    if len(found) > 1 and not frozenset.intersection(*shared):
        raise StudyError(
            f"{' and '.join(found)} have no table in common. Expected runs of the same analyses; "
            "run `headscope analyze` on the same kinds of corpora."
        )
    loaded.notes.extend(_note_apart(found, next(iter(loaded.runs))))
    return found


def _note_apart(found: dict[str, Replicates], first: str) -> Iterator[str]:
    """Which tables of which runs were measured on other documents than those of the first."""
    if first not in found:
        return
    documents = found[first].documents
    for name, own in found.items():
        both = documents.keys() & own.documents.keys()
        apart = sorted(table for table in both if documents[table] != own.documents[table])
        if apart:
            yield (
                f"{name} and {first} read different documents for {', '.join(apart)}: these "
                f"differences are not paired, so their intervals are wider."
            )
