"""Finished runs: two of 12 x 12 heads compared, and an atlas of a hundred."""

from collections.abc import Iterator
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory
from time import perf_counter

import headscope
from benchmarks.row import Row, Settings, under
from benchmarks.workload import wide

__all__ = ["run"]

NAME, N_RUNS = "compare", 100
STARTER = {"text": "starter", "treebank": "starter", "coref": "starter"}


def run(settings: Settings) -> Iterator[Row]:
    """Runs of random models with all analyses over the embedded corpora; each figure once."""
    with TemporaryDirectory() as folder:
        place = Path(folder)
        runs = [place / "one", place / "other"]
        for size, out in zip((32, 16), runs, strict=True):  # other weights, the same heads
            headscope.analyze(wide(12, 12, size), **STARTER, out=out)
        start = perf_counter()
        headscope.compare(runs, out=place / "differences")
        yield Row(NAME, "two runs of 144 heads, all analyses", perf_counter() - start, "s")
        for number in range(N_RUNS):
            copytree(runs[0], place / "many" / f"run-{number:03d}")
        start = perf_counter()
        headscope.write_atlas(place / "many")
        yield Row(NAME, f"atlas of {N_RUNS} runs", perf_counter() - start, "s", under(60))
