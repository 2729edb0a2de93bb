"""What language models' heads are known for: three analyses on text beside the bare model."""

from collections.abc import Iterator
from functools import partial

from benchmarks.row import Row, Settings, at_most
from benchmarks.timing import Work, best_seconds
from benchmarks.workload import encode_ahead, forward, make_segments
from headscope.analyses.induction_text import InductionText
from headscope.analyses.position import Position
from headscope.analyses.reach import Reach
from headscope.analyses.sinks import Sinks
from headscope.contracts import Analysis
from headscope.engine.measure import measure_examples
from headscope.models.encode import equal_length_batches
from headscope.models.load import load_model
from headscope.options import RunOptions

__all__ = ["run"]

OPTIONS = RunOptions(batch_tokens=2048)


def run(settings: Settings) -> Iterator[Row]:
    """Ratios to the bare SDPA forward over the same batches, on the embedded model."""
    source = load_model("demo")
    examples = make_segments(64, 128)
    ready = encode_ahead(source, examples, 128)
    encodings = ready.encode(examples, 128)
    batches = [ready.batch(b) for b in equal_length_batches(encodings, OPTIONS.batch_tokens)]

    def measure(*analyses: Analysis) -> Work:
        return partial(measure_examples, examples, ready, analyses, OPTIONS, max_tokens=128)

    three = (InductionText(), Sinks(), Reach())
    works: dict[str, Work] = {
        "bare": partial(forward, ready, [batch.inputs for batch in batches], "sdpa"),
        "position": measure(Position()),
        "three": measure(*three),
        **{a.name: measure(a) for a in three},
    }
    best = best_seconds(works, settings.repeats)
    measured = "induction-text, sinks and reach / bare SDPA forward, 64 x 128 tokens"
    yield Row("language-models", measured, best["three"] / best["bare"], "x", at_most(1.10))
    for name in ("position", *(a.name for a in three)):
        yield Row("language-models", f"  {name} alone", best[name] / best["bare"], "x")
