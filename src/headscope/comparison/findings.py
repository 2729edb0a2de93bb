"""What each run has: claims that hold, kinds of heads, and the best head of each question."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from headscope.comparison.replicates import Replicates, find_keys
from headscope.data.table import split_kinds
from headscope.registry import load_presentations
from headscope.runs.run import Run
from headscope.view.behaviour import behaviour_table, list_behaviours, list_labels
from headscope.view.claim import Finding, Outcome, PairClaim, Replicated, check_claims

__all__ = ["best_heads", "check_runs", "claims_table", "judge_pairs", "kinds_table"]

CLAIM_COLUMNS = ("claim", "section", "says", "run", "verdict", "shows")
KIND_COLUMNS = ("kind", "run", "heads", "layer", "head", "share", "low", "high")
BEST_COLUMNS = ("table", "of", "run", "layer", "head", "value", "low", "high", "chosen_in", "folds")
HELD_OUT = ("heldout_accuracy", "heldout_low", "heldout_high")


def check_runs(runs: Mapping[str, Run]) -> dict[str, list[Finding]]:
    """What every run shows of every claim."""
    return {name: check_claims(run.tables, run.untrained) for name, run in runs.items()}


def claims_table(findings: Mapping[str, list[Finding]]) -> pd.DataFrame:
    """Runs x claims, in rows: the verdict and its numbers in words."""
    rows = [
        (f.claim.name, f.claim.section, f.claim.says, name, f.verdict, f.shows)
        for place in range(len(next(iter(findings.values()))))
        for name, found in findings.items()
        for f in [found[place]]
    ]
    return pd.DataFrame(rows, columns=list(CLAIM_COLUMNS))


def judge_pairs(found: Mapping[str, Replicates], runs: Sequence[str]) -> pd.DataFrame:
    """The claims about two models, in the columns of claims: the first run with each other."""
    claims: list[PairClaim] = [
        claim for shown in load_presentations().values() for claim in shown.pair_claims
    ]
    first, *others = runs
    rows = []
    for claim in claims:
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
        own = next(iter(split_kinds(run.tables).values()))
        measured = behaviour_table(own)
        for kind, part in measured.groupby("behaviour", sort=False):
            rows.append(_strongest(str(kind), name, part, int(part["holds"].astype(bool).sum())))
        for labels in list_labels():
            found = labels.find(own)
            known = found[found["is_known"].astype(bool)] if len(found) else found
            for label, part in found.groupby("label", sort=False) if len(found) else ():
                n_known = int((known["label"] == label).sum())
                rows.append(_strongest(str(label), name, part, n_known))
    measured_kinds = {behaviour.name for behaviour in list_behaviours()}
    found_kinds = {row["kind"] for row in rows if row["heads"]}
    rows = [row for row in rows if row["kind"] in measured_kinds | found_kinds]
    table = pd.DataFrame(rows, columns=list(KIND_COLUMNS))
    order = {kind: place for place, kind in enumerate(dict.fromkeys(table["kind"]))}
    return table.sort_values("kind", key=lambda k: k.map(order), kind="stable").reset_index(
        drop=True
    )


def _strongest(kind: str, run: str, part: pd.DataFrame, n_heads: int) -> dict[str, Any]:
    top = part.sort_values("share", ascending=False, kind="stable").iloc[0]
    return {
        "kind": kind,
        "run": run,
        "heads": n_heads,
        "layer": int(top["layer"]),
        "head": int(top["head"]),
        **{name: float(top.get(name, float("nan"))) for name in ("share", "low", "high")},
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
            keys = find_keys([frame])
            for row in frame[frame["layer"].notna()].to_dict("records"):
                rows.append(
                    {
                        "table": table,
                        "of": ", ".join(str(row[key]) for key in keys),
                        "run": name,
                        "layer": int(row["layer"]),
                        "head": int(row["head"]),
                        **dict(
                            zip(("value", "low", "high"), (row[c] for c in HELD_OUT), strict=True)
                        ),
                        "chosen_in": row.get("chosen_in"),
                        "folds": row.get("folds"),
                    }
                )
    table_ = pd.DataFrame(rows, columns=list(BEST_COLUMNS))
    return _in_order(table_, lambda row: (row.table, row.of))


def _in_order(table: pd.DataFrame, key: Callable[[Any], Any]) -> pd.DataFrame:
    """Rows of the same thing one under the other, things in the order they came."""
    things = [key(row) for row in table.itertuples(index=False)]
    order = {thing: place for place, thing in enumerate(dict.fromkeys(things))}
    ranks = pd.Series([order[thing] for thing in things], index=table.index, dtype=int)
    return table.loc[ranks.sort_values(kind="stable").index].reset_index(drop=True)
