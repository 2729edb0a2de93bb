"""Memory of this process: what is resident, and what of it is alive, at the peak of some work."""

import ctypes
import gc
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple

__all__ = ["Peak", "peak_above", "peak_of_process", "settle"]

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
RESET_PEAK = "5"  # see proc_pid_clear_refs(5)
SAMPLED_EVERY = 0.02  # seconds


class Peak(NamedTuple):
    """The most bytes held during some work above what was held before it."""

    resident: int  # in the memory of the machine, as the system counts it
    alive: int | None = None  # not yet freed, as the C library counts it now and then


def peak_above(work: Callable[[], object]) -> Peak:
    """Do some work, and say what it held at its peak."""
    settle()
    before = _read_status("VmRSS")
    can_reset = _reset_peak()
    with _watch_alive() as alive:
        work()
    # Without a reset the peak is that of the whole process: never too small, perhaps too large.
    resident = _read_status("VmHWM") if can_reset else peak_of_process()
    return Peak(resident - before, alive[1] - alive[0])


def settle() -> None:
    """Give what is freed back to the system, so that it does not hide what is needed later."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


class _MallocInfo(ctypes.Structure):
    """What mallinfo2(3) gives."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
            "fordblks", "keepcost",
        )
    ]  # fmt: skip


@contextmanager
def _watch_alive() -> Iterator[list[int]]:
    """Bytes that are allocated and not yet freed: the first and the most of them."""
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = _MallocInfo
    done = Event()

    def count() -> int:
        info = mallinfo()
        return int(info.uordblks + info.hblkhd)

    def watch() -> None:
        while not done.wait(SAMPLED_EVERY):
            seen[1] = max(seen[1], count())

    seen = [count()] * 2
    thread = Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join()


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
