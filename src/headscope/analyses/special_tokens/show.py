"""What is shown of attention to [CLS], [SEP], periods and commas (section 3.2)."""

from functools import partial

import pandas as pd

from headscope.analyses.special_tokens.answers import ANSWERS, read_own_classes
from headscope.analyses.special_tokens.claims import (
    PLACES,
    check_alike,
    check_frequent,
    check_half_on_sep,
    check_more_from_sep,
    check_sep_rises,
    check_sep_to_sep,
    check_third,
)
from headscope.data.table import Tables, rows_where
from headscope.view.facts import head_facts
from headscope.view.judge import (
    Claim,
    PairClaim,
    count,
)
from headscope.view.presentation import SURFACE, Presentation
from headscope.view.specs import (
    EACH,
    Behaviour,
    Dots,
    Kind,
    Look,
    PrintedTable,
    Threshold,
    attention_grid,
    how_to_read,
)

__all__ = ["PANELS", "PRESENTATION", "TARGETS"]

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
BOTH = Kind("special and punctuation", "#7A1F4A", "square")
PUNCTUATION = Kind("periods and commas", "#D77FB5", "triangle-down")
SINK = Kind("no token (learned sink)", "#6B6B6B", "wedge")
OWN = Kind("token classes of yours", "#5B5BD6", "arrow")
HALF, OFTEN = 0.5, 0.25
TOGETHER = Threshold(
    "special_together", 0.5, "Threshold for special tokens, periods and commas together."
)
THRESHOLD = Threshold(
    "special_token", 0.6, "Threshold for special tokens, and for periods and commas."
)


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
        "special and punctuation", "looks at special tokens, periods and commas together ({})",
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
