"""How the claims of section 3.2 are judged: where attention to special tokens goes."""

from typing import Any

import pandas as pd

from headscope.analyses.special_tokens.measure import MIDDLE, THIRDS
from headscope.data.depth import PAPER_LAYERS, count_layers, like_paper, name_layers, thirds
from headscope.data.table import Tables, rows_where
from headscope.stats.difference import correlate
from headscope.stats.interval import Estimate, estimate
from headscope.view.judge import (
    Outcome,
    Replicated,
    Verdict,
    all_of,
    beside_untrained,
    fill_exact,
    judge,
)
from headscope.view.numbers import POINTS, RATIO, SHARE, Form, row_estimate

__all__ = [
    "PLACES", "check_alike", "check_frequent", "check_half_on_sep", "check_more_from_sep",
    "check_sep_rises", "check_sep_to_sep", "check_step", "check_third", "find_sink",
]  # fmt: skip

PLACES = ["layer", "head"]
HALF, NEARLY_ALL = 0.5, 0.9
NEAR_LAYER_5 = (4, 6)  # of 12
HIGH = 2  # times as much as before
MORE_FREQUENT = 1  # other tokens; in the paper's data "the"
NOTABLE = 0.05  # even attention over 128 tokens gives [CLS] 0.8 %, two [SEP]s 1.6 %
PATTERN = {"cls": "[CLS]", "sep": "[SEP]", "punctuation": "periods and commas"}
ALIKE = 0.5  # correlation of the profiles of two models
CORRELATION = Form(".2f", to=" to ")
NO_SEP = "This model's input has no closing token ([SEP])."
SINKS = {
    "sep": "[SEP]",
    "sink": "its learned sink",
    "first": "its first token",
    "cls": "its opening token",
}


def find_sink(targets: pd.DataFrame, column: str = "weight") -> tuple[str, str, str]:
    """What [SEP] is to the paper's model: the closing token, or else the token that opens.

    The target, what it is called, and what to say of it first.
    """
    is_there = targets.groupby("target")[column].max() > 0
    target = next((name for name in SINKS if is_there.get(name, False)), "sep")
    note = "" if target == "sep" else f"{NO_SEP} The claim is tested on {SINKS[target]} instead. "
    return target, SINKS[target], note


def _means(tables: Tables) -> dict[tuple[str, str, str], dict[str, Any]]:
    """The rows of means over layers, and of differences, by layers, target and source."""
    rows = fill_exact(tables["special-tokens-layers"]).to_dict("records")
    return {(row["layers"], row["target"], row["source"]): row for row in reversed(rows)}


def check_half_on_sep(tables: Tables) -> Outcome:
    """More than half goes to [SEP] in layers 6-10 of 12."""
    table = rows_where(tables["special-tokens"], source="all")
    target, called, note = find_sink(table)
    n_layers, row = count_layers(table), _means(tables)[MIDDLE, target, "all"]
    where = name_layers(like_paper(6, 10, n_layers), n_layers)
    shows = (
        f"{note}In {where}, {called} gets {SHARE.row(row, 'weight')} of the attention."
        f"{beside_untrained(row)}"
    )
    return judge(row_estimate(row, "weight"), HALF, shows)


def check_sep_rises(tables: Tables) -> Outcome:
    """[SEP] gets twice as much from about layer 5 of 12 on as before, or more."""
    table = rows_where(tables["special-tokens"], source="all")
    target, called, note = find_sink(table)
    return check_step(
        tables["special-tokens-steps"], target, f"{note}Attention to {called}", count_layers(table)
    )


def check_step(
    steps: pd.DataFrame, target: str, what: str, n_layers: int, is_rise: bool = True
) -> Outcome:
    """Whether a curve steps up to twice as much (or down to half) near layer 5 of 12."""
    rows = steps[steps["target"] == target]
    if rows.empty:
        return Outcome("not measured", f"{what}: there is nothing to measure.")
    row = rows.iloc[0]
    places = like_paper(*NEAR_LAYER_5, n_layers)
    change = row_estimate(row, "ratio")
    verb, line = ("rises", float(HIGH)) if is_rise else ("falls", 1 / HIGH)
    low, high = row["low"], row["high"]
    if pd.isna(low):
        near: Verdict = "undecided"
        interval = ""
    else:
        is_near = [layer in places for layer in range(int(low), int(high) + 1)]
        near = "holds" if all(is_near) else "undecided" if any(is_near) else "does not hold"
        interval = f" [{low:.0f}-{high:.0f}]" if high > low else " (no other layer fits as well)"
    scaled = f"; layers 4-6 of 12 are here {name_layers(places, n_layers)}" * (
        n_layers != PAPER_LAYERS
    )
    shows = (
        f"{what} {verb} at layer {row['layer']:.0f} of {n_layers}{interval}{scaled}. From there on "
        f"it is {RATIO.estimate(change)} times as much as before."
    )
    enough = judge(change, line, shows, RATIO, is_above=is_rise)
    return Outcome(all_of([near, enough.verdict]), enough.shows)


