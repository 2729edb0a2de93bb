"""Compiled loops run in as many threads as torch does."""

import numba
import torch

__all__ = ["use_torch_threads"]


def use_torch_threads() -> None:
    most: int = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    numba.set_num_threads(min(torch.get_num_threads(), most))
