"""All maps of a text in few bytes, for a page without a server.

Queries and keys in half precision are far smaller than maps, and the browser makes a head's map of
them. Whether that gives this model's maps is not assumed: it is computed and compared. Where it
does not, or where a short text's maps are smaller, the maps themselves are kept as roots.
"""

from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeGuard
from zlib import compressobj

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from headscope.contracts import AttentionSource
from headscope.data.attention import LayerAttention
from headscope.data.encoding import Encoding
from headscope.engine.measure import refuse_not_finite
from headscope.explore.maps import PRECISION, Thumbs, pack_roots, shrink, thumb_size
from headscope.models import tap
from headscope.models.anatomy import eval_mode
from headscope.models.loaded import LoadedModel

__all__ = ["PackedMaps", "pack_maps"]

MOST_ERROR = 0.01  # of a weight, for queries and keys to stand for a map
WIDE_BYTES = 16_000_000  # maps of more bytes are kept in 8 bits instead of 16
ROOT8_PRECISION = 0.0045
STORED = 0  # level of compression: numbers in half precision get no smaller by any


@dataclass(frozen=True)
class PackedMaps:
    """Small maps, and one compressed piece for each layer, with the precision it gives."""

    thumbs: Thumbs
    form: str  # "qk", "roots16" or "roots8"
    precision: float  # the largest error of a weight
    layers: tuple[str, ...]  # deflated, base64
    shape: dict[str, Any]  # what the browser must know to read a layer


@dataclass(frozen=True)
class Parts:
    """One layer, as the model's attention function was called, and what it gave."""

    weights: Float[Tensor, "head query key"]
    queries: Float[Tensor, "head query part"] | None = None  # in half precision, scaled
    keys: Float[Tensor, "group key part"] | None = None
    ranges: Int[NDArray[np.uint16], "query 2"] | None = None  # first and last + 1 visible key


def pack_maps(source: AttentionSource, encoding: Encoding, needs_roots: bool = False) -> PackedMaps:
    """The maps of a text in the smallest form that gives them.

    Of long texts, maps are not kept where queries and keys have less than half their size; if
    these turn out not to give the maps, the model runs again.
    """
    n_tokens, n_heads = len(encoding), source.n_layers * source.n_heads
    size = thumb_size(n_heads, n_tokens)
    small: list[NDArray[np.uint8]] = []
    as_roots: list[str] = []
    as_parts: list[str] = []
    errors: list[float] = []
    shape: dict[str, Any] = {}
    is_wide = 2 * n_heads * n_tokens**2 <= WIDE_BYTES

    def keep(parts: Parts) -> None:
        small.append(shrink(parts.weights, size))
        is_small = False
        if parts.queries is not None and parts.keys is not None and parts.ranges is not None:
            errors.append(_error(parts))
            pieces = (parts.queries.numpy(), parts.keys.numpy(), parts.ranges)
            raw = b"".join(piece.tobytes() for piece in pieces)
            as_parts.append(_compress(raw, STORED))
            shape["groups"], shape["parts"] = parts.keys.shape[0], parts.keys.shape[-1]
            is_small = not is_wide and 2 * len(raw) < parts.weights.numel()
        if needs_roots or not is_small:
            roots = pack_roots(parts.weights) if is_wide else _pack8(parts.weights)
            as_roots.append(_compress(roots))

    _observe(source, encoding, keep)
    thumbs = Thumbs(small[0].shape[-1], np.stack(small))
    is_exact = len(as_parts) == len(small) and max(errors) <= MOST_ERROR
    if is_exact and (not as_roots or sum(map(len, as_parts)) < sum(map(len, as_roots))):
        return PackedMaps(thumbs, "qk", max(errors), tuple(as_parts), shape)
    if len(as_roots) < len(small):
        return pack_maps(source, encoding, needs_roots=True)
    form, precision = ("roots16", PRECISION) if is_wide else ("roots8", ROOT8_PRECISION)
    return PackedMaps(thumbs, form, precision, tuple(as_roots), {})


def _observe(source: AttentionSource, encoding: Encoding, keep: Callable[[Parts], None]) -> None:
    """Every layer with its queries and keys where the tap shows them, else its weights alone."""
    batch = source.batch([encoding])
    if not _shows_queries(source):

        def keep_weights(attention: LayerAttention) -> None:
            number = source.layer_numbers[attention.layer]
            refuse_not_finite([(number, attention.is_finite())], attention.batch)
            keep(Parts(attention.weights[0].cpu()))

        source.attend(batch, keep_weights)
        return

    def attend(module: nn.Module, *args: Any, **options: Any) -> Tensor:
        output, weights = tap.find_eager(type(module))(module, *args, **options)
        query, key = args[:2]
        _, mask = tap.values_and_mask(args, options)
        scale = options.get("scaling")
        scale = query.shape[-1] ** -0.5 if scale is None else scale
        pairs = tap.visible_pairs(mask, query.shape[-2], key.shape[-2])
        keep(
            Parts(
                tap.at_least_float32(weights[0]).cpu(),
                (query[0].float() * scale).half().cpu(),
                key[0].half().cpu().contiguous(),
                _ranges(pairs, query.shape[-2]),
            )
        )
        return output

    model = source.model
    with tap.replaced_attention(model, attend), eval_mode(model), torch.inference_mode():
        model(**batch.inputs)


def _shows_queries(source: AttentionSource) -> TypeGuard[LoadedModel]:
    """Whether its weights are what its attention function gives, to be seen on the way."""
    return (
        isinstance(source, LoadedModel)
        and source.is_tapped
        and source.weights == "attention"
        and not source.scales_rows
    )


def _ranges(
    pairs: Bool[Tensor, "query key"] | None, n_tokens: int
) -> Int[NDArray[np.uint16], "query 2"] | None:
    """The keys that each query may look at, where they stand together; else None."""
    if pairs is None:
        return np.tile(np.array([0, n_tokens], dtype=np.uint16), (n_tokens, 1))
    seen = pairs.cpu().numpy()
    first, n_seen = seen.argmax(axis=1), seen.sum(axis=1)
    places = np.arange(n_tokens)
    is_within = (places >= first[:, None]) & (places < (first + n_seen)[:, None])  # [query, key]
    if not (is_within == seen).all():
        return None
    return np.stack([first, first + n_seen], axis=1).astype(np.uint16)


def _error(parts: Parts) -> float:
    """How far the map that the browser will make is from the model's."""
    assert parts.queries is not None
    assert parts.keys is not None
    assert parts.ranges is not None
    queries, keys = parts.queries.float(), parts.keys.float()
    keys = keys.repeat_interleave(len(queries) // len(keys), dim=0)
    scores = queries @ keys.transpose(-1, -2)  # [head, query, key]
    places = torch.arange(scores.shape[-1])
    first, end = torch.from_numpy(parts.ranges.astype(np.int64)).T[..., None]
    scores = scores.masked_fill((places < first) | (places >= end), float("-inf"))
    worst = (scores.softmax(-1) - parts.weights).abs().max()
    return float(torch.nan_to_num(worst, nan=1.0))


def _pack8(weights: Tensor) -> bytes:
    return bytes(np.rint(weights.clamp(0, 1).sqrt().numpy() * 255).astype(np.uint8))


def _compress(piece: bytes, level: int = 6) -> str:
    squeezer = compressobj(level, wbits=-15)  # raw deflate, as browsers read it
    return b64encode(squeezer.compress(piece) + squeezer.flush()).decode()
