"""What is shown of attention to [CLS], [SEP], periods and commas (section 3.2)."""

from functools import partial
from typing import Any

import pandas as pd

from headscope.analyses.special_tokens.answers import ANSWERS, read_own_classes
from headscope.analyses.special_tokens.measure import MIDDLE, THIRDS
from headscope.data.depth import PAPER_LAYERS, count_layers, like_paper, name_layers, thirds
from headscope.data.table import Tables, rows_where
from headscope.stats.difference import correlate
from headscope.stats.interval import Estimate, estimate
from headscope.view.facts import head_facts
from headscope.view.judge import Replicated, all_of, beside_untrained, count, fill_exact, judge
from headscope.view.numbers import POINTS, RATIO, SHARE, Form, row_estimate
from headscope.view.presentation import SURFACE, Presentation
from headscope.view.specs import (
    EACH,
    Behaviour,
    Claim,
    Dots,
    Kind,
    Look,
    Outcome,
    PairClaim,
    PrintedTable,
    Threshold,
    Verdict,
    attention_grid,
    how_to_read,
)

__all__ = ["PANELS", "PRESENTATION", "TARGETS", "check_step", "find_sink"]

TARGETS = {
    "cls": "opening token",
    "sep": "closing tokens",
    "first": "first token",
    "punctuation": "period and comma",
    "other": "other tokens",
    "sink": "learned sink",
}
PANELS = {
    "cls": "to opening tokens",
    "sep": "to closing tokens",
    "first": "to the first token",
    "punctuation": "to periods and commas",
    "other": "to all other tokens",
    "sink": "to no token (learned sink)",
}
OPENING = Kind("the opening or first token", "#EEB422", "square")
CLOSING = Kind("the closing token", "#D1480B", "cross")
BOTH = Kind("special tokens together", "#7A1F4A", "stroke")
PUNCTUATION = Kind("periods and commas", "#D77FB5", "triangle-down")
SINK = Kind("no token (learned sink)", "#6B6B6B", "wedge")
OWN = Kind("token classes of yours", "#5B5BD6", "arrow")
TOGETHER = Threshold(
    "special_together", 0.5, "Threshold for special tokens, periods and commas together."
)
THRESHOLD = Threshold(
    "special_token", 0.6, "Threshold for special tokens, and for periods and commas."
)
PLACES = ["layer", "head"]
HALF, NEARLY_ALL, OFTEN = 0.5, 0.9, 0.25
HIGH = 2  # times as much as before
MORE_FREQUENT = 1  # other tokens; in the paper's data "the"
NEAR_LAYER_5 = (4, 6)  # of 12
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
    is_frequent = bool((table["rank"] <= len(table) + MORE_FREQUENT).all())
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


def share_of_both(tables: Tables) -> "pd.Series[float]":
    """The opening and closing tokens together, where neither gets twice as much as the other."""
    rows = rows_where(tables["special-tokens"], source="all")
    rows = rows[rows["target"].isin(["cls", "sep"])]
    shares = rows.groupby(PLACES)["weight"]
    return shares.sum().where(shares.max() < 2 * shares.min(), 0.0)


def share_of_own(tables: Tables) -> "pd.Series[float]":
    """All classes of tokens that the user named."""
    rows = rows_where(tables["special-tokens"], source="all")
    is_own = ~rows["target"].isin(list(TARGETS))
    return rows.assign(weight=rows["weight"].where(is_own, 0)).groupby(PLACES)["weight"].sum()


