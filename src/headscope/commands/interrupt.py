"""Ctrl-C: one plain line, never a traceback, whatever code it meets.

Native code may turn the interrupt into an error of its own, or drop it in a callback where Python
can only print it. So the signal itself is remembered.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

__all__ = ["INTERRUPTED", "catch_interrupts", "end_interrupted", "was_interrupted"]

INTERRUPTED = 130  # the exit code of a program that Ctrl-C ended
_seen: list[int] = []


def was_interrupted() -> bool:
    """Whether Ctrl-C was pressed: then any error may be its work."""
    return bool(_seen)


def end_interrupted() -> NoReturn:
    """The one line, and the exit code."""
    print("\nInterrupted.", file=sys.stderr)
    sys.exit(INTERRUPTED)


@contextmanager
def catch_interrupts() -> Iterator[None]:
    """Remember Ctrl-C, and end at once when it is pressed again."""
    before = signal.signal(signal.SIGINT, _interrupt)
    hook, sys.unraisablehook = sys.unraisablehook, _say_nothing_after_interrupt
    try:
        yield
    finally:
        if not _seen:  # after it nothing more is said, to the very end
            signal.signal(signal.SIGINT, before)
            sys.unraisablehook = hook


def _interrupt(number: int, frame: FrameType | None) -> None:
    if _seen:
        os._exit(INTERRUPTED)
    _seen.append(number)
    raise KeyboardInterrupt


def _say_nothing_after_interrupt(unraisable: "sys.UnraisableHookArgs") -> None:
    if not _seen:
        sys.__unraisablehook__(unraisable)
