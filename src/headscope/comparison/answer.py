"""The answer of a comparison in a few sentences, read off its tables."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from headscope.comparison.measures import MEAN, VALUE
from headscope.view.answer import join_words, write_percent
from headscope.view.claim import added_claims
from headscope.view.numbers import Form, p_value

__all__ = ["answer_comparison", "has_kind", "name_measure", "split_kinds_by_run", "write_number"]

LEVEL = 0.05
NAMED = 4  # things named in a sentence
NUMBER = Form(".3g", to=" to ")
NATS = Form(".3g", unit=" nats")
# The measures that are shares, by the names of their columns, and those in nats.
SHARES = frozenset({
    "weight", "share", "flat_rows", "accuracy", "heldout_accuracy", "split", "aer", "precision",
    "recall", "uas", "uas_with_punctuation", "uuas", "mst_uas", "las",
})  # fmt: skip
IN_NATS = frozenset({"nats", "divergence"})
HELD_OUT = "heldout_accuracy"


def answer_comparison(runs: Sequence[str], tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """What a reader wants to know first: claims, kinds of heads, measures, heads, best heads."""
    found = [
        *_answer_claims(runs, tables["claims"]),
        *_answer_kinds(runs, tables["kinds"]),
        *_answer_measures(runs, tables["measures"]),
        *_answer_heads(runs, tables["heads"], tables["depth"]),
        *_answer_best(runs, tables["best"], tables["measures"]),
    ]
    return found or ["The runs have nothing in common that could be compared."]


def _answer_claims(runs: Sequence[str], claims: pd.DataFrame) -> Iterator[str]:
    claims = claims[~claims["claim"].isin(added_claims())]
    verdicts = claims.pivot(index="claim", columns="run", values="verdict")
    judged = verdicts[(verdicts != "not measured").all(axis=1)]
    if not len(judged):
        return
    counts = [f"in {run} {_count_decided(judged[run])}" for run in runs]
    in_all = int((judged == "holds").all(axis=1).sum())
    decided = judged[judged.isin(["holds", "does not hold"]).all(axis=1)]
    n_split = int((decided.nunique(axis=1) > 1).sum())
    yield (
        f"{len(judged)} claims of the paper were measured in {_all(runs)}: {'; '.join(counts)}. "
        f"{in_all} hold in {_all(runs)}; {n_split} hold in one run but not in another."
    )


def _count_decided(verdicts: "pd.Series[str]") -> str:
    counts = verdicts.value_counts()
    hold, fail, undecided = (
        counts.get(verdict, 0) for verdict in ("holds", "does not hold", "undecided")
    )
    return f"{hold} hold, {fail} do not, {undecided} undecided"


def has_kind(kinds: pd.DataFrame) -> pd.DataFrame:
    """Kinds x runs: whether a run has a head of the kind; missing where it was not measured."""
    counts = kinds.pivot(index="kind", columns="run", values="heads")
    order = list(dict.fromkeys(kinds["kind"]))
    return counts.loc[order, [*dict.fromkeys(kinds["run"])]]


def split_kinds_by_run(kinds: pd.DataFrame) -> tuple[list[str], dict[str, list[str]], list[str]]:
    """Kinds of heads that all runs have, that each run alone has, and that none has."""
    counts = has_kind(kinds).dropna()
    has = counts > 0
    own = {run: list(has.index[has[run] & (has.sum(axis=1) == 1)]) for run in has.columns}
    return list(has.index[has.all(axis=1)]), own, list(has.index[~has.any(axis=1)])


def _answer_kinds(runs: Sequence[str], kinds: pd.DataFrame) -> Iterator[str]:
    if not len(kinds):
        return
    common, own, none = split_kinds_by_run(kinds)
    parts = [f"{_all(runs).capitalize()} have heads for {_some(common)}"] if common else []
    parts += [f"only {run} has heads for {_some(alone)}" for run, alone in own.items() if alone]
    parts += [f"none has heads for {_some(none)}"] if none else []
    if parts:
        text = "; ".join(parts)
        yield f"{text[0].upper()}{text[1:]}."


def _answer_measures(runs: Sequence[str], measures: pd.DataFrame) -> Iterator[str]:
    tested = measures[measures["p_value"].notna()]
    if not len(tested):
        return
    found = tested[tested["p_value"] < LEVEL]
    said = (
        f"{len(found):,} of {len(tested):,} differences in measures from {runs[0]} are significant "
        f"after Holm's correction (5 %)"
    )
    shares = found[(found["statistic"] == MEAN) & found["measure"].isin(SHARES)]
    if not len(shares):
        yield f"{said}."
        return
    top = _largest(shares)
    before = top["value"] - top["difference"]
    yield (
        f"{said}; the largest mean change of a share is in {name_measure(top)}: "
        f"{write_number(top, before)} in {runs[0]}, {write_number(top, top['value'])} in "
        f"{top['run']} (p {p_value(top['p_value'])})."
    )


def _largest(differences: pd.DataFrame) -> Any:
    """The row of the largest difference."""
    return differences.iloc[int(differences["difference"].abs().to_numpy().argmax())]


def _answer_heads(runs: Sequence[str], heads: pd.DataFrame, depth: pd.DataFrame) -> Iterator[str]:
    found = heads[heads["p_value"] < LEVEL]
    if len(heads) and not len(found):
        yield "No head differs from the head at the same place in the first run."
    for run, part in found.groupby("run", sort=False):
        n_heads = len(heads[heads["run"] == run][["layer", "head"]].drop_duplicates())
        n_changed = len(part[["layer", "head"]].drop_duplicates())
        shares = part[part["measure"].isin(SHARES)]
        top = _largest(shares if len(shares) else part)
        most = "by the largest share" if len(shares) else "most of all"
        yield (
            f"{n_changed} of {n_heads} heads of {run} differ in some measure from the head at the "
            f"same place of {runs[0]}, {most} {top['layer']}-{top['head']} in "
            f"{name_measure(top)}: {write_number(top, top['first_value'])} there, "
            f"{write_number(top, top['value'])} here."
        )
        return  # the others are on the page
    sure = depth[(depth["p_value"] < LEVEL) & depth["measure"].isin(SHARES)]
    if not len(heads) and len(sure):
        top = _largest(sure)
        before = top["value"] - top["difference"]
        yield (
            "The models have different shapes, so heads are compared by depth, and the best head "
            "of one with the best head of the other. By depth, the share that differs "
            f"most is that in the {top['depth']} of {name_measure(top)}: "
            f"{write_number(top, before)} in {runs[0]}, {write_number(top, top['value'])} in "
            f"{top['run']}."
        )


def _answer_best(runs: Sequence[str], best: pd.DataFrame, measures: pd.DataFrame) -> Iterator[str]:
    rows = measures[(measures["measure"] == HELD_OUT) & (measures["statistic"] == VALUE)]
    tested = rows[rows["p_value"].notna()]
    if not len(tested):
        return
    sure = tested[tested["p_value"] < LEVEL]
    n_up, n_down = int((sure["difference"] > 0).sum()), int((sure["difference"] < 0).sum())
    top = _largest(sure if len(sure) else tested)
    before = top["value"] - top["difference"]
    yield (
        f"Best heads of {len(tested)} questions, held out: {n_up} better than in {runs[0]}, "
        f"{n_down} worse, "
        f"{len(tested) - len(sure)} not clearly different; the largest difference is for "
        f"{top['of']}: {write_percent(before)} in {runs[0]}, {write_percent(top['value'])} in "
        f"{top['run']}."
    )


def name_measure(row: pd.Series) -> str:
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


def _some(names: Sequence[str]) -> str:
    shown = list(names[:NAMED])
    n_more = len(names) - len(shown)
    return join_words([*shown, *[f"{n_more} more"] * (n_more > 0)])
