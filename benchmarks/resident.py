"""Resident memory of this process: now, and at its peak since a moment."""

import ctypes
import gc
import resource
from collections.abc import Callable
from pathlib import Path

__all__ = ["peak_above", "peak_of_process", "settle"]

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
RESET_PEAK = "5"  # see proc_pid_clear_refs(5)


def peak_above(work: Callable[[], object]) -> int:
    """The most bytes held during some work above what was held before it."""
    settle()
    before = _read_status("VmRSS")
    can_reset = _reset_peak()
    work()
    # Without a reset the peak is that of the whole process: never too small, perhaps too large.
    peak = _read_status("VmHWM") if can_reset else peak_of_process()
    return peak - before


def settle() -> None:
    """Give what is freed back to the system, so that it does not hide what is needed later."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


def _read_status(field: str) -> int:
    for line in STATUS.read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"{STATUS} has no {field}. Expected a Linux kernel with /proc.")


def _reset_peak() -> bool:
    try:
        CLEAR.write_text(RESET_PEAK)
    except OSError:
        return False
    return True


def peak_of_process() -> int:
    """The most bytes this process ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
