"""Runs read for comparison: what cannot be compared is left out or refused; and what each run has.

Every comparison of them gives tables, and what these say in short.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from glob import glob
from logging import getLogger
from pathlib import Path
from typing import Any, Generic, TypeVar

import pandas as pd

from headscope.comparison.replicates import Replicates, find_keys, put_together
from headscope.errors import HeadscopeError, OutputError, StudyError
from headscope.runs.folder import RunFolder
from headscope.runs.manifest import numbers_of
from headscope.runs.run import Run, load_run
from headscope.view.judge import Outcome, PairClaim, Replicated
from headscope.view.presentation import list_specs
from headscope.view.specs import Behaviour

__all__ = [
    "Compared", "Loaded", "RunLike", "best_heads", "claims_table", "different_options", "find_runs",
    "judge_pairs", "kinds_table", "load_runs", "weights_of",
]  # fmt: skip

log = getLogger("headscope")

RunLike = str | Path | Run
Key = TypeVar("Key")

CLAIM_COLUMNS = ["claim", "section", "says", "run", "verdict", "shows"]
KIND_COLUMNS = ["kind", "run", "heads", "layer", "head", "share", "low", "high"]
BEST_COLUMNS = ["table", "of", "run", "layer", "head", "value", "low", "high", "chosen_in", "folds"]
BEST_HEADS = frozenset({"layer", "head", "heldout_accuracy", "heldout_low", "heldout_high"})


@dataclass(frozen=True)
class Loaded:
    """Runs by the names that tables and figures call them; and what must be known of them."""

    runs: dict[str, Run]
    notes: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)  # folder -> why


@dataclass(frozen=True)
class Compared(Generic[Key]):
    """Tables over several runs, and what they say in short."""

    runs: dict[Key, Run]
    tables: dict[str, pd.DataFrame]
    answers: list[str]
    notes: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)

    def write_tables(self, folder: str | Path) -> Path:
        """Write the tables into a new or empty folder."""
        store = RunFolder(Path(folder))
        store.refuse_if_taken()
        store.create()
        for name, table in self.tables.items():
            store.write_table(name, table)
        return store.path


def load_runs(
    given: Sequence[RunLike],
    least: int = 2,
    same_weights: bool = True,
    out: str | Path | None = None,
) -> Loaded:
    """Read these runs; a damaged or unfinished one is left out and named, if enough others are.

    `same_weights`: attention and norm-weighted attention may not stand beside each other. `out`,
    where their comparison will be written, must be new or empty: checked before any work.
    """
    if out is not None:
        RunFolder(Path(out)).refuse_if_taken()
    folders = [str(run.folder or id(run)) if isinstance(run, Run) else str(run) for run in given]
    for path, count in Counter(str(Path(folder).resolve()) for folder in folders).items():
        if count > 1:
            raise StudyError(
                f"{path} was given {count} times. Expected different runs; a run does not differ "
                "from itself. Leave the repetition out."
            )
    runs: dict[str, Run] = {}
    left_out: dict[str, str] = {}
    for folder, run in zip(folders, given, strict=True):
        try:
            runs[folder] = run if isinstance(run, Run) else load_run(run)
        except HeadscopeError as error:
            left_out[folder] = str(error)
    if len(runs) < least:
        if left_out:
            raise OutputError(" ".join(left_out.values()))
        raise StudyError(
            f"{len(runs)} {'run was' if len(runs) == 1 else 'runs were'} given. Expected {least} "
            "or more folders that `headscope analyze --out` wrote."
        )
    if same_weights:
        _refuse_other_weights(runs)
    for folder, reason in left_out.items():
        log.warning("%s is left out: %s", folder, reason)
    return Loaded(dict(zip(_name_runs(runs), runs.values(), strict=True)), _note(runs), left_out)


def find_runs(pattern: str) -> list[Path]:
    """The folders of runs that a pattern such as runs/step-* finds, in order of their names."""
    folders = [Path(path) for path in sorted(glob(pattern)) if Path(path).is_dir()]
    if not folders:
        raise StudyError(
            f"{pattern} matches no folder. Expected a pattern for folders of runs, in quotes, such "
            f"as "
            '"runs/step-*"; check it.'
        )
    return folders


def weights_of(run: Run) -> str:
    """The hash that names a run's weights."""
    return str(run.manifest["model"].get("digest", ""))


def _name_runs(runs: Mapping[str, Run]) -> list[str]:
    """Short names: those of the models where they differ, else of the folders, else their paths."""
    models = [str(run.manifest["model"]["name"]) for run in runs.values()]
    short = [
        Path(name.rstrip("/")).name
        if name.startswith(("/", "./", "../")) or "\\" in name  # a path
        else name
        for name in models
    ]
    choices = [short, [Path(folder).name for folder in runs], [str(Path(f)) for f in runs]]
    return next((names for names in choices if len(set(names)) == len(names)), choices[-1])


def _refuse_other_weights(runs: Mapping[str, Run]) -> None:
    """Attention against norm-weighted attention: of one model a question, of two a confusion."""
    kinds = {f: r.manifest["model"].get("weights", "attention") for f, r in runs.items()}
    if len(set(kinds.values())) > 1 and len({weights_of(run) for run in runs.values()}) > 1:
        listed = ", ".join(f"{folder}: {kind}" for folder, kind in kinds.items())
        raise StudyError(
            f"The runs measured different weights ({listed}), of different models, so a difference "
            f"could come from either. Expected the same --weights or the same model; run "
            f"`headscope analyze` again with the same --weights."
        )


