"""What a comparison says first: how the runs differ, in plain sentences read off its tables."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import pandas as pd

from headscope.comparison.measures import IN_NATS, MEAN, SHARES, VALUE
from headscope.stats.interval import Estimate
from headscope.stats.tests import holm
from headscope.view.answer import join_words, write_percent
from headscope.view.claim import added_claims
from headscope.view.judge import top_row
from headscope.view.numbers import POINTS, SHARE, WHOLE_PERCENT, Form
from headscope.view.presentation import list_specs
from headscope.view.specs import Bars, Behaviour, Dots

__all__ = ["LEVEL", "answer", "name_measure", "split_kinds_by_run", "write_change", "write_number"]

LEVEL = 0.05
NAMED = 4  # kinds named in a sentence
SAID = 3  # differences of measures
RESTS = 0.15  # of attention, for it to rest there
LEAST = 0.01  # the smallest difference of a share that is said
NUMBER = Form(".3g", to=" to ")
NATS = Form(".3g", unit=" nats", to=" to ")
CHANGE = Form("+.3g", to=" to ")
LOOKS_AT = "looks at "

Name = tuple[str, str, frozenset[str]]  # table, column, and the labels as "target previous"


def answer(runs: Sequence[str], tables: Mapping[str, pd.DataFrame]) -> Iterator[str]:
    """Where attention rests in each run, the largest differences, then kinds, claims and counts."""
    measures = tables["measures"]
    yield from _say_where_it_rests(runs, measures)
    yield from _say_differences(runs, measures)
    if len(tables["heads"]):
        yield from _say_heads(runs, tables["heads"])
    elif len(tables["depth"]):
        yield (
            "The models have different shapes, so heads are not compared one by one, but by depth "
            "and by what they do."
        )
    if len(tables["kinds"]):
        yield from _say_kinds(runs, tables["kinds"])
    yield from _say_claims(runs, tables["claims"])
    yield from _count_differences(runs, measures)


# Plain names of measures, from what analyses show of them.


@cache
def _looks() -> dict[Name, str]:
    """What attention can go to, by the measure of it: "the previous token"."""
    return {
        (b.needs, b.column, frozenset(f"{k} {v}" for k, v in b.where.items())): (
            b.phrase.removeprefix(LOOKS_AT).removesuffix(" ({})")
        )
        for b in list_specs(Behaviour)
        if b.is_look and b.phrase.startswith(LOOKS_AT) and not b.each
    }


@cache
def _known_names() -> dict[Name, str]:
    names = {
        (
            dots.needs[0],
            dots.column,
            frozenset({f"{dots.split} {v}", *(f"{k} {w}" for k, w in dots.where.items())}),
        ): f"{dots.axis} {word}" + _in_brackets(dots.where)
        for dots in list_specs(Dots)
        if isinstance(dots.axis, str)
        for v, word in dots.words.items()
    }
    return {**names, **{key: f"share of attention to {what}" for key, what in _looks().items()}}


def _in_brackets(labels: Mapping[str, Any]) -> str:
    return f" ({', '.join(f'{name} {value}' for name, value in labels.items())})" * bool(labels)


@cache
def _known_bars() -> dict[tuple[str, str], Bars]:
    return {(bars.needs[0], bars.column): bars for bars in list_specs(Bars) if bars.has_heads}


def _key(row: Any) -> Name:
    return row["table"], row["measure"], frozenset(filter(None, str(row["of"]).split(", ")))


def _name_plainly(row: Any) -> str:
    """The measure in words; "" where no figure or behaviour shows it."""
    table, measure, labels = _key(row)
    bars = _known_bars().get((table, measure))
    if bars is None:
        return _known_names().get((table, measure, labels), "")
    values = {label: text for label, _, text in (part.partition(" ") for part in labels)}
    what = values.pop(bars.label, "")
    return f"{bars.axis} of the best head for {what}{_in_brackets(values)}"


def name_measure(row: Any) -> str:
    """A measure in words, or where it has none as people can find it: table, column and labels."""
    of = f" ({row['of']})" if row["of"] else ""
    return _name_plainly(row) or f"{row['table']} {row['measure']}{of}"


def write_number(row: Any, value: float) -> str:
    """A number of the row's measure: a share in percent, others with three digits and their unit.

    >>> write_number({"measure": "nats"}, 0.94), write_number({"measure": "weight"}, 0.94)
    ('0.94 nats', '94 %')
    """
    if row["measure"] in SHARES:
        return write_percent(value)
    return (NATS if row["measure"] in IN_NATS else NUMBER).number(value)


def write_change(row: Any) -> str:
    """The difference from the first run with its interval; of shares in points."""
    form = POINTS if row["measure"] in SHARES else CHANGE
    ends = (row[name] for name in ("difference", "difference_low", "difference_high"))
    return form.estimate(Estimate(*map(float, ends)))


# Sentences.


def _say_where_it_rests(runs: Sequence[str], measures: pd.DataFrame) -> Iterator[str]:
    """Of all that attention can go to, what gets most of it in each run."""
    looks = _looks()
    means = measures[measures["statistic"] == MEAN]
    is_look = [_key(row) in looks and row["of"] != "" for row in means.to_dict("records")]
    means = means[pd.Series(is_look, means.index, bool)]
    rests = []
    for run in runs:
        of_run = means[(means["run"] == run) & means["value"].notna()]
        if of_run.empty:
            return
        top = top_row(of_run, "value")
        if top["value"] < RESTS:
            return
        rests.append((looks[_key(top)], run, WHOLE_PERCENT.row(top, "value")))
    places = dict.fromkeys(what for what, *_ in rests)
    if len(places) == 1:
        shares = join_words([f"{share} in {run}" for _, run, share in rests])
        yield f"In {_all(runs)} most attention of a single kind goes to {rests[0][0]}: {shares}."
        return
    parts = [f"{run} rests on {what} ({share} of attention)" for what, run, share in rests]
    yield f"{', '.join(parts)}; means of all heads."


def _say_differences(runs: Sequence[str], measures: pd.DataFrame) -> Iterator[str]:
    """The largest differences: in where attention goes, over all heads; and of best heads."""
    sure = measures[(measures["p_value"] < LEVEL) & measures["measure"].isin(SHARES)]
    is_said = [
        _key(row) in _looks() or _key(row)[:2] in _known_bars() for row in sure.to_dict("records")
    ]
    sure = sure[pd.Series(is_said, sure.index, bool) & (sure["difference"].abs() >= LEAST)]
    sure = sure.assign(name=[_name_plainly(row) for row in sure.to_dict("records")])
    sure = sure.loc[sure["difference"].abs().sort_values(ascending=False, kind="stable").index]
    for statistic, note in ((MEAN, ", mean of all heads"), (VALUE, ", held out")):
        rows = sure[sure["statistic"] == statistic].drop_duplicates("name")
        for _, row in rows.head(SAID).iterrows():
            yield _say_difference(row, f"{row['name']}{note}", runs[0])


def _say_difference(row: Any, what: str, first: str) -> str:
    before, after = (SHARE.number(v) for v in (row["value"] - row["difference"], row["value"]))
    return (
        f"{what[0].upper()}{what[1:]}: {before} in {first}, {after} in {row['run']} (difference "
        f"{write_change(row)})."
    )


def _say_heads(runs: Sequence[str], heads: pd.DataFrame) -> Iterator[str]:
    sure = heads[holm(heads["p_raw"].to_numpy(float)) < LEVEL]  # over all measures
    if not len(sure):
        yield f"No head of {_others(runs)} differs, that the data can show, from that of {runs[0]}."
        return
    run = sure["run"].iloc[0]  # the others are on the page
    part = sure[sure["run"] == run]
    n_heads = len(heads[heads["run"] == run][["layer", "head"]].drop_duplicates())
    n_changed = len(part[["layer", "head"]].drop_duplicates())
    shares = part[part["measure"].isin(SHARES)]
    rows = shares if len(shares) else part
    top = rows.iloc[int(rows["difference"].abs().to_numpy().argmax())]
    differ = "differs" if n_changed == 1 else "differ"
    yield (
        f"{n_changed} of {n_heads} heads of {run} {differ} in some measure from the head at the "
        f"same place of {runs[0]}, most of all {top['layer']}-{top['head']}: {name_measure(top)} "
        f"{write_number(top, top['first_value'])} in {runs[0]}, {write_number(top, top['value'])} "
        f"in {run} (difference {write_change(top)})."
    )


def split_kinds_by_run(kinds: pd.DataFrame) -> tuple[list[str], dict[str, list[str]], list[str]]:
    """Kinds of heads that all runs have, that each run alone has, and that none has.

    Kinds that some run did not measure are left out.
    """
    counts = kinds.pivot(index="kind", columns="run", values="heads")
    has = counts.loc[[*dict.fromkeys(kinds["kind"])], [*dict.fromkeys(kinds["run"])]].dropna() > 0
    alone = {run: list(has.index[has[run] & (has.sum(axis=1) == 1)]) for run in has.columns}
    return list(has.index[has.all(axis=1)]), alone, list(has.index[~has.any(axis=1)])


def _say_kinds(runs: Sequence[str], kinds: pd.DataFrame) -> Iterator[str]:
    def some(names: Sequence[str]) -> str:
        n_more = len(names) - NAMED
        named = [name.replace(",", "") for name in names[:NAMED]]
        return join_words([*named, *[f"{n_more} more"] * (n_more > 0)])

    common, by_run, none = split_kinds_by_run(kinds)
    parts = [f"{_all(runs).capitalize()} have heads for {some(common)}"] if common else []
    parts += [f"only {run} has heads for {some(alone)}" for run, alone in by_run.items() if alone]
    parts += [f"none has heads for {some(none)}"] if none else []
    if parts:
        text = "; ".join(parts)
        yield f"{text[0].upper()}{text[1:]}."


def _say_claims(runs: Sequence[str], claims: pd.DataFrame) -> Iterator[str]:
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


def _count_differences(runs: Sequence[str], measures: pd.DataFrame) -> Iterator[str]:
    tested = measures[measures["difference"].notna()]
    if not len(tested):
        return
    n_sure = int((tested["p_value"] < LEVEL).sum())
    if not n_sure:
        yield (
            f"No difference from {runs[0]} that the data can show: none of {len(tested):,} tested "
            "is significant after Holm's correction (5 %)."
        )
        return
    yield (
        f"{n_sure:,} of {len(tested):,} measures differ significantly from those of {runs[0]}, "
        "after Holm's correction (5 %)."
    )


def _all(runs: Sequence[str]) -> str:
    return "both" if len(runs) == 2 else f"all {len(runs)}"


def _others(runs: Sequence[str]) -> str:
    return runs[1] if len(runs) == 2 else "the other runs"
