"""Workers that double numbers, and die or fail when told to; without torch they start quickly."""

import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headscope.errors import InputError


@dataclass(frozen=True)
class Doubler:
    """Doubles a number; what is named in `faults` befalls its task once, or always."""

    folder: Path  # where it is noted which faults have come
    faults: Mapping[int, str] = field(default_factory=dict)

    def double(self, number: int, seconds: float = 0.0) -> int:
        (self.folder / f"begun-{number}").touch()
        time.sleep(seconds)
        fault = self.faults.get(number, "")
        if fault.startswith("always") or self._is_first(number, fault):
            if "killed" in fault:
                os.kill(os.getpid(), signal.SIGKILL)
            raise MemoryError(f"{number} is too much")
        return 2 * number

    def _is_first(self, number: int, fault: str) -> bool:
        if not fault:
            return False
        try:
            (self.folder / f"{number}").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


@dataclass(frozen=True)
class DoublerRecipe:
    """Makes a worker on each machine, each with a fact of its own if that is told."""

    worker: Doubler
    fact: str = "same"

    def open(self) -> Doubler:
        if self.fact == "blind":
            raise InputError("no corpus here.")
        return self.worker

    def facts(self, worker: Doubler) -> dict[str, str]:
        return {"version of headscope": self.fact}