def _note(runs: Mapping[str, Run]) -> list[str]:
    """What differs between the runs beside their models."""
    manifests = {folder: run.manifest for folder, run in runs.items()}
    notes = []
    versions = {f: m.get("versions", {}).get("headscope", "") for f, m in manifests.items()}
    if len(set(versions.values())) > 1:
        listed = ", ".join(f"{folder} {version}" for folder, version in versions.items())
        notes.append(f"The runs were made by different versions of headscope ({listed}).")
    options = [numbers_of(manifest["options"]) for manifest in manifests.values()]
    for name in dict.fromkeys(name for of_run in options for name in of_run):
        values = [of_run.get(name) for of_run in options]
        if any(value != values[0] for value in values):
            listed = ", ".join(f"{f}: {v}" for f, v in zip(runs, values, strict=True))
            notes.append(f"The runs differ in the option {name} ({listed}).")
    digests: dict[str, list[str]] = {}
    for folder, run in runs.items():
        digests.setdefault(weights_of(run), []).append(folder)
    alike = (same for same in digests.values() if len(same) > 1)
    return notes + [f"{' and '.join(same)} have the same weights." for same in alike]


def different_options(runs: Mapping[str, Run]) -> dict[str, str]:
    """Analyses that were done with different options, so that their numbers do not compare."""
    described: dict[str, list[Any]] = {}
    for run in runs.values():
        for name, options in run.manifest.get("analyses", {}).items():
            described.setdefault(name, []).append(options)
    return {
        name: f"{name!r} was measured with different options: "
        + " against ".join(dict.fromkeys(map(str, of_runs)))
        for name, of_runs in described.items()
        if any(options != of_runs[0] for options in of_runs)
    }


# What each run has: claims that hold, kinds of heads, and the best head of each question.


def claims_table(runs: Mapping[str, Run]) -> pd.DataFrame:
    """Runs x claims, in rows: the verdict and its numbers in words."""
    rows = [
        (f.claim.name, f.claim.section, f.claim.says, name, f.verdict, f.shows)
        for findings in zip(*(run.findings for run in runs.values()), strict=True)
        for name, f in zip(runs, findings, strict=True)
    ]
    return pd.DataFrame(rows, columns=CLAIM_COLUMNS)


def judge_pairs(replicates: Mapping[str, Replicates], runs: Sequence[str]) -> pd.DataFrame:
    """The claims about two models, in the columns of claims: the first run with each other."""
    rows = []
    for claim in list_specs(PairClaim):
        sides = {
            name: Replicated(
                of_run.tables[claim.needs[0]].reset_index(), of_run.values[claim.needs]
            )
            for name, of_run in replicates.items()
            if claim.needs in of_run.values
        }
        for name in runs:
            if name == runs[0]:
                outcome = Outcome("not measured", "It is about two models: see the other runs.")
            elif runs[0] in sides and name in sides:
                outcome = claim.check(sides[runs[0]], sides[name])
            else:
                lacks = f"A run lacks the table {claim.needs[0]} or its sums."
                outcome = Outcome("not measured", lacks)
            of_claim = (claim.name, claim.section, claim.says)
            rows.append((*of_claim, name, outcome.verdict, outcome.shows))
    return pd.DataFrame(rows, columns=CLAIM_COLUMNS)


def kinds_table(runs: Mapping[str, Run]) -> pd.DataFrame:
    """How many heads of each kind every run has, and the strongest of them.

    A kind is a behaviour whose share passes its threshold, or something that a head finds, such as
    a relation. Of an encoder-decoder the encoder counts. What was not measured is absent, and so
    is something that no head of any run finds.
    """
    rows: list[dict[str, Any]] = []
    for name, run in runs.items():
        for part in next(iter(run.labelled.values())):
            ranked = part.sort_values("share", ascending=False, kind="stable")
            strongest = {row["label"]: row for row in reversed(ranked.to_dict("records"))}
            counts = Counter(part["label"][part["is_known"].astype(bool)])
            for label in dict.fromkeys(part["label"]):
                top = strongest[label]
                numbers = {n: float(top.get(n, float("nan"))) for n in ("share", "low", "high")}
                head = {"layer": int(top["layer"]), "head": int(top["head"])}
                of_label = {"kind": str(label), "run": name, "heads": counts[label]}
                rows.append(of_label | head | numbers)
    measured = {behaviour.name for behaviour in list_specs(Behaviour)}
    kinds = measured | {row["kind"] for row in rows if row["heads"]}
    rows = [row for row in rows if row["kind"] in kinds]
    return put_together(pd.DataFrame(rows, columns=KIND_COLUMNS), ["kind"])


def best_heads(runs: Mapping[str, Run]) -> pd.DataFrame:
    """From every table of best heads, the head of each row in every run and its held-out number.

    These are the tables that name a head in a row without being about all heads.
    """
    rows: list[dict[str, Any]] = []
    for name, run in runs.items():
        for table, frame in run.tables.items():
            if not len(frame) or not set(frame.columns) >= BEST_HEADS:
                continue
            keys = find_keys(frame)
            rows += (
                {
                    "table": table,
                    "of": ", ".join(str(row[key]) for key in keys),
                    "run": name,
                    "layer": int(row["layer"]),
                    "head": int(row["head"]),
                    "value": row["heldout_accuracy"],
                    "low": row["heldout_low"],
                    "high": row["heldout_high"],
                    "chosen_in": row.get("chosen_in"),
                    "folds": row.get("folds"),
                }
                for row in frame[frame["layer"].notna()].to_dict("records")
            )
    return put_together(pd.DataFrame(rows, columns=BEST_COLUMNS), ["table", "of"])
