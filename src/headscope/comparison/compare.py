"""The whole of `headscope compare`: runs in; tables of differences, an answer and a page out."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from logging import getLogger
from pathlib import Path
from typing import Any

import pandas as pd

from headscope.arguments import checked
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
from headscope.comparison.measures import MEAN, VALUE, compare_numbers
from headscope.comparison.replicates import Replicates, read_replicates
from headscope.errors import StudyError
from headscope.files import write_atomically
from headscope.runs.run import RunTables, explain_damage
from headscope.view.answer import join_words, write_percent
from headscope.view.claim import added_claims
from headscope.view.numbers import Form, p_value

__all__ = ["LEVEL", "Comparison", "compare", "name_measure", "split_kinds_by_run", "write_number"]

log = getLogger("headscope")

LEVEL = 0.05
NAMED = 4  # kinds named in a sentence
NUMBER = Form(".3g", to=" to ")
NATS = Form(".3g", unit=" nats")
# The measures that are shares, by the names of their columns, and those in nats.
SHARES = frozenset({
    "weight", "share", "flat_rows", "accuracy", "heldout_accuracy", "split", "aer", "precision",
    "recall", "uas", "uas_with_punctuation", "uuas", "mst_uas", "las",
})  # fmt: skip
IN_NATS = frozenset({"nats", "divergence"})


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
        answers = list(_answer(names, tables))
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


# The answer: what a reader wants to know first, read off the tables.


def _answer(runs: Sequence[str], tables: Mapping[str, pd.DataFrame]) -> Iterator[str]:
    yield from _answer_claims(runs, tables["claims"])
    if len(tables["kinds"]):
        yield from _answer_kinds(runs, tables["kinds"])
    yield from _answer_measures(runs, tables["measures"])
    if len(tables["heads"]):
        yield _answer_heads(runs, tables["heads"])
    else:
        yield from _answer_depth(runs, tables["depth"])
    yield from _answer_best(runs, tables["measures"])


def _answer_claims(runs: Sequence[str], claims: pd.DataFrame) -> Iterator[str]:
    claims = claims[~claims["claim"].isin(added_claims())]
    verdicts = claims.pivot(index="claim", columns="run", values="verdict")
    judged = verdicts[(verdicts != "not measured").all(axis=1)]
    if not len(judged):
        return
    counts = []
    for run in runs:
        hold, fail, undecided = (
            int((judged[run] == verdict).sum())
            for verdict in ("holds", "does not hold", "undecided")
        )
        counts.append(f"in {run} {hold} hold, {fail} do not, {undecided} undecided")
    in_all = int((judged == "holds").all(axis=1).sum())
    decided = judged[judged.isin(["holds", "does not hold"]).all(axis=1)]
    n_split = int((decided.nunique(axis=1) > 1).sum())
    yield (
        f"{len(judged)} claims of the paper were measured in {_all(runs)}: {'; '.join(counts)}. "
        f"{in_all} hold in {_all(runs)}; {n_split} hold in one run but not in another."
    )


def split_kinds_by_run(kinds: pd.DataFrame) -> tuple[list[str], dict[str, list[str]], list[str]]:
    """Kinds of heads that all runs have, that each run alone has, and that none has.

    Kinds that some run did not measure are left out.
    """
    counts = kinds.pivot(index="kind", columns="run", values="heads")
    has = counts.loc[[*dict.fromkeys(kinds["kind"])], [*dict.fromkeys(kinds["run"])]].dropna() > 0
    alone = {run: list(has.index[has[run] & (has.sum(axis=1) == 1)]) for run in has.columns}
    return list(has.index[has.all(axis=1)]), alone, list(has.index[~has.any(axis=1)])


def _answer_kinds(runs: Sequence[str], kinds: pd.DataFrame) -> Iterator[str]:
    def some(names: Sequence[str]) -> str:
        n_more = len(names) - NAMED
        return join_words([*names[:NAMED], *[f"{n_more} more"] * (n_more > 0)])

    common, by_run, none = split_kinds_by_run(kinds)
    parts = [f"{_all(runs).capitalize()} have heads for {some(common)}"] if common else []
    parts += [f"only {run} has heads for {some(alone)}" for run, alone in by_run.items() if alone]
    parts += [f"none has heads for {some(none)}"] if none else []
    if parts:
        text = "; ".join(parts)
        yield f"{text[0].upper()}{text[1:]}."


def _answer_measures(runs: Sequence[str], measures: pd.DataFrame) -> Iterator[str]:
    tested = measures[measures["p_value"].notna()]
    if not len(tested):
        return
    sure = tested[tested["p_value"] < LEVEL]
    answer = (
        f"{len(sure):,} of {len(tested):,} differences in measures from {runs[0]} are significant "
        f"after Holm's correction (5 %)"
    )
    shares = sure[(sure["statistic"] == MEAN) & sure["measure"].isin(SHARES)]
    if len(shares):
        top = _largest(shares)
        answer += (
            f"; the largest mean change of a share is in {name_measure(top)}: "
            f"{_before_and_after(top, runs[0])} (p {p_value(top['p_value'])})"
        )
    yield f"{answer}."


def _answer_heads(runs: Sequence[str], heads: pd.DataFrame) -> str:
    sure = heads[heads["p_value"] < LEVEL]
    if not len(sure):
        return "No head differs from the head at the same place in the first run."
    run = sure["run"].iloc[0]  # the others are on the page
    part = sure[sure["run"] == run]
    n_heads = len(heads[heads["run"] == run][["layer", "head"]].drop_duplicates())
    n_changed = len(part[["layer", "head"]].drop_duplicates())
    shares = part[part["measure"].isin(SHARES)]
    top = _largest(shares if len(shares) else part)
    most = "by the largest share" if len(shares) else "most of all"
    return (
        f"{n_changed} of {n_heads} heads of {run} differ in some measure from the head at the "
        f"same place of {runs[0]}, {most} {top['layer']}-{top['head']} in "
        f"{name_measure(top)}: {write_number(top, top['first_value'])} there, "
        f"{write_number(top, top['value'])} here."
    )


def _answer_depth(runs: Sequence[str], depth: pd.DataFrame) -> Iterator[str]:
    sure = depth[(depth["p_value"] < LEVEL) & depth["measure"].isin(SHARES)]
    if len(sure):
        top = _largest(sure)
        yield (
            "The models have different shapes, so heads are compared by depth, and the best head "
            "of one with the best head of the other. By depth, the share that differs "
            f"most is that in the {top['depth']} of {name_measure(top)}: "
            f"{_before_and_after(top, runs[0])}."
        )


def _answer_best(runs: Sequence[str], measures: pd.DataFrame) -> Iterator[str]:
    rows = measures[(measures["measure"] == "heldout_accuracy") & (measures["statistic"] == VALUE)]
    tested = rows[rows["p_value"].notna()]
    if not len(tested):
        return
    sure = tested[tested["p_value"] < LEVEL]
    n_up, n_down = int((sure["difference"] > 0).sum()), int((sure["difference"] < 0).sum())
    top = _largest(sure if len(sure) else tested)
    yield (
        f"Best heads of {len(tested)} questions, held out: {n_up} better than in {runs[0]}, "
        f"{n_down} worse, "
        f"{len(tested) - len(sure)} not clearly different; the largest difference is for "
        f"{top['of']}: {_before_and_after(top, runs[0])}."
    )


def _largest(differences: pd.DataFrame) -> Any:
    """The row of the largest difference."""
    return differences.iloc[int(differences["difference"].abs().to_numpy().argmax())]


def _before_and_after(row: Any, first: str) -> str:
    before = write_number(row, row["value"] - row["difference"])
    return f"{before} in {first}, {write_number(row, row['value'])} in {row['run']}"


def name_measure(row: Any) -> str:
    """A measure as people can find it: table, column and labels."""
    of = f" ({row['of']})" if row["of"] else ""
    return f"{row['table']} {row['measure']}{of}"


def write_number(row: Any, value: float) -> str:
    """A number of the row's measure: a share in percent, others with three digits and their unit.

    >>> write_number({"measure": "nats"}, 0.94), write_number({"measure": "weight"}, 0.94)
    ('0.94 nats', '94 %')
    """
    if row["measure"] in SHARES:
        return write_percent(value)
    return (NATS if row["measure"] in IN_NATS else NUMBER).number(value)


def _all(runs: Sequence[str]) -> str:
    return "both" if len(runs) == 2 else f"all {len(runs)}"
