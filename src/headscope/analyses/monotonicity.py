"""Does cross attention go through the source in order, or backwards?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from headscope.contracts import Analysis, Annotation, Watch
from headscope.data.attention import LayerAttention, Readings
from headscope.data.encoding import Batch, TokenKind
from headscope.data.reading import MAPS, DerivedReading
from headscope.data.table import Tables
from headscope.lazy import Tensor, torch
from headscope.stats.estimates import FROM_MINUS_1_TO_1, Estimates, Number
from headscope.stats.ranking import Values
from headscope.stats.sums import Sums
from headscope.view.answer import Answer, AnswerMaker, count_heads, nearest_head
from headscope.view.facts import head_facts
from headscope.view.judge import passing
from headscope.view.numbers import Form
from headscope.view.presentation import CROSS, Presentation
from headscope.view.specs import COLOURS, HOW_TO_READ, Behaviour, Grid, Kind, Threshold

__all__ = ["Monotonicity"]

SPREAD = 1e-3  # of places in a text whose length is 1; below it is rounding


@dataclass(frozen=True)
class Correlation(DerivedReading):
    """The correlation of places over the text of both sides, by head."""

    of = (MAPS,)

    def derive(self, layer: LayerAttention) -> Float[Tensor, "example head"]:
        return _correlate(layer.read(MAPS), _writes_text(layer.batch), _is_text(layer.keys))


CORRELATION = Correlation()


@dataclass(frozen=True)
class Monotonicity(Analysis):
    """Mean correlation of the place in the target with the place attended to in the source.

    Per segment, every pair of a target and a source token counts by its attention weight: 1 is a
    straight diagonal, -1 the anti-diagonal, 0 no order. Special tokens of both sides are left out,
    so attention to the source's end token says nothing here.
    """

    name = "monotonicity"
    watches = Watch.CROSS_ATTENTION
    weighs_documents = True
    needs = frozenset({Annotation.TARGETS})
    reads = (CORRELATION,)
    sums = {"correlation": "layer head", "segments": ""}
    tables = {"monotonicity": ("layer", "head", "correlation", "low", "high")}

    def measure(self, seen: Readings) -> Mapping[str, Tensor]:
        """The correlation by head, and whether there are places to correlate."""
        correlation = seen[CORRELATION]  # [example, layer, head]
        n_places = [part.sum(-1) for part in (_writes_text(seen.batch), _is_text(seen.keys))]
        has_places = ((n_places[0] > 1) & (n_places[1] > 1)).to(correlation.dtype)  # [example]
        return {"correlation": correlation * has_places[:, None, None], "segments": has_places}

    def rank(self, values: Mapping[str, Values]) -> dict[str, Values]:
        """The correlation itself, and turned round."""
        has_places = values["segments"][:, None, None] > 0  # [example, 1, 1]
        correlation = np.where(has_places, values["correlation"], np.nan)
        return {"in order": correlation, "backwards": -correlation}

    def summarize(self, sums: Sums) -> Mapping[str, Estimates]:
        """Mean over segments, by head."""
        correlation = Number(sums.mean("correlation", "segments"), FROM_MINUS_1_TO_1)
        return {self.name: Estimates({"correlation": correlation}, untrained="correlation")}


def _correlate(
    weights: Float[Tensor, "example head query key"],
    rows: Bool[Tensor, "example query"],
    columns: Bool[Tensor, "example key"],
) -> Float[Tensor, "example head"]:
    """The correlation of row and column over these cells of the maps, each counted by its weight.

    It is 0 where attention stays at one place: there is no order, and rounding must not make one.
    """
    x, y = _powers(rows, weights.dtype), _powers(columns, weights.dtype)  # [example, token, power]
    by_row = weights @ y[:, None]  # [example, head, query, power]
    sums = x.mT[:, None].double() @ by_row.double()  # [example, head, power of x, power of y]
    mean = sums / sums[..., :1, :1].clamp_min(torch.finfo(sums.dtype).tiny)
    covariance = mean[..., 1, 1] - mean[..., 1, 0] * mean[..., 0, 1]
    spread_x = (mean[..., 2, 0] - mean[..., 1, 0] ** 2).clamp_min(0).sqrt()
    spread_y = (mean[..., 0, 2] - mean[..., 0, 1] ** 2).clamp_min(0).sqrt()
    is_spread = (spread_x > SPREAD) & (spread_y > SPREAD)
    return is_spread * covariance / (spread_x * spread_y).clamp_min(SPREAD**2)


def _powers(
    is_text: Bool[Tensor, "example token"], dtype: torch.dtype
) -> Float[Tensor, "example token power"]:
    """1, place and its square for each token of the text; places run from -1/2 to 1/2."""
    position = torch.linspace(-0.5, 0.5, is_text.shape[1], dtype=dtype, device=is_text.device)
    return torch.stack([position**0, position, position**2], dim=-1) * is_text[:, :, None]


def _is_text(batch: Batch) -> Bool[Tensor, "example token"]:
    return batch.kinds == TokenKind.TEXT


def _writes_text(targets: Batch) -> Bool[Tensor, "example query"]:
    """Which rows predict text: the decoder reads a token and writes the one after it."""
    is_text = _is_text(targets)
    return torch.cat([is_text[:, 1:], torch.zeros_like(is_text[:, :1])], dim=1)


ORDER = Form("+.2f", to=" to ")
KIND = Kind("the source in order or backwards", COLOURS[5], "triangle-right")
THRESHOLD = Threshold("monotone", 0.5, "Threshold for calling a cross head monotone.")


def answer_order(tables: Tables) -> list[Answer]:
    """How many heads read the source in order, or backwards, and the one that does so most."""
    table = tables["monotonicity"]
    table = table[table["correlation"].notna()]
    if table.empty:
        return []
    is_back = abs(table["correlation"].min()) > table["correlation"].max()
    if is_back:
        ends = {"correlation": "correlation", "low": "high", "high": "low"}
        table = table.assign(**{name: -table[old] for name, old in ends.items()})
    order, line = ("backwards", "anti-diagonal") if is_back else ("in order", "diagonal")
    heads = passing(table, THRESHOLD.default, "correlation")
    forms = ("monotonicity", "correlation", ORDER, ORDER)
    if not len(heads.sure):
        does = "reads the source in order or backwards"
        return [nearest_head(table, heads, does, *forms, threshold=THRESHOLD.default)]
    does = f"reads the source {order} (1 is a straight {line})"
    return [count_heads(heads, len(table), does, 0.9, *forms, threshold=THRESHOLD.default)]


PRESENTATION = Presentation(CROSS, made_by="--text PAIRS.jsonl", show=[
    Grid(
        name="monotonicity", column="correlation", axis="order (1 diagonal, -1 anti-diagonal)",
        diverging=True, title="Heads that read the source in order",
        caption=f"{HOW_TO_READ} Correlation between the position in the target and the attended "
        "position in the source. Red: the source is read in order (1 is a straight diagonal). "
        "Blue: backwards.",
    ),
    AnswerMaker(("monotonicity",), answer_order),
    head_facts("order of the source", "monotonicity", "correlation", form=ORDER, bar="none"),
    *(
        Behaviour(
            f"source {order}", f"reads the source {order} ({{}})", KIND, THRESHOLD, "monotonicity",
            "correlation", ranking=order, short=short, is_negative=order == "backwards",
        )
        for order, short in (("in order", "order"), ("backwards", "back"))
    ),
])  # fmt: skip
