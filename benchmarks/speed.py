"""What measuring costs beside running the model: analyze against the bare forward pass."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from torch import Tensor

from benchmarks.row import Row, Settings, at_most
from benchmarks.timing import Parts, Work, best_seconds
from benchmarks.usual import UsualTotals, measure_usually
from benchmarks.workload import bert_base, build_analyses, encode_ahead, forward, make_segments
from headscope.contracts import Analysis
from headscope.data.attention import Readings
from headscope.data.example import Example
from headscope.engine.measure import Result, measure_examples
from headscope.models.loaded import LoadedModel
from headscope.options import RunOptions

__all__ = ["OPTIONS", "check_agreement", "run"]

N_BATCHES, N_SEGMENTS, N_TOKENS = 2, 16, 128
OPTIONS = RunOptions(batch_tokens=N_SEGMENTS * N_TOKENS)
MEASURING = "measure (within model)"  # the engine's name of that stage

WHOLE = {
    "analyze": f"analyze (three analyses) / bare SDPA forward, "
    f"BERT-base, {N_SEGMENTS} x {N_TOKENS} tokens",
    "usual": "usual way (eager, all maps, NumPy, no intervals) / bare",
    "tap": "engine with no analysis (tap, NaN check) / bare",
    "encode": "tokenizer, not counted above / bare",
}


def run(settings: Settings) -> Iterator[Row]:
    """Ratios to the bare SDPA forward over the same tokens, each the best of its rounds."""
    source = bert_base()
    best: Counter[str] = Counter()
    for seed in range(N_BATCHES):
        best.update(best_seconds(_works(source, seed), settings.repeats))
    ratios = {name: seconds / best["bare"] for name, seconds in best.items()}
    for name, measured in WHOLE.items():
        target = at_most(1.03) if name == "analyze" else None
        yield Row("speed", measured, ratios[name], "x", target)
    for name in ratios:
        if name not in (*WHOLE, "bare"):
            yield Row("speed", f"  part of analyze: {name} / bare", ratios[name], "x")


def _works(source: LoadedModel, seed: int) -> dict[str, Work]:
    """All ways over one batch."""
    examples = make_segments(N_SEGMENTS, N_TOKENS, seed)
    ready = encode_ahead(source, examples, N_TOKENS)
    batch = ready.batch(ready.encode(examples, N_TOKENS))
    check_agreement(measure_usually(ready, [batch]), _measure(ready, examples, build_analyses()))
    return {
        "bare": partial(forward, ready, [batch.inputs], "sdpa"),
        "analyze": partial(_measure_in_parts, ready, examples),
        "tap": partial(_measure, ready, examples, []),
        "usual": partial(measure_usually, ready, [batch]),
        "encode": partial(source.encode, examples, N_TOKENS),
    }


def _measure(
    source: LoadedModel, examples: Sequence[Example], analyses: Sequence[Analysis]
) -> Result:
    return measure_examples(examples, source, analyses, OPTIONS)


def _measure_in_parts(source: LoadedModel, examples: Sequence[Example]) -> Parts:
    """Seconds by part of one pass; of the time within the model, the rest is the engine's."""
    analyses = [_Timed(analysis) for analysis in build_analyses()]
    result = _measure(source, examples, analyses)  # type: ignore[arg-type]
    parts = Parts({analysis.name: analysis.seconds for analysis in analyses})
    engine = result.seconds[MEASURING] - sum(parts.values())
    adding = result.seconds["add"]
    return Parts({**parts, "NaN check and copying": engine, "adding": adding})


class _Timed:
    """An analysis that counts the seconds it takes."""

    def __init__(self, analysis: Any) -> None:
        self.analysis, self.seconds = analysis, 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.analysis, name)

    def measure(self, seen: Readings) -> Mapping[str, Tensor]:
        start = perf_counter()
        values = self.analysis.measure(seen)
        self.seconds += perf_counter() - start
        return values


def check_agreement(usual: UsualTotals, result: Result) -> None:
    """Both ways must give the same numbers, or their times could not be compared."""
    for analysis, name in {
        "position": "weight", "special-tokens": "weight", "entropy": "nats"
    }.items():  # fmt: skip
        total = result.tallies[analysis].totals[name].sum(axis=0)  # [layer, head, ...]
        np.testing.assert_allclose(usual[analysis], total, rtol=1e-3, atol=1e-5)
