"""All benchmarks by name. To add one, write a file with a `run` and add a line here."""

from benchmarks import (
    compare,
    coreference,
    dependency,
    distance,
    explore,
    importance,
    language_models,
    lengths,
    memory,
    padding,
    probes,
    report,
    scale,
    slices,
    speed,
    tally,
)
from benchmarks.row import Benchmark

__all__ = ["BENCHMARKS"]

BENCHMARKS: dict[str, Benchmark] = {
    "speed": speed.run,
    "slices": slices.run,
    "lengths": lengths.run,
    "padding": padding.run,
    "memory": memory.run,
    "dependency": dependency.run,
    "coreference": coreference.run,
    "importance": importance.run,
    "language-models": language_models.run,
    "distance": distance.run,
    "probes": probes.run,
    "probe-store": probes.run_store,
    "explore": explore.run,
    "report": report.run,
    "scale": scale.run,
    "tally": tally.run,
    "compare": compare.run,
}
