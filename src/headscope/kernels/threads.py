"""Compiled loops run in as many threads as torch does."""

import numba
import torch

__all__ = ["use_torch_threads"]


def use_torch_threads() -> None:
    """Set numba's threads. Its first start sets OpenMP's, which are torch's: they are set back."""
    n_threads = torch.get_num_threads()
    most: int = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    numba.set_num_threads(min(n_threads, most))
    if torch.get_num_threads() != n_threads:
        torch.set_num_threads(n_threads)
