"""Section 3.3 and Figure 4: heads that attend broadly."""

from collections.abc import Callable

import pandas as pd

from headscope.analyses.behaviours import Thresholds
from headscope.report.cells import percent
from headscope.report.claims.claim import Claim, Estimate, Outcome, Tables, judge, top_row
from headscope.report.claims.depth import count_layers
from headscope.report.claims.position import list_heads, place_heads

__all__ = ["CLAIMS"]

BROAD = Thresholds().shares()["entropy"]  # of even attention: 3.8 nats at 128 tokens
CLOSE = 0.1  # of the entropy of even attention: about half a nat at 128 tokens
ONE_KEY = "The first token sees itself alone: it has no breadth."


def check_broad(tables: Tables) -> Outcome:
    """Some heads attend very broadly."""
    shares = _shares(tables, "all")
    if shares.empty:
        return Outcome(None, "No token sees more than itself.")
    found = shares[shares["share"] > BROAD]
    if found.empty:
        top = list_heads(shares.nlargest(1, "share"), "share")
        return Outcome(False, f"No head does; the broadest is {top} of even attention.")
    unsure = int((found["low"] <= BROAD).sum())
    doubt = f" Heads with the threshold within their interval: {unsure}."
    shows = (
        f"{len(found)} of {len(shares)} heads have over {percent(BROAD)} % of the entropy of even "
        f"attention: {list_heads(found, 'share')}.{doubt * bool(unsure)}"
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
    first = shares[shares["layer"] == 1]
    if first.empty:
        return Outcome(None, "No token sees more than itself.")
    top = top_row(first, "share")
    n_broad = int((first["share"] > BROAD).sum())
    shows = (
        f"{n_broad} of the {len(first)} heads of layer 1 attend broadly (over {percent(BROAD)} % "
        f"of even attention); the broadest is {list_heads(first.nlargest(1, 'share'), 'share')}."
    )
    return judge(Estimate.from_row(top, "share"), BROAD, shows)


def check_cls_last(tables: Tables) -> Outcome:
    """In the last layer the first token attends broadly."""
    shares = _shares(tables, "cls")
    if shares.empty:
        return Outcome(None, ONE_KEY)
    last = shares[shares["layer"] == shares["layer"].max()]
    found = Estimate.mean_of(last, "share")
    nats, uniform = float(last["nats"].mean()), float(last["uniform"].mean())
    shows = (
        f"From the first token the last layer's heads have {nats:.2f} nats in the mean, {found} of "
        f"even attention ({uniform:.2f} nats)."
    )
    return judge(found, BROAD, shows)


def check_cls_close(tables: Tables) -> Outcome:
    """In most other layers the first token attends as broadly as the others."""
    all_rows, cls_rows = (_shares(tables, rows) for rows in ("all", "cls"))
    if cls_rows.empty:
        return Outcome(None, ONE_KEY)
    apart = (_layer_means(cls_rows) - _layer_means(all_rows)).abs()
    others = apart[apart.index < apart.index.max()]
    if others.empty:
        return Outcome(None, "The model has one layer: there are none but the last.")
    n_close = int((others < CLOSE).sum())
    shows = (
        f"In {n_close} of the {len(others)} layers below the last, the mean entropy from the first "
        f"token is within 10 points (in % of even attention) of that from all tokens; the largest "
        f"gap is {percent(float(others.max()))}, in layer {int(others.idxmax())}."
    )
    return Outcome(n_close > len(others) / 2, shows)


def _shares(tables: Tables, rows: str) -> pd.DataFrame:
    """Entropy as a share of that of even attention; without heads that see one token only."""
    table = tables["entropy"]
    table = table[(table["rows"] == rows) & (table["uniform"] > 0)]
    ends = {name: table[name] / table["uniform"] for name in ("low", "high")}
    return table.assign(share=table["nats"] / table["uniform"], **ends)


def _layer_means(shares: pd.DataFrame) -> pd.Series:
    return shares.groupby("layer")["share"].mean()


def _claim(
    name: str,
    says: str,
    paper: str,
    check: Callable[[Tables], Outcome],
) -> Claim:
    return Claim(name, "3.3", says, paper, ("entropy",), "--text FILE", check, "entropy")


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
