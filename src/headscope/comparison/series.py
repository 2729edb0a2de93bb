"""Checkpoints of one training: every measure over steps, and when claims begin to hold."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from itertools import takewhile
from operator import itemgetter
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
    kinds_table,
    load_runs,
    weights_of,
)
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
    loaded = load_runs(list(runs), out=out)
    if steps is None:
        of_run = {name: find_step(run) for name, run in loaded.runs.items()}
    else:
        folders = [str(run.folder if isinstance(run, Run) else Path(run)) for run in runs]
        given = dict(zip(folders, steps, strict=True))
        of_run = {name: given[str(run.folder)] for name, run in loaded.runs.items()}
    for step, count in Counter(of_run.values()).items():
        if count > 1:
            names = [name for name, of_name in of_run.items() if of_name == step]
            raise StudyError(
                f"{' and '.join(names)} are both of step {step}. Expected one run for each step; "
                "leave one out, or give --steps."
            )
    ordered = {of_run[name]: loaded.runs[name] for name in sorted(of_run, key=of_run.__getitem__)}
    with explain_damage(*loaded.runs.values()):
        series = _make(ordered, loaded)
        if out is not None:
            series.write(out)
    return series


def find_step(run: Run) -> int:
    """The training step of a checkpoint's run."""
    paths = Path(str(run.folder)), Path(str(run.manifest["model"]["name"]))
    for path in paths:
        if numbers := re.findall(r"\d+", path.name):
            return int(numbers[-1])
    for path in paths:
        with suppress(OSError, ValueError, KeyError, TypeError):
            return int(json.loads((path / TRAINER_STATE).read_text())["global_step"])
    raise StudyError(
        f"The training step of {paths[0]} is not known: its name has no number and there is no "
        f"{TRAINER_STATE}. Expected a name such as step-1000; rename the folder, or give --steps."
    )


def _make(runs: dict[int, Run], loaded: Loaded) -> Series:
    named = {str(step): run for step, run in runs.items()}
    by_step = {
        name: table.assign(step=table["run"].astype(int)).drop(columns="run")
        for name, table in {
            "claims": claims_table(named),
            "kinds": kinds_table(named),
            "best": best_heads(named),
        }.items()
    }
    weights = pd.DataFrame(
        [(step, str(run.folder), weights_of(run)) for step, run in runs.items()],
        columns=["step", "folder", "weights"],
    )
    parts = [part for step, run in runs.items() for part in _measures_of(step, run)]
    columns = list(SERIES_COLUMNS)
    table = pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)
    onsets = onset_table(by_step["claims"], by_step["kinds"])
    tables = RunTables(
        {
            **by_step,
            "series": table.sort_values(columns[:5], kind="stable").reset_index(drop=True),
            "onsets": onsets,
            "checkpoints": weights,
        }
    )
    same = [list(part["step"]) for _, part in weights.groupby("weights") if len(part) > 1]
    notes = [
        *(note for note in loaded.notes if "same weights" not in note),
        *(f"Steps {join_words([*map(str, steps)])} have the same weights." for steps in same),
    ]
    return Series(runs, tables, list(_answer(by_step["claims"], onsets)), notes, loaded.left_out)


def _measures_of(step: int, run: Run) -> Iterator[pd.DataFrame]:
    """Every measure of every table: the number, or over heads the mean and the largest."""
    unknown: dict[str, Any] = {
        "low": float("nan"),
        "high": float("nan"),
        "layer": pd.NA,
        "head": pd.NA,
    }
    for name, table in run.tables.items():
        if not len(table) or not find_estimates(table):
            continue
        of_heads, labels = split_keys(find_keys(table))
        texts = [f"{label} " + table[label].astype(str) for label in labels]
        of = reduce(lambda text, more: text + ", " + more, texts) if texts else ""
        columns = list(table.columns)
        for column in find_estimates(table):
            ends = columns[columns.index(column) + 1 :][:2]
            value, low, high = (table[name].astype(float) for name in (column, *ends))
            rows = pd.DataFrame({"value": value, "low": low, "high": high, "of": of})
            rows = rows.assign(table=name, measure=column, step=step)
            rows = rows.assign(layer=table.get("layer"), head=table.get("head"))
            rows = rows[rows["value"].notna()]
            if not of_heads:
                yield rows.assign(statistic="value")
            elif len(rows):
                mean = rows.groupby(["table", "measure", "of", "step"], sort=False)["value"].mean()
                yield mean.reset_index().assign(statistic="mean", **unknown)
                if set(of_heads) == {"layer", "head"}:
                    top = rows.groupby("of", sort=False)["value"].idxmax()
                    yield rows.loc[top].assign(statistic="largest head")


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
    lasting = [step for step, _ in takewhile(itemgetter(1), reversed(ordered))]
    return first, min(lasting, default=None)


def _answer(claims: pd.DataFrame, onsets: pd.DataFrame) -> Iterator[str]:
    """Claims at both ends, which heads come first, and what is lost again."""
    steps = sorted(set(claims["step"]))
    is_held = (claims["verdict"] == "holds") & ~claims["claim"].isin(added_claims())
    held = claims[is_held].groupby("step")["claim"].count()
    yield (
        f"{held.get(steps[0], 0)} claims of the paper hold at step {steps[0]:,}, "
        f"{held.get(steps[-1], 0)} at step {steps[-1]:,} ({len(steps)} checkpoints)."
    )
    kinds = onsets[(onsets["kind"] == "heads") & onsets["from_step"].notna()]
    new_kinds = kinds[kinds["from_step"] > steps[0]].sort_values("from_step", kind="stable")
    if len(new_kinds):
        listed = [f"{row.what} at {row.from_step:,}" for row in new_kinds.head(6).itertuples()]
        yield f"Heads appear, and stay, in this order: {', '.join(listed)}."
    old_kinds = kinds[kinds["from_step"] == steps[0]]["what"]
    if len(old_kinds):
        yield f"Heads for {join_words(list(old_kinds[:6]))} are there from the first checkpoint on."
    of_claims = onsets[onsets["kind"] == "claim"]
    new_claims = of_claims[of_claims["from_step"] > steps[0]]
    if len(new_claims):
        when = new_claims["from_step"].value_counts().sort_index()
        listed = [f"{count} at step {step:,}" for step, count in when.items()]
        yield f"Claims begin to hold: {', '.join(listed)}."
    lost = of_claims[of_claims["first_step"].notna() & of_claims["from_step"].isna()]
    if len(lost):
        some = join_words(list(lost["what"][:4]))
        yield f"{len(lost)} claims hold at some step and not at the last, such as {some}."
