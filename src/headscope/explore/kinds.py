"""The decoder and the cross attention of an encoder-decoder, as models of the page.

A typed text is the source, `|||` and the target. Cross attention is shown over the tokens of both,
one after the other: a map in which rows of the target see the source, and all else is empty.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from headscope.contracts import AttentionKind
from headscope.data.attention import LayerAttention
from headscope.data.encoding import Batch, Encoding
from headscope.data.example import Example
from headscope.engine.open_models import Models
from headscope.errors import StudyError
from headscope.models.seq2seq import OneKind

__all__ = ["ShownKind", "list_kinds", "name_part", "split_pair", "take_sides"]

SEPARATOR = "|||"


@dataclass(frozen=True, eq=False)
class Shown(Encoding):
    """The tokens that are shown, of a source with its target."""

    pair: Encoding | None = None


@dataclass(frozen=True)
class ShownKind(OneKind):
    """One kind of attention, between the tokens that are shown."""

    def encode(self, examples: Sequence[Example], max_tokens: int) -> list[Encoding]:
        pairs = super().encode(examples, max_tokens)
        return [_show(pair, self.kind is AttentionKind.CROSS) for pair in pairs]

    def attend(self, batch: Batch, observe: Callable[[LayerAttention], None]) -> None:
        """Run the model and show the layers of this kind, with empty rows for the source."""
        pairs = tuple(e.pair for e in batch.encodings if isinstance(e, Shown) and e.pair)

        def place(layer: LayerAttention) -> None:
            weights = layer.weights
            n_before = batch.n_tokens - weights.shape[2]  # tokens of the source
            if n_before:
                rows = (n_before, 0)  # above; and columns after those of the source
                weights = torch.nn.functional.pad(weights, (0, batch.n_tokens - n_before, *rows))
            observe(replace(layer, weights=weights, batch=batch, key_batch=None))

        super().attend(Batch(pairs, batch.device), place)


def list_kinds(models: Models) -> list[Models]:
    """The decoder and the cross attention of an encoder-decoder; of another model nothing."""
    if models.whole is None:
        return []
    why = "Heads are switched off in the encoder alone."
    kinds = (AttentionKind.DECODER, AttentionKind.CROSS)
    return [Models(ShownKind(models.whole, kind), None, why) for kind in kinds]


def name_part(models: Models) -> str:
    """Which attention of an encoder-decoder it is; "" of other models."""
    if isinstance(models.source, ShownKind):
        is_cross = models.source.kind is AttentionKind.CROSS
        return "cross attention" if is_cross else models.source.kind.value
    return "encoder" if models.has_decoder else ""


def split_pair(text: str) -> tuple[str, str | None]:
    """A typed text as source and target.

    >>> split_pair("Good morning. ||| Bonjour."), split_pair("Good morning.")
    (('Good morning.', 'Bonjour.'), ('Good morning.', None))
    """
    source, _, target = (part.strip() for part in text.partition(SEPARATOR))
    return source, target or None


def take_sides(models: Models, example: Example) -> Example:
    """What a model reads of a source and its target: an encoder alone only the source."""
    if isinstance(models.source, ShownKind):
        if not example.text_pair:
            raise StudyError(
                f"The decoder of {models.name} reads a target, and the text has none. Expected a "
                f"source and its target; write `source {SEPARATOR} target`."
            )
        return example
    return replace(example, text_pair=None, links=None) if models.has_decoder else example


def _show(pair: Encoding, is_joined: bool) -> Encoding:
    assert pair.target is not None  # each source has one
    sides = [pair, pair.target] if is_joined else [pair.target]
    return Shown(
        replace(pair.example, links=None),
        {},
        tuple(surface for side in sides for surface in side.surfaces),
        np.concatenate([side.kinds for side in sides]),
        np.full(sum(map(len, sides)), -1),
        any(side.is_truncated for side in sides),
        pair=pair,
    )
