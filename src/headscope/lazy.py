"""torch, loaded at its first use: names, options and the pages of finished runs need none of it.

A file that uses these names begins with `from __future__ import annotations`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["Tensor", "torch"]

if TYPE_CHECKING:
    import torch as torch
    from torch import Tensor as Tensor
else:

    class _Torch:
        def __getattr__(self, name: str) -> Any:
            return getattr(import_module("torch"), name)

    torch, Tensor = _Torch(), Any  # Tensor stands in annotations only
