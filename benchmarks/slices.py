"""Measuring in slices on a real model: short and long inputs, everything included."""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from benchmarks.lens import has_lens, prepare_lens
from benchmarks.row import Row, Settings, at_most
from benchmarks.timing import Work, best_seconds
from benchmarks.usual import measure_usually
from benchmarks.workload import (
    WholeMaps,
    build_analyses,
    encode_ahead,
    forward,
    make_segments,
)
from headscope.analyses.distance.measure import Distance
from headscope.contracts import Analysis
from headscope.data.example import Example
from headscope.engine.measure import measure_examples
from headscope.models.encode import equal_length_batches
from headscope.models.load import load_model
from headscope.models.loaded import LoadedModel
from headscope.options import RunOptions
from headscope.runs.tables import make_tables

__all__ = ["run"]

MODEL = Path(__file__).parents[2] / "shared/models/e5-small"
OPTIONS = RunOptions(batch_tokens=2048)


def run(settings: Settings) -> Iterator[Row]:
    """Ratios to the bare SDPA forward over the same batches."""
    if not MODEL.exists():
        print(f"  left out: {MODEL} is not on this machine", file=sys.stderr)
        return
    source = load_model(MODEL)
    best = _best_by_batch(source, 16, 512, settings)
    measured = "three analyses / bare SDPA forward, e5-small, 16 x 512 tokens"
    yield Row("slices", measured, best["three"] / best["bare"], "x", at_most(1.15))
    yield Row("slices", "  whole maps, the same analyses", best["whole"] / best["bare"], "x")
    best = _best_by_batch(source, 64, 128, settings)
    yield Row("slices", "three analyses / bare, 64 x 128 tokens", best["three"] / best["bare"], "x")
    yield Row("slices", "  whole maps, the same analyses", best["whole"] / best["bare"], "x")
    measured = "  usual way (eager, all maps, NumPy, no intervals)"
    yield Row("slices", measured, best["usual"] / best["bare"], "x")
    if "lens" in best:
        measured = "  TransformerLens, hooks on all maps, the same sums, no intervals"
        yield Row("slices", measured, best["lens"] / best["bare"], "x")
    measured = "three analyses and distance / bare, e5-small, 64 x 128 tokens"
    yield Row("slices", measured, best["four"] / best["bare"], "x", at_most(1.5))
    examples = make_segments(64, 128)
    whole = partial(_measure_all, source, examples, build_analyses(), 128)
    bare = _works(source, examples, 128)["bare"]
    seconds = best_seconds({"bare": bare, "all of it": whole}, 2 * settings.repeats)
    measured = "three analyses, encoding and tables included / bare, e5-small, 64 x 128 tokens"
    yield Row("slices", measured, seconds["all of it"] / seconds["bare"], "x", at_most(1.10))


def _best_by_batch(
    source: LoadedModel, n_segments: int, n_tokens: int, settings: Settings
) -> Counter[str]:
    """The best seconds of each way, batch by batch: a slow spell then costs one batch, not all."""
    best: Counter[str] = Counter()
    size = OPTIONS.batch_tokens // n_tokens
    segments = make_segments(n_segments, n_tokens)
    for start in range(0, n_segments, size):
        works = _works(source, segments[start : start + size], n_tokens)
        best.update(best_seconds(works, settings.repeats))
    return best


def _works(source: LoadedModel, examples: Sequence[Example], n_tokens: int) -> dict[str, Work]:
    ready = encode_ahead(source, examples, n_tokens)
    encodings = ready.encode(examples, n_tokens)
    batches = [ready.batch(b) for b in equal_length_batches(encodings, OPTIONS.batch_tokens)]
    three = build_analyses()
    works: dict[str, Work] = {
        "bare": partial(forward, ready, [batch.inputs for batch in batches], "sdpa"),
        "three": partial(measure_examples, examples, ready, three, OPTIONS, max_tokens=n_tokens),
        "whole": partial(measure_examples, examples, WholeMaps(ready), three, OPTIONS),
    }
    if n_tokens > 128:
        return works
    if has_lens():
        works["lens"] = prepare_lens(ready, str(MODEL), batches)
    four = [*three, Distance()]
    return {
        **works,
        "four": partial(measure_examples, examples, ready, four, OPTIONS, max_tokens=n_tokens),
        "usual": partial(measure_usually, ready, batches),
    }


def _measure_all(
    source: LoadedModel, examples: Sequence[Example], analyses: Sequence[Analysis], n_tokens: int
) -> None:
    """From texts to tables."""
    result = measure_examples(examples, source, analyses, OPTIONS, max_tokens=n_tokens)
    for analysis in analyses:
        make_tables(analysis, result.tallies[analysis.name])
