"""What is shown of attention to [CLS], [SEP], periods and commas (section 3.2)."""

from collections.abc import Callable

import pandas as pd

from headscope.data.table import Tables
from headscope.view.behaviour import Behaviour, Kind, Threshold
from headscope.view.card import FactMaker, Facts, share_facts
from headscope.view.claim import Claim, Outcome, judge, mean_over
from headscope.view.depth import count_layers, like_paper, name_layers, of_layers, thirds
from headscope.view.figure import COLOURS, Chart, Figure
from headscope.view.heads_grid import grid_figure
from headscope.view.layer_dots import LayerDots, how_to_read
from headscope.view.numbers import SHARE, percent
from headscope.view.presentation import SURFACE, Presentation

__all__ = ["PANELS", "PRESENTATION", "TARGETS", "find_sink"]

TARGETS = {
    "cls": "opening token",
    "sep": "closing tokens",
    "first": "first token",
    "punctuation": "period and comma",
    "other": "other tokens",
    "sink": "learned sink",
}
PANELS = {
    "cls": "to opening tokens ([CLS])",
    "sep": "to closing tokens ([SEP])",
    "first": "to the first token",
    "punctuation": "to periods and commas",
    "other": "to all other tokens",
    "sink": "to no token (learned sink)",
}
KIND = Kind("special tokens or punctuation", COLOURS[1], "square")
THRESHOLD = Threshold(
    "special_token", 0.6, "Threshold for special tokens, and for periods and commas."
)
HALF, NEARLY_ALL, OFTEN = 0.5, 0.9, 0.25
HIGH = 2  # times as much as before
MORE_FREQUENT = 1  # other tokens; in the paper's data "the"
NOTABLE = 0.05  # even attention over 128 tokens gives [CLS] 0.8 %, two [SEP]s 1.6 %
SPECIAL = ("cls", "sep", "first", "punctuation")
NO_SEP = "This model's input has no closing token ([SEP])."
SINKS = {
    "sep": "[SEP]",
    "sink": "its learned sink",
    "first": "its first token",
    "cls": "its opening token",
}


def _rows(table: pd.DataFrame, source: str, target: str | None = None) -> pd.DataFrame:
    table = table[table["source"] == source]
    return table if target is None else table[table["target"] == target]


def find_sink(targets: pd.DataFrame, column: str = "weight") -> tuple[str, str, str]:
    """What [SEP] is to the paper's model: the closing token, or else the token that opens.

    The target, what it is called, and what to say of it first.
    """
    is_there = targets.groupby("target")[column].max() > 0
    target = next((name for name in SINKS if is_there.get(name, False)), "sep")
    note = "" if target == "sep" else f"{NO_SEP} In its place stands {SINKS[target]}. "
    return target, SINKS[target], note


def _behaviour(name: str, target: str, at: str) -> Behaviour:
    return Behaviour(
        name,
        f"looks at {at} ({{}})",
        KIND,
        THRESHOLD,
        "special-tokens",
        lambda table: _rows(table, "all", target).rename(columns={"weight": "share"}),
        ranking=target,
    )


def special_token_facts(tables: Tables) -> Facts:
    """How much goes to special tokens, from all and from closing ones."""
    for source, topic in {"all": "special tokens", "sep": "from closing tokens"}.items():
        yield from share_facts(topic, _rows(tables["special-tokens"], source), TARGETS)


def draw_special_tokens(tables: Tables, source: str = "all") -> Chart:
    """The attention from one source; one panel a class of tokens."""
    dots = LayerDots(value="weight", title="share of attention", split="target", words=PANELS)
    return dots.draw(_attended(tables, source))


def _attended(tables: Tables, source: str) -> pd.DataFrame:
    """One source's rows of the classes that get any attention; a model need not have them all."""
    rows = _rows(tables["special-tokens"], source)
    rows = rows[rows["weight"].notna()]
    return rows[rows.groupby("target")["weight"].transform("max") > 0]


def check_half_on_sep(tables: Tables) -> Outcome:
    """More than half goes to [SEP] in layers 6-10 of 12."""
    table = _rows(tables["special-tokens"], "all")
    target, called, note = find_sink(table)
    layers = like_paper(6, 10, count_layers(table))
    found = mean_over(of_layers(table[table["target"] == target], layers))
    where, share = name_layers(layers, count_layers(table)), SHARE.estimate(found)
    return judge(found, HALF, f"{note}In {where}, {called} gets {share} of the attention.")


def check_sep_rises(tables: Tables) -> Outcome:
    """[SEP] gets twice as much from layer 5 of 12 on as before, or more."""
    table = _rows(tables["special-tokens"], "all")
    target, called, note = find_sink(table)
    rows = table[table["target"] == target]
    n_layers = count_layers(rows)
    upper = like_paper(5, 12, n_layers)
    lower = [layer for layer in range(1, n_layers + 1) if layer not in upper]
    if not lower:
        return Outcome(None, "The model has one layer: there are no lower and upper ones.")
    before, after = (mean_over(of_layers(rows, layers)) for layers in (lower, upper))
    shows = (
        f"{note}Attention to {called} is {SHARE.estimate(before)} in "
        f"{name_layers(lower, n_layers)} and {SHARE.estimate(after)} in "
        f"{name_layers(upper, n_layers)}."
    )
    return judge(after, HIGH * before.value, shows)


def check_often_half(tables: Tables) -> Outcome:
    """Many heads give most of their attention to a few tokens."""
    table = _rows(tables["special-tokens"], "all")
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
    found = mean_over(of_layers(table, layers))
    shows = (
        f"In {name_layers(layers, count_layers(table))}, [SEP] puts {SHARE.estimate(found)} of its "
        "attention on itself and the other [SEP]."
    )
    return judge(found, NEARLY_ALL, shows)


