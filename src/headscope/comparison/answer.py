"""The answer of a comparison in a few sentences, read off its tables."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from headscope.comparison.measures import MEAN, VALUE
from headscope.view.answer import join_words, write_percent
from headscope.view.numbers import Form, p_value

__all__ = ["answer_comparison", "has_kind", "name_measure", "split_kinds_by_run", "write_number"]

LEVEL = 0.05
NAMED = 4  # things named in a sentence
NUMBER = Form(".3g", to=" to ")
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
    verdicts = claims.pivot(index="claim", columns="run", values="verdict")
    judged = verdicts[(verdicts != "not measured").all(axis=1)]
    if not len(judged):
        return
    n_holding = [f"{(judged[run] == 'holds').sum()} in {run}" for run in runs]
    in_all = int((judged == "holds").all(axis=1).sum())
    decided = judged[judged.isin(["holds", "does not hold"]).all(axis=1)]
    n_split = int((decided.nunique(axis=1) > 1).sum())
    yield (
        f"{len(judged)} claims of the paper could be judged in {_all(runs)}. "
        f"{', '.join(n_holding)} and {in_all} in {_all(runs)} hold; {n_split} hold in one run but "
        f"not in another."
    )


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
    shares = found[(found["statistic"] == MEAN) & found["value"].between(0, 1)]
    if not len(shares):
        yield f"{said}."
        return
    top = _largest(shares)
    before = top["value"] - top["difference"]
    yield (
        f"{said}; the largest mean change is in {name_measure(top)}: {write_number(before)} in "
        f"{runs[0]}, {write_number(top['value'])} in {top['run']} (p {p_value(top['p_value'])})."
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
        shares = part[part["value"].between(0, 1) & part["first_value"].between(0, 1)]
        top = _largest(shares if len(shares) else part)
        yield (
            f"{n_changed} of {n_heads} heads of {run} differ in some measure from the head at the "
            f"same place of {runs[0]}, most of all {top['layer']}-{top['head']} in "
            f"{name_measure(top)}: {write_number(top['first_value'])} there, "
            f"{write_number(top['value'])} here."
        )
        return  # the others are on the page
    sure = depth[(depth["p_value"] < LEVEL) & depth["value"].between(0, 1)]
    if not len(heads) and len(sure):
        top = _largest(sure)
        before = top["value"] - top["difference"]
        yield (
            "The models have different shapes, so heads are compared by depth, and the best head "
            "of one with the best head of the other. By depth they differ most in the "
            f"{top['depth']} in {name_measure(top)}: "
            f"{write_number(before)} in {runs[0]}, {write_number(top['value'])} in {top['run']}."
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


def write_number(value: float) -> str:
    """A share in percent, anything else with three digits."""
    return write_percent(value) if 0 <= value <= 1 else NUMBER.number(value)


def _all(runs: Sequence[str]) -> str:
    return "both" if len(runs) == 2 else f"all {len(runs)}"


def _some(names: Sequence[str]) -> str:
    shown = list(names[:NAMED])
    n_more = len(names) - len(shown)
    return join_words([*shown, *[f"{n_more} more"] * (n_more > 0)])
