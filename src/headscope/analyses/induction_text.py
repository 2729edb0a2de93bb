"""Induction in natural text: attention to what followed the last occurrence of the same token."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from headscope.contracts import Analysis
from headscope.data.attention import Readings
from headscope.data.encoding import Batch, TokenKind
from headscope.data.reading import ChosenKeys
from headscope.lazy import Tensor, torch
from headscope.stats.estimates import FROM_0_TO_1, EstimateColumn, Estimates, Number
from headscope.stats.sums import REPLICATE, Sums
from headscope.view.facts import head_facts
from headscope.view.numbers import SHARE
from headscope.view.presentation import LANGUAGE_MODELS, Presentation
from headscope.view.specs import HOW_TO_READ, Grid, HeadMeasure, Hover

__all__ = ["InductionText"]


class Followers(ChosenKeys):
    """For each token of the text that occurred before, the token after its last occurrence.

    None where that would be the token itself.
    """

    def choose(self, batch: Batch) -> Int[Tensor, "example query choice"]:
        keys = np.full((len(batch), batch.n_tokens, 1), -1)
        for i, encoding in enumerate(batch.encodings):
            last: dict[int, int] = {}
            is_text = (encoding.kinds == TokenKind.TEXT).tolist()
            for at, token in enumerate(encoding.inputs["input_ids"].tolist()):
                if is_text[at] and last.get(token, at) + 1 < at:
                    keys[i, at, 0] = last[token] + 1
                last[token] = at
        return torch.from_numpy(keys).to(batch.device)


FOLLOWERS = Followers()


@dataclass(frozen=True)
class InductionText(Analysis):
    """Mean attention of a token that occurred before to what followed its last occurrence.

    `chance` is what even attention over the visible tokens would give. Words repeat for many
    reasons in natural text, so this is a wider definition than that of repeated random tokens.
    """

    name = "induction-text"
    reads = (FOLLOWERS,)
    sums = {"weight": "layer head", "chance": "layer", "tokens": ""}
    tables = {"induction-text": ("layer", "head", "weight", "low", "high", "chance")}

    def measure(self, seen: Readings) -> Mapping[str, Tensor]:
        """Sums over the tokens that have a key."""
        weights = seen[FOLLOWERS][..., 0]  # [example, layer, head, query]
        has_key = (FOLLOWERS.keys(seen.batch)[..., 0] >= 0).to(weights.dtype)  # [example, query]
        chance = has_key @ (1 / seen.visible.to(weights.dtype)).T
        return {"weight": weights.sum(-1), "chance": chance, "tokens": has_key.sum(-1)}

    def summarize(self, sums: Sums) -> Mapping[str, Estimates]:
        """Means over all such tokens, by head."""
        weight = sums.mean("weight", "tokens")
        chance = sums.mean("chance", "tokens").isel({REPLICATE: 0}, drop=True)
        heads: dict[str, EstimateColumn] = {"weight": Number(weight, FROM_0_TO_1)}
        return {self.name: Estimates({**heads, "chance": chance}, untrained="weight")}


PRESENTATION = Presentation(LANGUAGE_MODELS, figure="heads-induction-text", show=[
    Grid(
        name="heads-induction-text", needs=("induction-text",), column="weight",
        axis="share of attention", hover=[Hover("chance", "even attention", ".2%")],
        title="Induction in natural text",
        caption=f"{HOW_TO_READ} The darker, the more a token that occurred before attends to what "
        "followed its last occurrence.",
    ),
    HeadMeasure(
        "induction_score", "Mean attention of a token that occurred before to what followed its "
        "last occurrence.", "induction-text", "weight",
    ),
    head_facts(
        "induction in text", "induction-text", value="{} to what followed the last occurrence",
        note=lambda row: f"{SHARE.number(row.chance)} by chance",
    ),
])  # fmt: skip
