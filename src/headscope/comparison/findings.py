"""What each run has: claims that hold, kinds of heads, and the best head of each question."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import compress
from typing import Any

import pandas as pd

from headscope.comparison.replicates import Replicates, find_keys, put_together
from headscope.runs.run import Run
from headscope.view.judge import Replicated
from headscope.view.presentation import list_specs
from headscope.view.specs import Behaviour, Outcome, PairClaim

__all__ = ["best_heads", "claims_table", "judge_pairs", "kinds_table"]

CLAIM_COLUMNS = ("claim", "section", "says", "run", "verdict", "shows")
KIND_COLUMNS = ("kind", "run", "heads", "layer", "head", "share", "low", "high")
BEST_COLUMNS = ("table", "of", "run", "layer", "head", "value", "low", "high", "chosen_in", "folds")
HELD_OUT = ("heldout_accuracy", "heldout_low", "heldout_high")


def claims_table(runs: Mapping[str, Run]) -> pd.DataFrame:
    """Runs x claims, in rows: the verdict and its numbers in words."""
    rows = [
        (f.claim.name, f.claim.section, f.claim.says, name, f.verdict, f.shows)
        for found in zip(*(run.findings for run in runs.values()), strict=True)
        for name, f in zip(runs, found, strict=True)
    ]
    return pd.DataFrame(rows, columns=list(CLAIM_COLUMNS))


def judge_pairs(found: Mapping[str, Replicates], runs: Sequence[str]) -> pd.DataFrame:
    """The claims about two models, in the columns of claims: the first run with each other."""
    first, *others = runs
    rows = []
    for claim in list_specs(PairClaim):
        alone = Outcome("not measured", "It is about two models: see the other runs.")
        outcomes = {first: alone} | {
            name: _judge_pair(claim, found.get(first), found.get(name)) for name in others
        }
        rows += [
            (claim.name, claim.section, claim.says, name, outcome.verdict, outcome.shows)
            for name, outcome in outcomes.items()
        ]
    return pd.DataFrame(rows, columns=list(CLAIM_COLUMNS))


def _judge_pair(claim: PairClaim, *runs: Replicates | None) -> Outcome:
    sides = [
        Replicated(run.tables[claim.needs[0]].reset_index(), run.values[claim.needs])
        for run in runs
        if run is not None and claim.needs in run.values
    ]
    if len(sides) < len(runs):
        return Outcome("not measured", f"A run lacks the table {claim.needs[0]} or its sums.")
    return claim.check(*sides)


def kinds_table(runs: Mapping[str, Run]) -> pd.DataFrame:
    """How many heads of each kind every run has, and the strongest of them.

    A kind is a behaviour whose share passes its threshold, or something that a head finds, such as
    a relation. Of an encoder-decoder the encoder counts. What was not measured is absent, and so
    is something that no head of any run finds.
    """
    rows: list[dict[str, Any]] = []
    for name, run in runs.items():
        for part in next(iter(run.labelled.values())):
            rows += _find_strongest(name, part)
    measured_kinds = {behaviour.name for behaviour in list_specs(Behaviour)}
    found_kinds = {row["kind"] for row in rows if row["heads"]}
    rows = [row for row in rows if row["kind"] in measured_kinds | found_kinds]
    return put_together(pd.DataFrame(rows, columns=list(KIND_COLUMNS)), ["kind"])


def _find_strongest(run: str, labelled: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """The strongest head of each label, in the order of labels, and how many heads count."""
    labels = labelled["label"].tolist()
    counts = Counter(compress(labels, labelled["is_known"].tolist()))
    ranked = labelled.sort_values("share", ascending=False, kind="stable")
    top = {row["label"]: row for row in reversed(ranked.to_dict("records"))}  # the first stays
    for label in dict.fromkeys(labels):
        yield {
            "kind": str(label),
            "run": run,
            "heads": counts[label],
            "layer": int(top[label]["layer"]),
            "head": int(top[label]["head"]),
            **{n: float(top[label].get(n, float("nan"))) for n in ("share", "low", "high")},
        }


def best_heads(runs: Mapping[str, Run]) -> pd.DataFrame:
    """From every table of best heads, the head of each row in every run and its held-out number.

    These are the tables that name a head in a row without being about all heads.
    """
    rows: list[dict[str, Any]] = []
    for name, run in runs.items():
        for table, frame in run.tables.items():
            if not len(frame) or not {"layer", "head", *HELD_OUT} <= set(frame.columns):
                continue
            keys = find_keys(frame)
            for row in frame[frame["layer"].notna()].to_dict("records"):
                rows.append(
                    {
                        "table": table,
                        "of": ", ".join(str(row[key]) for key in keys),
                        "run": name,
                        "layer": int(row["layer"]),
                        "head": int(row["head"]),
                        **{name: row[f"heldout_{name}"] for name in ("low", "high")},
                        "value": row["heldout_accuracy"],
                        "chosen_in": row.get("chosen_in"),
                        "folds": row.get("folds"),
                    }
                )
    return put_together(pd.DataFrame(rows, columns=list(BEST_COLUMNS)), ["table", "of"])
