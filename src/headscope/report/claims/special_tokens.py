"""Section 3.2 and Figure 2: attention to [CLS], [SEP], periods and commas."""

from collections.abc import Callable

import pandas as pd

from headscope.report.cells import percent
from headscope.report.claims.claim import Claim, Estimate, Outcome, Tables, judge
from headscope.report.claims.depth import (
    count_layers,
    like_paper,
    name_layers,
    of_layers,
    thirds,
)

__all__ = ["CLAIMS", "NO_SEP", "Sink", "find_sink"]

HALF, NEARLY_ALL, OFTEN = 0.5, 0.9, 0.25
HIGH = 2  # times as much as before
NOTABLE = 0.05  # even attention over 128 tokens gives [CLS] 0.8 %, two [SEP]s 1.6 %
SPECIAL = ("cls", "sep", "first", "punctuation")
NO_SEP = "This model's input has no closing token ([SEP])."
SINKS = {"sep": "[SEP]", "first": "its first token", "cls": "its opening token"}
Sink = tuple[str, str, str]  # the target, how it is called, and what to say of it first


def find_sink(targets: pd.DataFrame, column: str = "weight") -> Sink:
    """What [SEP] is to the paper's model: the closing token, or else the token that opens."""
    seen = targets.groupby("target")[column].max() > 0
    target = next((name for name in SINKS if seen.get(name, False)), "sep")
    called = SINKS[target]
    note = "" if target == "sep" else f"{NO_SEP} In its place stands {called}. "
    return target, called, note


def check_half_on_sep(tables: Tables) -> Outcome:
    """More than half goes to [SEP] in layers 6-10 of 12."""
    table = _from(tables, "all")
    target, called, note = find_sink(table)
    layers = like_paper(6, 10, count_layers(table))
    found = Estimate.mean_of(of_layers(table[table["target"] == target], layers))
    where = name_layers(layers, count_layers(table))
    return judge(found, HALF, f"{note}In {where}, {called} gets {found} of the attention.")


def check_sep_rises(tables: Tables) -> Outcome:
    """[SEP] gets twice as much from layer 5 of 12 on as before, or more."""
    table = _from(tables, "all")
    target, called, note = find_sink(table)
    rows = table[table["target"] == target]
    n_layers = count_layers(rows)
    upper = like_paper(5, 12, n_layers)
    lower = [layer for layer in range(1, n_layers + 1) if layer not in upper]
    if not lower:
        return Outcome(None, "The model has one layer: there are no lower and upper ones.")
    before, after = (Estimate.mean_of(of_layers(rows, layers)) for layers in (lower, upper))
    shows = (
        f"{note}Attention to {called} is {before} in {name_layers(lower, n_layers)} and {after} in "
        f"{name_layers(upper, n_layers)}."
    )
    return judge(after, HIGH * before.value, shows)


def check_cls_early(tables: Tables) -> Outcome:
    """[CLS] gets most in the first third."""
    return _check_third(tables, "cls", "the opening token ([CLS])", 0)


def check_sep_middle(tables: Tables) -> Outcome:
    """[SEP] gets most in the middle third."""
    return _check_third(tables, "sep", "the closing token ([SEP])", 1)


def check_punctuation_deep(tables: Tables) -> Outcome:
    """Periods and commas get most in the last third."""
    return _check_third(tables, "punctuation", "periods and commas", 2)


def check_often_half(tables: Tables) -> Outcome:
    """Many heads give most of their attention to a few tokens."""
    table = _from(tables, "all")
    special = table[table["target"].isin(SPECIAL)]
    shares = special.groupby(["layer", "head"])["weight"].sum()
    share = float((shares > HALF).mean())
    shows = (
        f"{int((shares > HALF).sum())} of {len(shares)} heads ({percent(share)} %) put over half "
        f"on special tokens, periods and commas; the mean of all heads is "
        f"{percent(float(shares.mean()))} %."
    )
    return Outcome(share >= OFTEN, shows)


def check_sep_to_sep(tables: Tables) -> Outcome:
    """[SEP] looks at [SEP]s alone in layers 6-10 of 12."""
    table = _to_sep(tables, "sep")
    if table.empty:
        return Outcome(None, NO_SEP)
    layers = like_paper(6, 10, count_layers(table))
    found = Estimate.mean_of(of_layers(table, layers))
    where = name_layers(layers, count_layers(table))
    shows = f"In {where}, [SEP] puts {found} of its attention on itself and the other [SEP]."
    return judge(found, NEARLY_ALL, shows)


