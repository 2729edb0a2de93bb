"""The few hot loops, compiled."""

from collections.abc import Callable
from typing import Any

import numba

__all__ = ["njit"]


def njit(**options: Any) -> Callable[[Any], Any]:
    """numba's `njit`; the compiled code is kept on disk if there is a folder to write it to."""

    def compile_function(function: Any) -> Any:
        try:
            return numba.njit(cache=True, **options)(function)
        except RuntimeError:  # a read-only installation without a home: each process compiles anew
            return numba.njit(**options)(function)

    return compile_function