def check_sep_to_sep(tables: Tables) -> Outcome:
    """[SEP] looks at [SEP]s alone in layers 6-10 of 12."""
    row, n_layers = _means(tables)[MIDDLE, "sep", "sep"], count_layers(tables["special-tokens"])
    if pd.isna(row["weight"]):
        return Outcome("not measured", NO_SEP)
    shows = (
        f"In {name_layers(like_paper(6, 10, n_layers), n_layers)}, [SEP] puts "
        f"{SHARE.row(row, 'weight')} of its attention on itself and the other [SEP]."
        f"{beside_untrained(row)}"
    )
    return judge(row_estimate(row, "weight"), NEARLY_ALL, shows)


def check_more_from_sep(tables: Tables) -> Outcome:
    """[SEP] looks at [SEP]s more than other tokens do."""
    means = _means(tables)
    from_sep, from_others, more = (means["all", "sep", s] for s in ("sep", "other", "sep - other"))
    if pd.isna(from_sep["weight"]):
        return Outcome("not measured", NO_SEP)
    shows = (
        f"From [SEP] {SHARE.row(from_sep, 'weight')} of the attention goes to [SEP], from other "
        f"tokens {SHARE.row(from_others, 'weight')}: {POINTS.row(more, 'weight')}."
        f"{beside_untrained(more, POINTS)}"
    )
    return judge(row_estimate(more, "weight"), 0.0, shows, POINTS)


def check_third(tables: Tables, target: str, called: str, expected: int) -> Outcome:
    """A class of tokens gets most in one third of the layers."""
    rows = rows_where(tables["special-tokens"], source="all", target=target)
    if not rows["weight"].max() > 0:
        none = f"There is no {called.removeprefix('the ')} in this model's input."
        return Outcome("not measured", none)
    n_layers = count_layers(rows)
    if n_layers < 3:
        few = f"{n_layers} layer" + "s" * (n_layers > 1)
        return Outcome(
            "not measured", f"The model has {few}: too few for an early, a middle and a deep third."
        )
    names = [name_layers(layers, n_layers) for layers in thirds(n_layers)]
    means = _means(tables)
    shares = [
        f"{SHARE.row(means[part, target, 'all'], 'weight')} in {name}"
        for part, name in zip(THIRDS, names, strict=True)
    ]
    shows = f"{called[0].upper()}{called[1:]}: {', '.join(shares)}."
    most = row_estimate(means[THIRDS[expected], target, "all"], "weight")
    level = judge(most, NOTABLE, shows)
    verdicts, doubts = [level.verdict], ""
    for other in [third for third in range(3) if third != expected]:
        first, second = sorted((expected, other))
        row = means[f"{THIRDS[first]} - {THIRDS[second]}", target, "all"]
        gap = judge(row_estimate(row, "weight"), 0.0, "", POINTS, is_above=first == expected)
        verdicts.append(gap.verdict)
        if gap.verdict == "undecided":
            than = f"{names[first]} minus {names[second]}"
            doubts += f" The difference, {than}, is {POINTS.row(row, 'weight')}: undecided."
    verdict = all_of(verdicts)
    if verdict == "undecided":
        return Outcome(verdict, level.shows + doubts)
    return Outcome(verdict, shows)


def check_frequent(tables: Tables) -> Outcome:
    """Only one other token is as frequent as periods and commas."""
    table = tables["token-frequency"]
    if table["share"].isna().any():
        return Outcome("not measured", "There are no tokens of text.")
    marks = [
        f"{row['token']}s are {SHARE.row(row, 'share')} of all tokens (rank {row['rank']})"
        for _, row in table.iterrows()
    ]
    shows = f"{' and '.join(marks)}.".capitalize()
    is_frequent = bool(((table["rank"] <= len(table) + MORE_FREQUENT) & (table["share"] > 0)).all())
    return Outcome("holds" if is_frequent else "does not hold", shows)


def check_alike(first: Replicated, second: Replicated) -> Outcome:
    """The profiles of two models over layers correlate, for each class of tokens both have."""
    correlations = {}
    for target, called in PATTERN.items():
        profiles = [
            side.by_layer((side.rows["source"] == "all") & (side.rows["target"] == target))
            for side in (first, second)
        ]
        value, low, high = map(float, estimate(correlate(*profiles), (-1.0, 1.0)))
        if not pd.isna(value):
            correlations[called] = Estimate(value, low, high)
    if not correlations:
        return Outcome("not measured", "The models share no such tokens, or have too few layers.")
    values = ", ".join(f"{called} {CORRELATION.estimate(r)}" for called, r in correlations.items())
    judged = [judge(r, ALIKE, "", CORRELATION).verdict for r in correlations.values()]
    return Outcome(all_of(judged), f"Correlation over layers of the attention to {values}.")
