"""Checkpoints of one training: every measure over steps, and when claims begin to hold."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from headscope.arguments import checked
from headscope.comparison.findings import best_heads, claims_table, kinds_table
from headscope.comparison.load import Compared, Loaded, RunLike, load_runs, weights_of
from headscope.comparison.replicates import find_estimates, find_keys, split_keys
from headscope.errors import StudyError
from headscope.files import write_atomically
from headscope.runs.run import Run, RunTables, explain_damage
from headscope.view.answer import join_words
from headscope.view.claim import added_claims

__all__ = ["Series", "compare_series", "onset_table"]

SERIES_COLUMNS = (
    *("table", "measure", "of", "statistic", "step"),
    *("layer", "head", "value", "low", "high"),
)
ONSET_COLUMNS = ("what", "kind", "first_step", "from_step")
TRAINER_STATE = "trainer_state.json"


@dataclass(frozen=True)
class Series(Compared[int]):
    """Runs by training step, and what becomes of every number."""

    @checked
    def write(self, folder: str | Path) -> Path:
        """Write the tables and the page into a new or empty folder."""
        from headscope.comparison.page import render_series  # altair: only to show it

        target = self.write_tables(folder) / "compare.html"
        write_atomically(target, render_series(self).encode())
        return target


@checked
def compare_series(
    runs: Sequence[RunLike], *, steps: Sequence[int] | None = None, out: str | Path | None = None
) -> Series:
    """Runs of checkpoints in order of their steps: given, or from the names, or from the trainer.

    A step is the last number in a folder's name, or `global_step` of trainer_state.json in the
    folder of the run or of its model.
    """
    if steps is not None and len(steps) != len(runs):
        raise StudyError(
            f"{len(steps)} steps were given for {len(runs)} runs. Expected one for each, in the "
            "order of the runs; correct --steps."
        )
    folders = [run.folder if isinstance(run, Run) else Path(run) for run in runs]
    given = dict(zip(map(str, folders), () if steps is None else steps, strict=False))
    loaded = load_runs(list(runs), out=out)
    of_run = {
        name: find_step(run) if steps is None else given[str(run.folder)]
        for name, run in loaded.runs.items()
    }
    twice = [step for step in of_run.values() if list(of_run.values()).count(step) > 1]
    if twice:
        names = [name for name, step in of_run.items() if step == twice[0]]
        raise StudyError(
            f"{' and '.join(names)} are both of step {twice[0]}. Expected one run for each step; "
            "leave one out, or give --steps."
        )
    ordered = {of_run[name]: loaded.runs[name] for name in sorted(of_run, key=lambda n: of_run[n])}
    with explain_damage(*loaded.runs.values()):
        made = _make(ordered, loaded)
        if out is not None:
            made.write(out)
    return made


def find_step(run: Run) -> int:
    """The training step of a checkpoint's run."""
    folder, model = Path(str(run.folder)), Path(str(run.manifest["model"]["name"]))
    for place in (folder, model):
        for number in reversed(re.findall(r"\d+", place.name)):
            return int(number)
    for place in (folder, model):
        try:
            return int(json.loads((place / TRAINER_STATE).read_text())["global_step"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
    raise StudyError(
        f"The training step of {folder} is not known: its name has no number and there is no "
        f"{TRAINER_STATE}. Expected a name such as step-1000; rename the folder, or give --steps."
    )


def _make(runs: dict[int, Run], loaded: Loaded) -> Series:
    named = {str(step): run for step, run in runs.items()}
    claims, kinds = claims_table(named), kinds_table(named)
    best = best_heads(named)
    by_step = {
        name: table.assign(step=table["run"].astype(int)).drop(columns="run")
        for name, table in {"claims": claims, "kinds": kinds, "best": best}.items()
    }
    weights = pd.DataFrame(
        [(step, str(run.folder), weights_of(run)) for step, run in runs.items()],
        columns=["step", "folder", "weights"],
    )
    tables = RunTables(
        {
            **by_step,
            "series": _series_table(runs),
            "onsets": onset_table(by_step["claims"], by_step["kinds"]),
            "checkpoints": weights,
        }
    )
    same = [list(part["step"]) for _, part in weights.groupby("weights") if len(part) > 1]
    notes = [
        *(note for note in loaded.notes if "same weights" not in note),
        *(f"Steps {join_words([*map(str, steps)])} have the same weights." for steps in same),
    ]
    answers = list(_answer(tables))
    return Series(runs, tables, answers, notes, loaded.left_out)


def _series_table(runs: Mapping[int, Run]) -> pd.DataFrame:
    """Every measure of every table by step: the number, or over heads the mean and the largest."""
    parts = [part for step, run in runs.items() for part in _measures_of(step, run)]
    columns = list(SERIES_COLUMNS)
    table = pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)
    keys = columns[:4]
    return table.sort_values([*keys, "step"], kind="stable").reset_index(drop=True)


def _measures_of(step: int, run: Run) -> Iterator[pd.DataFrame]:
    for name, table in run.tables.items():
        estimates = find_estimates(table)
        if not len(table) or not estimates:
            continue
        where, labels = split_keys(find_keys(table))
        of = pd.Series("", index=table.index)
        for key in labels:
            of = of + ", " * (key != labels[0]) + f"{key} " + table[key].astype(str)
        places = list(table.columns)
        for column in estimates:
            low, high = places[places.index(column) + 1 : places.index(column) + 3]
            own = pd.DataFrame({"of": of, "value": table[column].astype(float)})
            own = own.assign(table=name, measure=column, step=step)
            own = own.assign(low=table[low].astype(float), high=table[high].astype(float))
            own = own.assign(layer=table.get("layer"), head=table.get("head"))
            own = own[own["value"].notna()]
            if not where:
                yield own.assign(statistic="value")
            elif len(own):
                mean = own.groupby(["table", "measure", "of", "step"], sort=False)["value"].mean()
                none: dict[str, Any] = {"layer": pd.NA, "head": pd.NA}
                nan = float("nan")
                yield mean.reset_index().assign(statistic="mean", low=nan, high=nan, **none)
                if set(where) == {"layer", "head"}:
                    top = own.groupby("of", sort=False)["value"].idxmax()
                    yield own.loc[top].assign(statistic="largest head")


def onset_table(claims: pd.DataFrame, kinds: pd.DataFrame) -> pd.DataFrame:
    """When each claim first holds, and from when on it holds at every later step; so for kinds of
    heads. Empty where it never does; claims that no checkpoint could judge are left out."""
    rows = []
    judged = claims[claims["verdict"] != "not measured"]["claim"]
    for claim, part in claims[claims["claim"].isin(judged)].groupby("claim", sort=False):
        rows.append((claim, "claim", *_onset(part["step"], part["verdict"] == "holds")))
    for kind, part in kinds.groupby("kind", sort=False):
        rows.append((kind, "heads", *_onset(part["step"], part["heads"] > 0)))
    table = pd.DataFrame(rows, columns=list(ONSET_COLUMNS))
    return table.astype({"first_step": "Int64", "from_step": "Int64"})


def _onset(steps: pd.Series, holds: pd.Series) -> tuple[int | None, int | None]:
    """The first step at which it holds, and the first from which on it always does."""
    ordered = sorted(zip(steps.astype(int), holds.astype(bool), strict=True))
    first = next((step for step, held in ordered if held), None)
    lasting = None
    for step, held in reversed(ordered):
        if not held:
            break
        lasting = step
    return first, lasting


def _answer(tables: Mapping[str, pd.DataFrame]) -> Iterator[str]:
    """Claims at both ends, which heads come first, and what is lost again."""
    claims, onsets = tables["claims"], tables["onsets"]
    steps = sorted(set(claims["step"]))
    is_held = (claims["verdict"] == "holds") & ~claims["claim"].isin(added_claims())
    held = claims[is_held].groupby("step")["claim"].count()
    yield (
        f"{held.get(steps[0], 0)} claims of the paper hold at step {steps[0]:,}, "
        f"{held.get(steps[-1], 0)} at step {steps[-1]:,} ({len(steps)} checkpoints)."
    )
    kinds = onsets[(onsets["kind"] == "heads") & onsets["from_step"].notna()]
    come = kinds[kinds["from_step"] > steps[0]].sort_values("from_step", kind="stable")
    if len(come):
        said = [f"{row.what} at {row.from_step:,}" for row in come.head(6).itertuples()]
        yield f"Heads appear, and stay, in this order: {', '.join(said)}."
    there = kinds[kinds["from_step"] == steps[0]]["what"]
    if len(there):
        yield f"Heads for {join_words(list(there[:6]))} are there from the first checkpoint on."
    own = onsets[onsets["kind"] == "claim"]
    new = own[own["from_step"] > steps[0]]
    if len(new):
        when = new["from_step"].value_counts().sort_index()
        said = [f"{count} at step {step:,}" for step, count in when.items()]
        yield f"Claims begin to hold: {', '.join(said)}."
    lost = own[own["first_step"].notna() & own["from_step"].isna()]
    if len(lost):
        some = join_words(list(lost["what"][:4]))
        yield f"{len(lost)} claims hold at some step and not at the last, such as {some}."
