"""What a run of probes keeps between epochs, and how it shows how far they are."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from headscope.errors import OutputError
from headscope.probes.suite import Note
from headscope.runs.files import write_atomically

__all__ = ["FileCheckpoint", "show_training"]


@dataclass(frozen=True)
class FileCheckpoint:
    """The state of training in one file."""

    path: Path

    def load(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """What was saved last, if anything was."""
        if not self.path.exists():
            return None
        try:
            with safe_open(self.path, framework="pt") as stream:
                facts = json.loads(stream.metadata()["facts"])
                return {n: stream.get_tensor(n) for n in stream.keys()}, facts  # noqa: SIM118
        except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
            raise OutputError(
                f"{self.path} is damaged ({error}). Expected the state of a probe in training; "
                "remove the file, and the probe is trained again."
            ) from error

    def save(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Write the state, in the place of the one before."""
        content = save(
            {name: value.contiguous() for name, value in tensors.items()},
            metadata={"facts": json.dumps(facts)},
        )
        write_atomically(self.path, content)


@contextmanager
def show_training(is_shown: bool) -> Iterator[Note]:
    """A bar per probe on stderr, with its loss and UAS."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=Console(stderr=True), disable=not is_shown) as progress:
        tasks = {}

        def show(name: str, n_done: int, n_most: int | None, note: str) -> None:
            if name not in tasks:
                tasks[name] = progress.add_task(name, total=n_most, note="")
            progress.update(tasks[name], completed=n_done, note=note)

        yield show
