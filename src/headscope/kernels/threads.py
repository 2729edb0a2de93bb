"""Compiled loops run in as many threads as torch does."""

from threading import local

import numba
import torch

__all__ = ["use_torch_threads"]

_set = local()  # numba counts threads for each thread that calls it


def use_torch_threads() -> None:
    """Set numba's threads. Its first start sets OpenMP's, which are torch's: they are set back."""
    n_threads = torch.get_num_threads()
    if getattr(_set, "n_threads", None) == n_threads:
        return
    most: int = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    numba.set_num_threads(min(n_threads, most))
    if torch.get_num_threads() != n_threads:
        torch.set_num_threads(n_threads)
    _set.n_threads = n_threads
