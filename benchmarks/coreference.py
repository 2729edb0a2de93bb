"""Heads as resolvers of coreference on real documents: what scoring costs beside the forward."""

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.row import Row, Settings, at_most
from benchmarks.timing import Work, best_seconds
from benchmarks.workload import encode_ahead, forward
from headscope.analyses.coreference.measure import Coreference
from headscope.contracts import CorpusRole
from headscope.corpora.opening import open_corpus
from headscope.data.counts import ExampleCounts
from headscope.engine.measure import measure_examples
from headscope.engine.windows import cut_windows
from headscope.models.encode import equal_length_batches
from headscope.models.load import load_model
from headscope.options import RunOptions

__all__ = ["run"]

SHARED = Path(__file__).parents[2] / "shared"
MODEL, FOLDER = SHARED / "models/e5-small", SHARED / "data/coref/ontogum"
WINDOW = 128
OPTIONS = RunOptions(max_tokens=WINDOW)


def run(settings: Settings) -> Iterator[Row]:
    """Ratios to the bare SDPA forward over the same batches, with and without cutting windows."""
    if not (MODEL.exists() and FOLDER.exists()):
        print(f"  left out: {MODEL} or {FOLDER} is not on this machine", file=sys.stderr)
        return
    source = load_model(MODEL)
    documents = list(open_corpus(FOLDER, "coref"))
    windows = cut_windows(documents, source, WINDOW, ExampleCounts())
    ready = encode_ahead(source, windows, WINDOW)
    members = equal_length_batches(ready.encode(windows, WINDOW), OPTIONS.batch_tokens)
    batches = [ready.batch(encodings) for encodings in members]
    analyses = [Coreference()]
    works: dict[str, Work] = {
        "bare": partial(forward, ready, [batch.inputs for batch in batches], "sdpa"),
        "coreference": partial(
            measure_examples, windows, ready, analyses, OPTIONS, CorpusRole.TREEBANK
        ),
        "with cutting": partial(
            measure_examples, documents, source, analyses, OPTIONS, CorpusRole.COREF
        ),
    }
    best = best_seconds(works, settings.repeats)
    measured = (
        f"coreference (all types and distances) / bare SDPA "
        f"forward, e5-small, {len(windows)} windows of OntoGUM"
    )
    ratio = best["coreference"] / best["bare"]
    yield Row("coreference", measured, ratio, "x", at_most(1.30))
    measured = "  with cutting and encoding / bare"
    yield Row("coreference", measured, best["with cutting"] / best["bare"], "x")
