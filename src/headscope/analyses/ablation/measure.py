"""Does a head matter? What its absence does to the loss, or to the hidden states."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from headscope.arguments import fits
from headscope.contracts import Analysis, Watch
from headscope.data.attention import Changes, parse_head_name
from headscope.errors import StudyError, shorten
from headscope.options import option
from headscope.stats.estimates import Estimates, Number
from headscope.stats.sums import REPLICATE, Sums, mean_of

__all__ = ["MODES", "Ablation", "read_heads"]

MODES = ["zero", "mean", "sink"]

Heads = tuple[tuple[int, int], ...]  # layer and head, from 0


def read_heads(heads: Any) -> Heads:
    """The heads, counted from 0, of names such as "3-5,8-10", or of pairs counted from 0.

    >>> read_heads("3-5,8-10"), read_heads([[2, 4]])
    (((2, 4), (7, 9)), ((2, 4),))
    """
    named = heads.split(",") if isinstance(heads, str) else heads
    named = list(named) if fits(named, Iterable[Any]) else [named]
    found = [parse_head_name(head) if isinstance(head, str) else _as_pair(head) for head in named]
    if not found or None in found:
        raise StudyError(
            f"--heads {shorten(heads)} cannot be read. Expected pairs of layer and head, counted "
            "from 1; separate them by commas, e.g. --heads 3-5,8-10."
        )
    return tuple(head for head in found if head is not None)


def _as_pair(head: Any) -> tuple[int, int] | None:
    match head:
        case [int(layer), int(number)] if layer >= 0 and number >= 0:
            return layer, number
    return None


@dataclass(frozen=True)
class Ablation(Analysis):
    """The mean change of the model's answer by altering one head, in each way.

    The change of an example is paired with the answer of the model as it is, so the interval is
    that of the difference. `heads` (layer, head, from 0) are those to alter; None: all.
    """

    heads: Any = option(  # Heads or None; Python and JSON may give names, lists or tuples
        None, "Heads to ablate, e.g. 3-5,8-10.", parse=read_heads, shown_default="all"
    )

    name: ClassVar[str] = "ablation"
    watches: ClassVar[Watch] = Watch.CHANGE
    weighs_documents: ClassVar[bool] = True
    sums: ClassVar[dict[str, str]] = {
        "change": "*effect layer head mode", "measured": "layer head", "base": "", "examples": "",
    }  # fmt: skip
    labels: ClassVar[dict[str, list[str]]] = {"mode": MODES}
    tables: ClassVar[dict[str, tuple[str, ...]]] = {
        "ablation": ("layer", "head", "mode", "effect", "change", "low", "high", "base")
    }
    not_mergeable: ClassVar[str] = (
        "one of its modes replaces a head's output by its mean over the corpus, so sums over "
        "different corpora cannot be added"
    )

    def __post_init__(self) -> None:
        if self.heads is not None:
            object.__setattr__(self, "heads", read_heads(self.heads))

    def altered_heads(self) -> Heads | None:
        """Those that the user named."""
        heads: Heads | None = self.heads
        return heads

    def measure(self, seen: Changes) -> Mapping[str, Tensor | Mapping[str, Tensor]]:
        """Changes by head and mode, which heads were altered, and the model's own answer."""
        is_measured = seen.is_measured.to(seen.changes.dtype)  # [layer, head]
        return {
            "change": {seen.effect: seen.changes},
            "measured": is_measured.expand(len(seen.changes), *is_measured.shape),
            "base": seen.base,
            "examples": torch.ones_like(seen.base),
        }

    def summarize(self, sums: Sums) -> Mapping[str, Estimates]:
        """The mean change over examples, of every head that was altered."""
        effect = min(sums.labels("change"))
        change = mean_of(sums("change", effect), sums("measured"))  # [replicate, layer, head, mode]
        change = change.expand_dims(effect=[effect], axis=-1)
        base = sums.mean("base", "examples").isel({REPLICATE: 0}, drop=True)
        return {self.name: Estimates({"change": Number(change), "base": base}, known="change")}
