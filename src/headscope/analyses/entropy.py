"""How broadly a head attends: the entropy of its rows (paper, section 3.3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import log
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from headscope.contracts import Analysis
from headscope.data.attention import Readings
from headscope.data.encoding import TokenKind
from headscope.data.reading import SUMS
from headscope.data.table import Tables, rows_where
from headscope.lazy import Tensor, torch
from headscope.stats.estimates import (
    AT_LEAST_0,
    FROM_0_TO_1,
    FROM_MINUS_1_TO_1,
    EstimateColumn,
    Estimates,
    Number,
    add_difference,
)
from headscope.stats.ranking import Values
from headscope.stats.sums import Sums
from headscope.view.answer import (
    Answer,
    AnswerMaker,
    Topic,
    count_heads,
    nearest_head,
    write_percent,
)
from headscope.view.facts import head_facts
from headscope.view.judge import (
    CAUSAL,
    Claim,
    Outcome,
    beside_untrained,
    fill_exact,
    judge,
    judge_count,
    list_heads,
    mostly_low,
    note_open,
    note_undecided,
    passing,
    some,
)
from headscope.view.numbers import POINTS, SHARE, Form, percent, row_estimate
from headscope.view.presentation import SURFACE, Presentation
from headscope.view.specs import (
    HOW_TO_READ,
    Behaviour,
    Dots,
    Grid,
    HeadMeasure,
    Hover,
    Kind,
    Threshold,
    how_to_read,
)

__all__ = ["BROAD", "Entropy"]


@dataclass(frozen=True)
class Entropy(Analysis):
    """Mean of -sum a ln a in nats, over all rows and for the row of [CLS] alone.

    `cls` is the first opening special token, wherever it stands (XLNet's is the last token); a
    model without one (T5, GPT-2) has no such rows. `uniform` is what a head that spreads its
    attention evenly over the keys it may see would get, and `share` the one over the other.
    A learned sink (gpt-oss) counts as one more key in both.
    """

    name = "entropy"
    weighs_documents = True
    measures_cross = True
    reads = (SUMS,)
    sums = {
        "nats": "layer head rows", "uniform": "layer rows", "segments": "rows",
    }  # fmt: skip
    labels = {"rows": ("all", "cls")}
    tables = {
        "entropy": (
            *("layer", "head", "rows", "nats", "low", "high"),
            *("uniform", "share", "share_low", "share_high"),
        ),
        "entropy-layers": (
            *("layer", "rows", "nats", "low", "high", "share", "share_low", "share_high"),
        ),
    }

    def measure(self, seen: Readings) -> Mapping[str, Tensor]:
        """Entropy by kind of row, beside that of uniform attention."""
        nats = seen[SUMS].entropy  # [example, layer, head, query]
        is_cls = seen.batch.kinds == TokenKind.CLS  # [example, query]
        first = (is_cls & (is_cls.cumsum(-1) == 1)).to(nats.dtype)
        even = torch.full_like(first, 1 / seen.n_queries)
        shares = torch.stack([even, first], dim=-1)  # [example, query, rows]
        ceiling = (seen.visible + seen.has_sink).to(nats.dtype).log()  # [layer, query]
        has_rows = torch.stack([torch.ones_like(first[:, 0]), first.sum(-1)], dim=-1)
        uniform = torch.stack([layer @ shares for layer in ceiling], dim=1)
        return {"nats": nats @ shares[:, None], "uniform": uniform, "segments": has_rows}

    def rank(self, values: Mapping[str, Values]) -> dict[str, Values]:
        """The share of even attention: the broader, the better an example shows it."""
        nats, uniform = values["nats"][..., 0], values["uniform"][:, :, None, 0]
        return {"broad": nats / np.where(uniform > 0, uniform, np.nan)}

    def summarize(self, sums: Sums) -> Mapping[str, Estimates]:
        """Mean over segments, by head and kind of row; then over the heads of each layer.

        Kinds that no segment has are left out.
        """
        nats, uniform = sums.mean("nats", "segments"), sums.mean("uniform", "segments")
        share = nats / uniform.where(uniform > 0)
        heads: dict[str, EstimateColumn] = {
            "nats": Number(nats, AT_LEAST_0),
            "uniform": uniform.isel(replicate=0),
            "share": Number(share, FROM_0_TO_1),
        }
        layers: dict[str, EstimateColumn] = {
            "nats": Number(_by_layer(nats)),
            "share": Number(_by_layer(share), FROM_MINUS_1_TO_1),
        }
        return {
            self.name: Estimates(heads, known="nats"),
            "entropy-layers": Estimates(layers, untrained="share"),
        }


def _by_layer(replicates: xr.DataArray) -> xr.DataArray:
    """The mean over heads, and by how much the first token's is above that of all."""
    return add_difference(replicates.mean("head", skipna=False), "rows", "cls", "all")


EVEN = log(128)  # nats of even attention over the paper's segments
THRESHOLD = Threshold(
    "broad", 3.8, "Threshold for calling a head broad: entropy in nats at 128 tokens.",
    most=EVEN, per=EVEN,
)  # fmt: skip
BROAD = THRESHOLD.as_share({})  # of even attention: 3.8 nats at 128 tokens
CLOSE = 0.1  # of the entropy of even attention: about half a nat at 128 tokens
NO_CLS = "This model's input has no opening token ([CLS])."
ONE_KEY = f"{CAUSAL} the opening token attends only to itself, so its breadth is not defined."
NO_ROW = "No token attends to any other token."
NATS = Form(".2f", unit=" nats")


def _shares(tables: Tables) -> pd.DataFrame:
    """The breadth of every head over all rows, as a share of even attention."""
    rows = rows_where(fill_exact(tables["entropy"], "share"), rows="all")
    return rows[rows["share"].notna()]


def answer_breadth(tables: Tables) -> list[Answer]:
    """How many heads attend broadly, and the broadest."""
    shares = _shares(tables)
    if shares.empty:
        return []
    heads, does = passing(shares, BROAD, "share"), "attends broadly, to most of the text"
    if len(heads.sure):
        does += " rather than to a few tokens"
        weight = len(heads.sure) / len(shares)
        options: dict[str, Any] = {"topic": Topic.SUMMARY, "threshold": BROAD}
        answer = count_heads(heads, len(shares), does, weight, "entropy", "share", **options)
    else:
        answer = nearest_head(shares, heads, does, "entropy", "share", threshold=BROAD)
    line = f"Broad: over {write_percent(BROAD)} of the entropy of even attention."
    return [replace(answer, detail=f"{line} {answer.detail}")]


def check_first_layer(tables: Tables) -> Outcome:
    """A larger share of the first layer's heads is broad than of the others'."""
    shares = _shares(tables)
    lowest = shares["layer"].min()
    first, above = shares[shares["layer"] == lowest], shares[shares["layer"] > lowest]
    if first.empty or above.empty:
        return Outcome("not measured", "There is no other layer to compare the first with.")
    here, there = (passing(part, BROAD, "share") for part in (first, above))
    n_here, n_there = (len(part.sure) for part in (here, there))
    attend = "attends" if n_here == 1 else "attend"
    shows = (
        f"In layer {lowest}, {n_here} of {len(first)} heads {attend} broadly (over "
        f"{percent(BROAD)} % of even attention); above it, {n_there} of {len(above)} "
        f"({percent(n_there / len(above))} %); the broadest head of layer {lowest} is "
        f"{list_heads(first.nlargest(1, 'share'), 'share')}."
        f"{note_open(passing(shares, BROAD, 'share'), 'this line')}"
    )
    if n_here / len(first) > (n_there + len(there.open)) / len(above):
        return Outcome("holds", shows)
    is_possible = (n_here + len(here.open)) / len(first) > n_there / len(above)
    return Outcome("undecided" if is_possible else "does not hold", shows)


def _layer_rows(tables: Tables, rows: str) -> pd.DataFrame | Outcome:
    """Means over the heads of each layer, of one kind of row; or why there are none."""
    layers = rows_where(fill_exact(tables["entropy-layers"], "share"), rows=rows)
    layers = layers[layers["share"].notna()]
    has_cls = (tables["entropy"]["rows"] == "cls").any()
    return layers if len(layers) else Outcome("not measured", ONE_KEY if has_cls else NO_CLS)


def check_cls_last(tables: Tables) -> Outcome:
    """In the last layer [CLS] attends broadly."""
    rows = _layer_rows(tables, "cls")
    if isinstance(rows, Outcome):
        return rows
    last = rows[rows["layer"] == rows["layer"].max()].iloc[0]
    shows = (
        f"From [CLS], the heads of the last layer have {NATS.row(last, 'nats')} on average, "
        f"{SHARE.row(last, 'share')} of even attention.{beside_untrained(last)}"
    )
    return judge(row_estimate(last, "share"), BROAD, shows)


def check_cls_close(tables: Tables) -> Outcome:
    """In most other layers [CLS] attends as broadly as the others."""
    rows = _layer_rows(tables, "cls - all")
    if isinstance(rows, Outcome):
        return rows
    others = rows[rows["layer"] < rows["layer"].max()]
    if others.empty:
        return Outcome("not measured", "The model has only one layer.")
    low, high = others["share_low"].fillna(-1.0), others["share_high"].fillna(1.0)
    n_close = int(((low > -CLOSE) & (high < CLOSE)).sum())
    n_open = int(((low < CLOSE) & (high > -CLOSE)).sum()) - n_close
    far = others.loc[others["share"].abs().idxmax()]
    shows = (
        f"In {n_close} of the {len(others)} layers below the last, the mean entropy from [CLS] "
        f"is within 10 points (in % of even attention) of that from all tokens; the largest "
        f"gap is {POINTS.row(far, 'share')}, in layer {int(far['layer'])}.{note_undecided(n_open)}"
    )
    return judge_count(n_close, n_open, len(others) // 2 + 1, shows)


PRESENTATION = Presentation(SURFACE, paper="3.3", figure="entropy", show=[
    Dots(
        name="entropy", column="nats", axis="entropy of attention (nats)", split="rows",
        words={"all": "from all tokens", "cls": "from the opening token"},
        dashed="uniform", dashed_title="even attention",
        title="Broad and narrow attention", paper="Figure 4",
        caption=f"{how_to_read('entropy of its attention, in nats')} 0: all attention on one "
        "token. Dashed line: attention spread evenly over all visible tokens. One panel: attention "
        "from all tokens. The other: from the opening token, if there is one.",
    ),
    Grid(
        name="heads-entropy", needs=("entropy",), column="nats", axis="entropy (nats)",
        where={"rows": "all"}, hover=[Hover("uniform", "even attention", ".3~g")],
        title="How broadly each head attends",
        caption=f"{HOW_TO_READ} The darker, the broader its attention (entropy, in nats). "
        "Its scale is its own.",
    ),
    some(
        "broad-heads", "entropy", column="share", where={"rows": "all"}, line=BROAD,
        does=f"has over {percent(BROAD)} % of the entropy of even attention",
        missing=NO_ROW, written="this line",
        says="Some heads attend very broadly (here: over 78 % of the entropy of even attention, "
        "3.8 nats at 128 tokens).",
        paper='"some attention heads, especially in lower layers, have very broad attention"; 3.8 '
        "nats is not in the paper's text: it is the line for broad heads in the code of Figure 6",
    ),
    mostly_low(
        "broad-heads-are-low", "entropy", column="share", where={"rows": "all"}, line=BROAD,
        does="attends broadly", missing=NO_ROW,
        says="Heads that attend very broadly are mostly in the lower half of the layers.",
        paper='"especially in lower layers"',
    ),
    Claim(
        "first-layer-is-broad", check_first_layer, needs=("entropy",),
        says="The first layer has heads with particularly high entropy (here: the share of heads "
        "with over 78 % of the entropy of even attention is larger than in the layers above).",
        paper='"In the first layer there are particularly high-entropy heads" (caption of Figure '
        "4)",
    ),
    Claim(
        "cls-is-broad-in-the-last-layer", check_cls_last, needs=("entropy-layers", "entropy"),
        says="In the last layer [CLS] attends very broadly (here: over 78 % of even attention).",
        paper='"the last layer has a high entropy from [CLS] of 3.89 nats, indicating very broad '
        'attention": about 80 % of even attention over 128 tokens',
    ),
    Claim(
        "cls-is-like-others-below", check_cls_close, needs=("entropy-layers", "entropy"),
        says="In most other layers the entropy from [CLS] is close to that from all tokens (here: "
        "within a tenth of even attention).",
        paper='"the average entropies from [CLS] for most layers are very close"',
    ),
    AnswerMaker(("entropy",), answer_breadth),
    HeadMeasure(
        "pattern_entropy", "Mean entropy of the rows of attention, in nats.", "entropy", "nats",
        {"rows": "all"},
    ),
    head_facts(
        "entropy", "entropy", "nats", form=NATS, split="rows", seen=True,
        words={"all": "", "cls": "from the opening token"}, bar="share",
        note=lambda row: f"{SHARE.number(row.share)} of even attention, {row.uniform:.2f}",
    ),
    Behaviour(
        "everything, broadly", "attends broadly ({} of even attention)",
        Kind("everything, broadly", "#A8A06A", "triangle-up"), THRESHOLD, "entropy", "share",
        {"rows": "all"}, ranking="broad", is_background=True, is_look=True, short="broad",
        panel="broad",
        also="uniform even bag of words wide entropy",
    ),
])  # fmt: skip
