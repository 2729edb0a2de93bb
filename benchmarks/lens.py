"""The three measures through TransformerLens: hooks on every attention map, sums in torch."""

from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn

from headscope.data.encoding import Batch, TokenKind
from headscope.models.loaded import LoadedModel

__all__ = ["has_lens", "prepare_lens"]


def has_lens() -> bool:
    """Whether TransformerLens (4 or later) can be imported."""
    return find_spec("transformer_lens") is not None


def prepare_lens(
    source: LoadedModel, folder: str, batches: Sequence[Batch]
) -> Callable[[], list[dict[str, Tensor]]]:
    """A function that sums entropies, diagonals and columns by class; no intervals."""
    from transformer_lens.model_bridge import TransformerBridge

    bridge: Any = TransformerBridge.boot_transformers(
        folder, device="cpu", tokenizer=source.encoder.tokenizer
    )
    bridge.original_model.cls = nn.Identity()  # predictions over the vocabulary are not asked for
    return partial(_measure, bridge, source.n_layers, batches)


def _measure(bridge: Any, n_layers: int, batches: Sequence[Batch]) -> list[dict[str, Tensor]]:
    totals: list[dict[str, Tensor]] = [{} for _ in range(n_layers)]
    for batch in batches:
        hooks = [
            (f"blocks.{layer}.attn.hook_pattern", partial(_add, totals[layer], batch.kinds))
            for layer in range(n_layers)
        ]
        inputs = dict(batch.inputs)
        with torch.inference_mode():
            bridge.run_with_hooks(
                inputs.pop("input_ids"), fwd_hooks=hooks, return_type=None, **inputs
            )
    return totals


def _add(totals: dict[str, Tensor], kinds: Tensor, weights: Tensor, hook: Any) -> None:
    """Add the map of one layer, `[example, head, query, key]`."""
    is_kind = torch.stack([kinds == kind for kind in TokenKind], dim=-1).to(weights.dtype)
    sums = {
        "entropy": torch.special.entr(weights).sum(-1).sum((0, 2)),
        "diagonals": torch.stack(
            [weights.diagonal(k, dim1=-2, dim2=-1).sum((0, 2)) for k in (-1, 0, 1)], dim=-1
        ),
        "classes": (is_kind.mT[:, None] @ weights @ is_kind[:, None]).sum(0),
    }
    for name, value in sums.items():
        totals[name] = totals[name] + value if name in totals else value
