"""What is shown of how broadly heads attend (section 3.3)."""

from collections.abc import Callable
from math import log
from typing import Any

import pandas as pd

from headscope.data.table import Tables
from headscope.view.behaviour import Behaviour, Kind, Threshold
from headscope.view.card import FactMaker, Facts, add_rank, by_head
from headscope.view.claim import (
    CAUSAL,
    Claim,
    Outcome,
    judge,
    list_heads,
    mean_over,
    note_open,
    place_heads,
    top_row,
)
from headscope.view.depth import count_layers
from headscope.view.figure import COLOURS, Chart, Figure, number
from headscope.view.heads_grid import HOW_TO_READ, HeadsGrid
from headscope.view.layer_dots import LayerDots, how_to_read
from headscope.view.numbers import SHARE, Form, percent, row_estimate
from headscope.view.presentation import SURFACE, Presentation

__all__ = ["BROAD", "PRESENTATION", "breadth"]

PANELS = {"all": "from all tokens", "cls": "from the opening token ([CLS])"}
EVEN = log(128)  # nats of even attention over the paper's segments
THRESHOLD = Threshold(
    "broad",
    3.8,
    "Threshold for calling a head broad: entropy in nats at 128 tokens.",
    most=EVEN,
    per=EVEN,
)
BROAD = THRESHOLD.as_share({})  # of even attention: 3.8 nats at 128 tokens
CLOSE = 0.1  # of the entropy of even attention: about half a nat at 128 tokens
NO_CLS = "This model's input has no opening token ([CLS])."
ONE_KEY = f"{CAUSAL} the opening token sees itself alone and has no breadth."
NATS = Form(".2f", unit=" nats")


def breadth(table: pd.DataFrame, rows: str = "all") -> pd.DataFrame:
    """Entropy as a share of that of even attention; none where a row sees one token only."""
    table = table[table["rows"] == rows]
    even = table["uniform"].where(table["uniform"] > 0)
    ends = {name: table[name] / even for name in ("low", "high")}
    return table.assign(share=table["nats"] / even, **ends)


def _shares(tables: Tables, rows: str) -> pd.DataFrame:
    shares = breadth(tables["entropy"], rows)
    return shares[shares["uniform"] > 0]


def _explain_no_cls(tables: Tables) -> str:
    """Why nothing can be said of the opening token."""
    return ONE_KEY if (tables["entropy"]["rows"] == "cls").any() else NO_CLS


def draw_entropy(tables: Tables) -> Chart:
    """All tokens in one panel, [CLS] in the other; even attention as a dashed line."""
    dots = LayerDots(
        value="nats",
        title="entropy of attention (nats)",
        split="rows",
        words=PANELS,
        reference="uniform",
        reference_title="even attention",
    )
    return dots.draw(tables["entropy"])


def draw_entropy_grid(tables: Tables) -> Chart:
    """The entropy over all rows."""
    table = tables["entropy"]
    even = [number("uniform", "even attention")]
    grid = HeadsGrid("nats", "entropy (nats)", said=even, carried=["uniform"])
    return grid.draw(table[table["rows"] == "all"])


def entropy_facts(tables: Tables) -> Facts:
    """How broadly it attends, beside even attention."""
    table = tables["entropy"]
    ranked = add_rank(table[table["uniform"] > 0], "nats", "rows")
    n_heads = len(table[table["rows"] == "all"])

    def phrase(row: Any) -> str:
        source = "from [CLS] " if row.rows == "cls" else ""
        share = f"{SHARE.number(row.nats / row.uniform)} of even attention, {row.uniform:.2f}"
        return f"{source}{NATS.row(row, 'nats')} ({share}; rank {row.rank:.0f} of {n_heads})"

    return by_head(ranked, "entropy", phrase)


def check_broad(tables: Tables) -> Outcome:
    """Some heads attend very broadly."""
    shares = _shares(tables, "all")
    if shares.empty:
        return Outcome(None, "No token sees more than itself.")
    found = shares[shares["share"] > BROAD]
    if found.empty:
        top = list_heads(shares.nlargest(1, "share"), "share")
        return Outcome(False, f"No head does; the broadest is {top} of even attention.")
    unsure = note_open(found, BROAD, "the threshold")
    shows = (
        f"{len(found)} of {len(shares)} heads have over {percent(BROAD)} % of the entropy of even "
        f"attention: {list_heads(found, 'share')}.{unsure}"
    )
    return Outcome(True, shows)


def check_broad_is_low(tables: Tables) -> Outcome:
    """Broad heads are mostly in the lower half."""
    shares = _shares(tables, "all")
    found = shares[shares["share"] > BROAD]
    return place_heads(found, count_layers(tables["entropy"]), "attend broadly")


