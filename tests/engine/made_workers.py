"""Workers that double numbers, and die, fail or wait when told to, and a corpus that waits.

Without torch they start quickly.
"""

import os
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headscope.corpora.collection import MemoryCorpus
from headscope.data.example import Example
from headscope.errors import InputError

LONGEST_WAIT = 60.0  # seconds; whoever is waited for is expected at once


def meet(folder: Path, name: str, n_others: int = 1) -> None:
    """Wait until so many others are here too, at the same time."""
    here = folder / f"meets-{name}"
    here.touch()
    deadline = time.monotonic() + LONGEST_WAIT
    while len(list(folder.glob("meets-*"))) <= n_others:
        if time.monotonic() > deadline:
            here.unlink()
            raise InputError(f"{name} was alone.")
        time.sleep(0.01)


@dataclass(frozen=True)
class Doubler:
    """Doubles a number; what is named in `faults` befalls its task once, or always.

    It may be "killed", be "wrong" (an error that leaves a worker well), "fails" (another one) or
    "meets" the others of this kind.
    """

    folder: Path  # where it is noted which faults have come
    faults: Mapping[int, str] = field(default_factory=dict)
    fact: str = "same"

    def facts(self) -> dict[str, str]:
        return {"version of headscope": "other" if self.fact == "other" else "same"}

    def double(self, number: int, seconds: float = 0.0) -> int:
        (self.folder / f"begun-{number}").write_text(str(os.getpid()))
        time.sleep(seconds)
        fault = self.faults.get(number, "")
        if fault == "meets":
            meet(self.folder, str(number))
            return 2 * number
        if fault.startswith("always") or self._is_first(number, fault):
            if "killed" in fault:
                os.kill(os.getpid(), signal.SIGKILL)
            raise (ValueError if "wrong" in fault else MemoryError)(f"{number} is too much")
        return 2 * number

    def fill(self, number: int, megabytes: int) -> NDArray[np.uint8]:
        """A large result."""
        (self.folder / f"begun-{number}").write_text(str(os.getpid()))
        return np.full(megabytes << 20, number, np.uint8)

    def _is_first(self, number: int, fault: str) -> bool:
        if not fault:
            return False
        try:
            (self.folder / f"{number}").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


def open_doubler(worker: Doubler, fact: str = "same") -> Doubler:
    """Makes a worker on each machine, each with a fact of its own if that is told."""
    if fact == "blind":
        raise InputError("no corpus here.")
    if fact == "late":  # all but the first
        time.sleep(1.0 * (worker.folder / "opened").exists())
        (worker.folder / "opened").touch()
    return replace(worker, fact=fact)


@dataclass(frozen=True)
class MeetingCorpus(MemoryCorpus):
    """A corpus that can only be read by two processes at the same time."""

    folder: Path = Path()

    def __iter__(self) -> Iterator[Example]:
        meet(self.folder, str(os.getpid()))
        yield from super().__iter__()
