"""What measuring holds in memory: for a longer corpus, for long inputs, for a large file."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.resident import Peak
from benchmarks.row import Row, Settings, Target, at_most, under

__all__ = ["peak_of_case", "run"]

ROOT = Path(__file__).parents[1]
MB = 1e6
SEGMENTS, LONGER = 64, 8 * 64
COPIES = 16  # of the starter corpus, 201 sentences: by then the heap has settled
N_TOKENS, N_LAYERS, N_HEADS = 1024, 12, 12
HALF = N_TOKENS // 2
LAYER_MB = N_HEADS * N_TOKENS**2 * 4 / MB  # one layer's maps in float32
LINES, MORE_LINES = 100_000, 1_000_000

# One arena, and large blocks handed back once they are freed: what is counted is then what is
# alive, not what the C library's allocator keeps for later, which differs from run to run.
MALLOC = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "16384"}
# Nor what Python keeps of its small objects; this costs time, so not where that is measured too.
ALL_ALLOCATORS = {**MALLOC, "PYTHONMALLOC": "malloc"}


def run(settings: Settings) -> Iterator[Row]:
    """Peaks of resident memory, each taken in a process of its own."""
    yield from _longer_corpus(settings)
    yield from _longer_treebank(settings)
    yield from _long_input(settings)
    yield from _gradients(settings)
    yield from _large_file(settings)


def _longer_corpus(settings: Settings) -> Iterator[Row]:
    short, long = (peak_of_case(settings, "analyze_segments", n) for n in (SEGMENTS, LONGER))
    growth = 100 * (long / short - 1)
    measured = f"analyze, growth of the peak above the model, {SEGMENTS} to {LONGER} segments"
    yield Row("memory", f"{measured}, MiniLM", growth, "%", at_most(5))
    yield _megabytes(f"  the peak above the model, {LONGER} segments", long)
    kept = peak_of_case(settings, "analyze_segments", LONGER, malloc={})
    yield _megabytes("  with what the allocator keeps by default (varies)", kept)
    full = (LONGER, 2 * LONGER)  # about 360 segments wait at most to be added
    short, long = (peak_of_case(settings, "compare_heads", n) for n in full)
    growth = 100 * (long / short - 1)
    measured = f"distance, growth of the peak above the model, {full[0]} to {full[1]} segments"
    yield Row("memory", f"{measured}, MiniLM", growth, "%", at_most(5))
    yield _megabytes(f"  the peak above the model, {full[1]} segments", long)


def _longer_treebank(settings: Settings) -> Iterator[Row]:
    sizes = (COPIES, 8 * COPIES)
    short, long = (measure_case(settings, "analyze_treebank", n) for n in sizes)
    measured = f"dependency, growth of the peak above the model, {sizes[0]} to {sizes[1]} starters"
    growth = 100 * (long.resident / short.resident - 1)
    yield Row("memory", f"{measured}, MiniLM", growth, "%", at_most(5))
    for n_copies, peak in zip(sizes, (short, long), strict=True):
        yield _megabytes(f"  the peak above the model, {n_copies} starters", peak.resident / MB)
        assert peak.alive is not None
        yield _megabytes("    of it alive, not kept by the allocator", peak.alive / MB)


def _long_input(settings: Settings) -> Iterator[Row]:
    cases = ("tapped", "bare_forward", "all_maps")
    tapped, bare, maps = (peak_of_case(settings, case, N_TOKENS) for case in cases)
    measured = f"analyze, peak above the model, {N_TOKENS} tokens, {N_LAYERS} x {N_HEADS} heads"
    yield _megabytes(f"{measured} (3 layers' maps)", tapped, under(3 * LAYER_MB))
    yield _megabytes("  the same above the peak of the bare forward", tapped - bare)
    yield _megabytes("  bare SDPA forward, peak above the model", bare)
    yield _megabytes("  eager output_attentions, peak above the model", maps)


def _gradients(settings: Settings) -> Iterator[Row]:
    gradients, bare = (
        peak_of_case(settings, case, HALF) for case in ("gradients", "bare_backward")
    )
    layer_mb = N_HEADS * HALF**2 * 4 / MB
    measured = f"gradient, peak above that of the bare backward pass, {HALF} tokens"
    yield _megabytes(f"{measured} (3 layers' maps)", gradients - bare, under(3 * layer_mb))
    yield _megabytes("  bare SDPA forward and backward, peak above the model", bare)


def _large_file(settings: Settings) -> Iterator[Row]:
    few, many = (peak_of_case(settings, "survey", n_lines) for n_lines in (LINES, MORE_LINES))
    measured = f"sampling a text file, growth of the peak, {LINES:,} to {MORE_LINES:,} lines"
    yield _megabytes(measured, many - few, under(32))
    yield _megabytes(f"  the peak above the start, {LINES:,} lines", few)


def _megabytes(measured: str, figure: float, target: Target | None = None) -> Row:
    return Row("memory", measured, figure, "MB", target)


def peak_of_case(
    settings: Settings, case: str, size: int, malloc: Mapping[str, str] = ALL_ALLOCATORS
) -> float:
    """Megabytes resident at the peak of a case, run by itself."""
    return measure_case(settings, case, size, malloc).resident / MB


def measure_case(
    settings: Settings, case: str, size: int, malloc: Mapping[str, str] = ALL_ALLOCATORS
) -> Peak:
    """What a case reports, run by itself."""
    command = ["-m", "benchmarks.memory_case", case, str(size), str(settings.threads)]
    done = subprocess.run(
        [sys.executable, *command],
        env={**os.environ, **malloc},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
    )
    return Peak(**json.loads(done.stdout))