def check_first_layer(tables: Tables) -> Outcome:
    """The first layer has a broad head."""
    shares = _shares(tables, "all")
    if shares.empty:
        return Outcome(None, "No token sees more than itself.")
    lowest = int(shares["layer"].min())
    first = shares[shares["layer"] == lowest]
    n_broad = int((first["share"] > BROAD).sum())
    shows = (
        f"{n_broad} of the {len(first)} heads of layer {lowest} attend broadly (over "
        f"{percent(BROAD)} % of even attention); the broadest is "
        f"{list_heads(first.nlargest(1, 'share'), 'share')}."
    )
    return judge(row_estimate(top_row(first, "share"), "share"), BROAD, shows)


def check_cls_last(tables: Tables) -> Outcome:
    """In the last layer [CLS] attends broadly."""
    shares = _shares(tables, "cls")
    if shares.empty:
        return Outcome(None, _explain_no_cls(tables))
    last = shares[shares["layer"] == shares["layer"].max()]
    found = mean_over(last, "share")
    nats, uniform = float(last["nats"].mean()), float(last["uniform"].mean())
    shows = (
        f"From [CLS] the last layer's heads have {nats:.2f} nats in the mean, "
        f"{SHARE.estimate(found)} of even attention ({uniform:.2f} nats)."
    )
    return judge(found, BROAD, shows)


def check_cls_close(tables: Tables) -> Outcome:
    """In most other layers [CLS] attends as broadly as the others."""
    shares = (_shares(tables, rows).groupby("layer")["share"] for rows in ("all", "cls"))
    of_all, of_cls = (by_layer.mean() for by_layer in shares)
    if of_cls.empty:
        return Outcome(None, _explain_no_cls(tables))
    apart = (of_cls - of_all).abs()
    others = apart[apart.index < apart.index.max()]
    if others.empty:
        return Outcome(None, "The model has one layer: there are none but the last.")
    n_close = int((others < CLOSE).sum())
    shows = (
        f"In {n_close} of the {len(others)} layers below the last, the mean entropy from [CLS] "
        f"is within 10 points (in % of even attention) of that from all tokens; the largest "
        f"gap is {percent(float(others.max()))}, in layer {int(others.idxmax())}."
    )
    return Outcome(n_close > len(others) / 2, shows)


def _claim(name: str, says: str, paper: str, check: Callable[[Tables], Outcome]) -> Claim:
    return Claim(name, "3.3", says, paper, ("entropy",), "--text FILE", check, "entropy")


FIGURES = (
    Figure(
        name="entropy",
        title="Broad and narrow attention",
        caption=(
            f"{how_to_read('entropy of its attention, in nats')} 0 is all attention on one token; "
            "the dashed line is attention spread evenly over all tokens it may see. One panel is "
            "over all tokens, one over the opening token ([CLS]) alone, where there is one."
        ),
        needs=("entropy",),
        made_by="--text FILE",
        draw_tables=draw_entropy,
        paper="Figure 4",
    ),
    Figure(
        name="heads-entropy",
        title="How broadly each head attends",
        caption=f"{HOW_TO_READ} The darker, the broader its attention (entropy, in nats).",
        needs=("entropy",),
        made_by="--text FILE",
        draw_tables=draw_entropy_grid,
        is_half=True,
    ),
)
CLAIMS = (
    _claim(
        "broad-heads",
        "Some heads attend very broadly (here: over 78 % of the entropy of even attention, 3.8 "
        "nats at 128 tokens).",
        "seen in Figure 4; 3.8 nats is the threshold of Figure 6",
        check_broad,
    ),
    _claim(
        "broad-heads-are-low",
        "Heads that attend very broadly are mostly in the lower layers.",
        "especially in lower layers",
        check_broad_is_low,
    ),
    _claim(
        "first-layer-is-broad",
        "The first layer has heads with particularly high entropy (here: over 78 % of even "
        "attention).",
        "seen in Figure 4",
        check_first_layer,
    ),
    _claim(
        "cls-is-broad-in-the-last-layer",
        "In the last layer [CLS] attends very broadly (here: over 78 % of even attention).",
        "3.89 nats, about 80 % of even attention over 128 tokens",
        check_cls_last,
    ),
    _claim(
        "cls-is-like-others-below",
        "In most other layers the entropy from [CLS] is close to that from all tokens (here: "
        "within a tenth of even attention).",
        "very close in most layers",
        check_cls_close,
    ),
)
BREADTH = Behaviour(
    "everything, broadly",
    "attends broadly ({} of even attention)",
    Kind("everything, broadly", COLOURS[4], "triangle-up"),
    THRESHOLD,
    "entropy",
    breadth,
    ranking="broad",
    is_background=True,
)
PRESENTATION = Presentation(
    section=SURFACE,
    figures=FIGURES,
    claims=CLAIMS,
    facts=(FactMaker(("entropy",), entropy_facts),),
    behaviours=(BREADTH,),
)
