"""Runs to compare: planted heads, none, and another shape, each in its folder."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from headscope.engine.analyze import analyze
from tests.making import MadeSource, make_example, random_maps
from tests.planted import plant

EXAMPLES = [make_example(seed, n_words=4 + seed % 5) for seed in range(14)]
OTHERS = [make_example(seed) for seed in range(90, 103)]
WITH_TREES: dict[str, Any] = {
    "treebank": EXAMPLES[:9],
    "only": ["position", "entropy", "dependency"],
}


@dataclass(frozen=True)
class NamedSource(MadeSource):
    """A made model with weights of its own."""

    def describe(self) -> dict[str, Any]:
        weights = {"weights": "norm"} if "norm" in self.name else {}
        return {"name": self.name, "digest": self.name.removesuffix("-norm")} | weights


def make_run(folder: Path, name: str, maps: Any = random_maps, **options: Any) -> Path:
    """A quick run of a made model."""
    shape = {k: options.pop(k) for k in ("n_layers", "n_heads") if k in options}
    given = {"text": EXAMPLES, "only": ["position", "entropy"]}
    analyze(
        NamedSource(maps, name=name, **shape), out=folder / name, progress=False, **given | options
    )
    return folder / name


def deeper(encoding: Any) -> torch.Tensor:
    """Maps of four layers of three heads."""
    maps = random_maps(encoding)[:, :3]
    return torch.cat([maps, maps[:1]])


@pytest.fixture(scope="package")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Three models on the same documents, and one on others."""
    folder = tmp_path_factory.mktemp("runs")
    return {
        "planted": make_run(folder, "planted", plant, **WITH_TREES),
        "random": make_run(folder, "random"),
        "deeper": make_run(folder, "deeper", deeper, n_layers=4, n_heads=3, **WITH_TREES),
        "apart": make_run(folder, "apart", text=OTHERS, only=["position"]),
    }