DOTS = partial(
    Dots, needs=("special-tokens",), column="weight", axis="share of attention", paper="Figure 2",
)  # fmt: skip
BY_TARGET = partial(DOTS, split="target", words=PANELS, seen="target")
HOW = "One panel for each class of tokens that get attention. " + how_to_read(
    "share of attention that goes to the class"
)
LAYERS = ("special-tokens", "special-tokens-layers")
PRESENTATION = Presentation(SURFACE, paper="3.2", figure="special-tokens", show=[
    BY_TARGET(
        name="special-tokens", where={"source": "all"}, title="Attention to special tokens",
        caption=f"{HOW} The shares of a head add up to 1 over the panels.",
    ),
    BY_TARGET(
        name="special-tokens-from-sep", where={"source": "sep"}, title="Where closing tokens look",
        caption=f"{HOW} Only attention from the closing tokens is counted. In the paper they "
        "attend to themselves and each other in the layers where other tokens attend to them.",
        content="attention from closing tokens (an encoder's [SEP])",
    ),
    DOTS(
        name="special-tokens-to-sep", where={"source": ("sep", "other"), "target": "sep"},
        split="source", seen="source", by_colour=True, in_line=2,
        words={"sep": "from closing tokens", "other": "from all other tokens"},
        title="Who looks at closing tokens",
        caption="Attention to the closing tokens, from closing tokens and from all others. "
        + how_to_read("share of attention that goes to closing tokens"),
        content="attention from closing tokens (an encoder's [SEP])",
    ),
    attention_grid(
        "heads-sep", "special-tokens", "closing tokens", {"source": "all", "target": "sep"},
        "attention to closing tokens (a decoder's input has none)",
    ),
    Claim(
        "half-on-sep", check_half_on_sep, needs=LAYERS,
        says="Over half of the attention in layers 6-10 of 12 goes to [SEP].",
        paper='"over half of BERT\'s attention in layers 6-10 focuses on [SEP]", where even '
        'attention would give "around 1/64"',
    ),
    Claim(
        "sep-rises-at-layer-5", check_sep_rises, needs=("special-tokens", "special-tokens-steps"),
        unless="A model with one layer does not have it.",
        says="Attention to [SEP] becomes high at layer 5 of 12 (here: the layer where a step up "
        "fits best is one of 4-6 of 12, and from there on it is twice as high as before).",
        paper='"Starting in layer 5", "the same layer where attention to [SEP] becomes high"',
    ),
    Claim(
        "early-heads-look-at-cls",
        partial(check_third, target="cls", called="the opening token ([CLS])", expected=0),
        needs=LAYERS,
        says="Early heads attend to [CLS] (here: over 5 %, and most in the first third of the "
        "layers).",
        paper='"Early heads attend to [CLS]" (caption of Figure 2)',
    ),
    Claim(
        "middle-heads-look-at-sep",
        partial(check_third, target="sep", called="the closing token ([SEP])", expected=1),
        needs=LAYERS,
        says="Middle heads attend to [SEP] (here: over 5 %, and most in the middle third of the "
        "layers).",
        paper='"middle heads attend to [SEP]" (caption of Figure 2)',
    ),
    Claim(
        "deep-heads-look-at-punctuation",
        partial(check_third, target="punctuation", called="periods and commas", expected=2),
        needs=LAYERS,
        says="Deep heads attend to periods and commas (here: over 5 %, and most in the last third "
        "of the layers).",
        paper='"deep heads attend to periods and commas" (caption of Figure 2)',
    ),
    count(
        "often-over-half-on-few-tokens", "special-tokens-heads", line=HALF,
        least=lambda n_heads: OFTEN * n_heads, needs=("special-tokens", "special-tokens-heads"),
        does="puts over half on special tokens (without any, the first token), periods and commas",
        says="Often over half of a head's attention is to [CLS], [SEP], periods and commas (here: "
        "in a quarter of the heads or more).",
        paper='"Often more than half of a head\'s total attention is to these tokens." (caption '
        "of Figure 2)",
    ),
    Claim(
        "sep-looks-at-sep", check_sep_to_sep, needs=LAYERS, figure="special-tokens-from-sep",
        says="[SEP] attends almost entirely (over 90 %) to itself and the other [SEP] (here: in "
        "layers 6-10 of 12).",
        paper='"almost entirely (more than 90%; see bottom of Figure 2) attend to themselves and '
        'the other [SEP] token"',
    ),
    Claim(
        "more-to-sep-from-sep", check_more_from_sep, needs=LAYERS,
        figure="special-tokens-from-sep",
        says="Heads attend to [SEP] even more when the current token is [SEP] itself.",
        paper='"heads attend to [SEP] tokens even more when the current token is [SEP] itself" '
        "(caption of Figure 2)",
    ),
    Claim(
        "periods-and-commas-are-frequent", check_frequent, needs=("token-frequency",),
        figure=None, is_of_data=True,
        says="Periods and commas are the most common tokens of the text, except one (a finding "
        "about the data, not about the model).",
        paper='the most common tokens in the data excluding "the"',
    ),
    PairClaim(
        "two-models-attend-alike", section="3.2", needs=("special-tokens", "weight"),
        check=check_alike,
        says="Two models show a similar pattern of attention to special tokens (here: the mean "
        "attention of a layer to [CLS], to [SEP], and to periods and commas correlates over 0.5 "
        "between them, over layers).",
        paper='"A similar pattern occurs for the uncased BERT model"',
    ),
    *ANSWERS,
    *(
        head_facts(
            topic, "special-tokens", where={"source": source}, split="target", words=TARGETS,
            seen=True,
        )
        for source, topic in {"all": "special tokens", "sep": "from closing tokens"}.items()
    ),
    PrintedTable("special-tokens", read_own_classes),
    *(
        Behaviour(
            name, f"looks at {phrase} ({{}})", kind, THRESHOLD, "special-tokens", "weight",
            {"source": "all", "target": target}, ranking=target, short=short, also=also,
            is_look=True, panel="" if target == "punctuation" else "special",
        )
        for name, target, phrase, kind, short, also in (
            ("opening token (cls)", "cls", "the opening token", OPENING, "open",
             "[CLS] bos start"),
            ("closing tokens (sep)", "sep", "the closing tokens", CLOSING, "close",
             "[SEP] separator eos end"),
            ("learned sink", "sink", "no token, but the learned sink", SINK, "sink", "nothing"),
            ("first token (sink)", "first", "the first token", OPENING, "first",
             "sink start bos"),
            ("period and comma", "punctuation", "periods and commas", PUNCTUATION, ". ,",
             "full stop"),
        )
    ),
    Behaviour(
        f"token class {EACH}", f"looks at your token class {EACH} ({{}})", OWN, THRESHOLD,
        "special-tokens", "weight", {"source": "all"}, each="target",
        besides=tuple(TARGETS), is_look=True,
    ),
    Behaviour(
        "special tokens together", "looks at special tokens, periods and commas together ({})",
        BOTH, TOGETHER, "special-tokens-heads", "weight", is_background=True, is_look=True,
        short="special", also="[CLS] [SEP] first sink period comma",
    ),
    Look(OPENING, "open", ("special-tokens",), {"source": "all", "target": ("cls", "first")}),
    Look(CLOSING, "close", ("special-tokens",), {"source": "all", "target": "sep"}),
    Look(SINK, "sink", ("special-tokens",), {"source": "all", "target": "sink"}),
    Look(PUNCTUATION, ". ,", ("special-tokens",), {"source": "all", "target": "punctuation"}),
    Look(BOTH, "special", ("special-tokens",), measure=share_of_both, is_sum=True),
    Look(OWN, "yours", ("special-tokens",), measure=share_of_own),
])  # fmt: skip