def check_more_from_sep(tables: Tables) -> Outcome:
    """[SEP] looks at [SEP]s more than other tokens do."""
    own, others = (_to_sep(tables, source) for source in ("sep", "other"))
    if own.empty:
        return Outcome(None, NO_SEP)
    found, rest = mean_over(own), mean_over(others)
    both = own.merge(others, on=["layer", "head"], suffixes=("", "_rest"))
    n_more = int((both["weight"] > both["weight_rest"]).sum())
    shows = (
        f"From [SEP] {SHARE.estimate(found)} of the attention goes to [SEP], from other tokens "
        f"{SHARE.estimate(rest)}; more from [SEP] in {n_more} of {len(both)} heads."
    )
    return judge(found, rest.value, shows)


def _to_sep(tables: Tables, source: str) -> pd.DataFrame:
    """Attention to closing tokens; no rows where the model has none."""
    rows = _rows(tables["special-tokens"], source, "sep")
    return rows[rows["weight"].notna()]


def check_third(tables: Tables, target: str, called: str, expected: int) -> Outcome:
    """A class of tokens gets most in one third of the layers."""
    rows = _rows(tables["special-tokens"], "all", target)
    if not rows["weight"].max() > 0:
        return Outcome(None, f"There is no {called.removeprefix('the ')} in this model's input.")
    n_layers = count_layers(rows)
    if n_layers < 3:
        few = f"{n_layers} layer" + "s" * (n_layers > 1)
        return Outcome(None, f"The model has {few}: too few to tell early, middle and deep.")
    parts = [mean_over(of_layers(rows, layers)) for layers in thirds(n_layers)]
    names = [name_layers(layers, n_layers) for layers in thirds(n_layers)]
    shares = [f"{SHARE.estimate(p)} in {name}" for p, name in zip(parts, names, strict=True)]
    second = max(part.value for third, part in enumerate(parts) if third != expected)
    shows = f"{called[0].upper()}{called[1:]}: {', '.join(shares)}."
    return judge(parts[expected], max(second, NOTABLE), shows)


def check_frequent(tables: Tables) -> Outcome:
    """Only one other token is as frequent as periods and commas."""
    table = tables["token-frequency"]
    if table["share"].isna().any():
        return Outcome(None, "There are no tokens of text.")
    told = [
        f"{row['token']}s are {SHARE.row(row, 'share')} of all tokens (rank {row['rank']})"
        for _, row in table.iterrows()
    ]
    shows = f"{' and '.join(told)}.".capitalize()
    return Outcome(bool((table["rank"] <= len(table) + MORE_FREQUENT).all()), shows)


def _claim(
    name: str,
    says: str,
    paper: str,
    check: Callable[[Tables], Outcome],
    figure: str = "special-tokens",
) -> Claim:
    return Claim(name, "3.2", says, paper, ("special-tokens",), "--text FILE", check, figure)


DOTS = "One panel for each class of tokens that get attention. " + how_to_read(
    "share of attention that goes to the class"
)
FIGURES = (
    Figure(
        name="special-tokens",
        title="Attention to special tokens",
        caption=f"{DOTS} The shares of a head add up to 1 over the panels.",
        needs=("special-tokens",),
        made_by="--text FILE",
        draw_tables=draw_special_tokens,
        paper="Figure 2",
    ),
    Figure(
        name="special-tokens-from-sep",
        title="Where closing tokens look",
        caption=(
            f"{DOTS} Only the attention of the closing tokens ([SEP]) themselves is counted. In "
            "the paper they look at themselves and each other where other tokens look at them."
        ),
        needs=("special-tokens",),
        made_by="--text FILE",
        draw_tables=lambda tables: draw_special_tokens(tables, "sep"),
        paper="Figure 2",
        has_content=lambda tables: len(_attended(tables, "sep")) > 0,
        content="attention from closing tokens (an encoder's [SEP])",
    ),
    grid_figure(
        "heads-sep",
        "special-tokens",
        lambda table: _rows(table, "all", "sep"),
        "closing tokens ([SEP])",
        "attention to closing tokens (a decoder's input has none)",
    ),
)
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
        lambda tables: check_third(tables, "cls", "the opening token ([CLS])", 0),
    ),
    _claim(
        "middle-heads-look-at-sep",
        "Middle heads attend to [SEP] (here: over 5 %, and most in the middle third of the "
        "layers).",
        "seen in Figure 2",
        lambda tables: check_third(tables, "sep", "the closing token ([SEP])", 1),
    ),
    _claim(
        "deep-heads-look-at-punctuation",
        "Deep heads attend to periods and commas (here: over 5 %, and most in the last third of "
        "the layers).",
        "seen in Figure 2",
        lambda tables: check_third(tables, "punctuation", "periods and commas", 2),
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
    Claim(
        "periods-and-commas-are-frequent",
        "3.2",
        "Periods and commas are the most common tokens of the text but for one (a finding about "
        "the data, not about the model).",
        'the most common tokens in the data excluding "the"',
        ("token-frequency",),
        "--text FILE",
        check_frequent,
    ),
)
PRESENTATION = Presentation(
    section=SURFACE,
    figures=FIGURES,
    claims=CLAIMS,
    facts=(FactMaker(("special-tokens",), special_token_facts),),
    behaviours=(
        _behaviour("opening token (cls)", "cls", "the opening token"),
        _behaviour("closing tokens (sep)", "sep", "the closing tokens"),
        _behaviour("learned sink", "sink", "no token, but the learned sink"),
        _behaviour("first token (sink)", "first", "the first token"),
        _behaviour("period and comma", "punctuation", "periods and commas"),
    ),
)
