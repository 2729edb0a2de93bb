"""What an analysis of another package does wrong is told with its package, and harms no other."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import pytest
import torch

from headscope import SUMS, Analysis
from headscope.engine.resolve import PlugInError
from headscope.errors import StudyError
from tests.engine.made import run


@dataclass(frozen=True)
class Foreign(Analysis):
    """An analysis that does as it is told, right or wrong."""

    fault: str = ""
    name: ClassVar[str] = "foreign"
    tables: ClassVar[dict[str, tuple[str, ...]]] = {"foreign": ("layer", "head", "weight")}
    sums: ClassVar[dict[str, str]] = {"weight": "layer head"}
    reads: ClassVar[tuple[Any, ...]] = (SUMS,)

    def measure(self, seen: Any) -> Any:
        largest = seen[SUMS].entropy.amax(-1)
        faults = {
            "raise": lambda: 1 / 0,
            "exit": lambda: exit(3),
            "few": lambda: {"weight": largest[:-1]},
            "nan": lambda: {"weight": largest * torch.nan},
            "scalar": lambda: {"weight": torch.tensor(1.0)},
            "list": lambda: [largest],
        }
        return faults.get(self.fault, lambda: {"weight": largest})()

    def summarize(self, sums: Any) -> Any:
        total = pd.DataFrame({"layer": [1], "head": [1], "weight": [1.0]})
        faults = {
            "raise at the end": lambda: 1 / 0,
            "exit at the end": lambda: exit(3),
            "other name": lambda: {"../../evil": total},
            "no table": lambda: {"foreign": 3},
            "nan at the end": lambda: {"foreign": total.assign(weight=float("nan"))},
        }
        return faults.get(self.fault, lambda: {"foreign": total})()


@pytest.mark.parametrize("fault", ["raise", "exit", "few", "nan", "scalar", "list"])
def test_a_fault_while_measuring_names_the_package(fault: str) -> None:
    with pytest.raises(PlugInError, match=r"'foreign' of the package 'tests'"):
        run(only=["position", Foreign(fault)])


@pytest.mark.parametrize("fault", ["raise at the end", "exit at the end", "other name", "no table"])
def test_a_fault_at_the_end_costs_only_its_own_tables(
    fault: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    done = run(only=["position", Foreign(fault)], out=tmp_path / "a/b/run")
    assert list(done.tables) == ["position"]
    assert done.manifest["status"] == "partial"
    assert "'tests'" in done.manifest["failed_analyses"]["foreign"]
    assert sum("'foreign' of the package 'tests'" in text for text in caplog.messages) == 1
    assert not list(tmp_path.rglob("evil*"))


def test_numbers_that_are_none_are_told(caplog: pytest.LogCaptureFixture) -> None:
    run(only=[Foreign("nan at the end")])
    assert any("1 numbers that are NaN" in text for text in caplog.messages)


def test_a_table_name_that_leaves_the_folder_is_refused() -> None:
    @dataclass(frozen=True)
    class Climber(Foreign):
        tables: ClassVar[dict[str, tuple[str, ...]]] = {"../../evil": ("layer", "head", "weight")}

    with pytest.raises(StudyError, match="cannot name a table"):
        run(only=[Climber()])