def check_more_from_sep(tables: Tables) -> Outcome:
    """[SEP] looks at [SEP]s more than other tokens do."""
    own, others = (_to_sep(tables, source) for source in ("sep", "other"))
    if own.empty:
        return Outcome(None, NO_SEP)
    found, rest = Estimate.mean_of(own), Estimate.mean_of(others)
    both = own.merge(others, on=["layer", "head"], suffixes=("", "_rest"))
    n_more = int((both["weight"] > both["weight_rest"]).sum())
    shows = (
        f"From [SEP] {found} of the attention goes to [SEP], from other tokens {rest}; more from "
        f"[SEP] in {n_more} of {len(both)} heads."
    )
    return judge(found, rest.value, shows)


def _from(tables: Tables, source: str) -> pd.DataFrame:
    table = tables["special-tokens"]
    return table[table["source"] == source]


def _to_sep(tables: Tables, source: str) -> pd.DataFrame:
    """Attention to closing tokens; no rows where the model has none."""
    table = _from(tables, source)
    return table[(table["target"] == "sep") & table["weight"].notna()]


def _check_third(tables: Tables, target: str, called: str, expected: int) -> Outcome:
    table = _from(tables, "all")
    rows = table[table["target"] == target]
    if not rows["weight"].max() > 0:
        return Outcome(None, f"There is no {called.removeprefix('the ')} in this model's input.")
    n_layers = count_layers(rows)
    if n_layers < 3:
        few = f"{n_layers} layer" + "s" * (n_layers > 1)
        return Outcome(None, f"The model has {few}: too few to tell early, middle and deep.")
    parts = [Estimate.mean_of(of_layers(rows, layers)) for layers in thirds(n_layers)]
    shares = [
        f"{part} in {name_layers(layers, n_layers)}"
        for part, layers in zip(parts, thirds(n_layers), strict=True)
    ]
    second = max(part.value for place, part in enumerate(parts) if place != expected)
    threshold = max(second, NOTABLE)
    return judge(
        parts[expected], threshold, f"{called[0].upper()}{called[1:]}: {', '.join(shares)}."
    )


def _claim(
    name: str,
    says: str,
    paper: str,
    check: Callable[[Tables], Outcome],
    figure: str = "special-tokens",
) -> Claim:
    return Claim(name, "3.2", says, paper, ("special-tokens",), "--text FILE", check, figure)


CLAIMS = (
    _claim(
        "half-on-sep",
        "Over half of the attention in layers 6-10 of 12 goes to [SEP].",
        "over half, where even attention would give about 1/64",
        check_half_on_sep,
    ),
    _claim(
        "sep-rises-at-layer-5",
        "Attention to [SEP] becomes high at layer 5 of 12 (here: twice as high from there on as "
        "before).",
        "it becomes high in layer 5",
        check_sep_rises,
    ),
    _claim(
        "early-heads-look-at-cls",
        "Early heads attend to [CLS] (here: over 5 %, and most in the first third of the layers).",
        "seen in Figure 2",
        check_cls_early,
    ),
    _claim(
        "middle-heads-look-at-sep",
        "Middle heads attend to [SEP] (here: over 5 %, and most in the middle third of the "
        "layers).",
        "seen in Figure 2",
        check_sep_middle,
    ),
    _claim(
        "deep-heads-look-at-punctuation",
        "Deep heads attend to periods and commas (here: over 5 %, and most in the last third of "
        "the layers).",
        "seen in Figure 2",
        check_punctuation_deep,
    ),
    _claim(
        "often-over-half-on-few-tokens",
        "Often over half of a head's attention is to [CLS], [SEP], periods and commas (here: in a "
        "quarter of the heads or more).",
        "often; seen in Figure 2",
        check_often_half,
    ),
    _claim(
        "sep-looks-at-sep",
        "[SEP] attends almost entirely (over 90 %) to itself and the other [SEP] (here: in layers "
        "6-10 of 12).",
        "more than 90 %",
        check_sep_to_sep,
        "special-tokens-from-sep",
    ),
    _claim(
        "more-to-sep-from-sep",
        "Heads attend to [SEP] even more when the current token is [SEP] itself.",
        "seen in Figure 2",
        check_more_from_sep,
        "special-tokens-from-sep",
    ),
)
