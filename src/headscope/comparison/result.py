"""What a comparison of runs gives, whatever they are compared by."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

import pandas as pd

from headscope.runs.folder import RunFolder
from headscope.runs.run import Run

__all__ = ["Compared"]

Key = TypeVar("Key")


@dataclass(frozen=True)
class Compared(Generic[Key]):
    """Tables over several runs, and what they say in short."""

    runs: dict[Key, Run]
    tables: dict[str, pd.DataFrame]
    answers: list[str]
    notes: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)

    def write_tables(self, folder: str | Path) -> Path:
        """Write the tables into a new or empty folder."""
        store = RunFolder(Path(folder))
        store.refuse_if_taken()
        store.create()
        for name, table in self.tables.items():
            store.write_table(name, table)
        return store.path
