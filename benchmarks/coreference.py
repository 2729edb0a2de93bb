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
from headscope.engine.windows import cut_documents
from headscope.models.encode import equal_length_batches
from headscope.models.load import load_model
from headscope.options import RunOptions

__all__ = ["run"]

SHARED = Path(__file__).parents[2] / "shared"
MODEL, FOLDER = SHARED / "models/e5-small", SHARED / "data/coref/ontogum"
N_DOCUMENTS = 15
TARGETS = {128: 1.15, 512: 1.25}  # by window


def run(settings: Settings) -> Iterator[Row]:
    """Ratios to the bare SDPA forward over the same batches, with and without cutting windows."""
    if not (MODEL.exists() and FOLDER.exists()):
        print(f"  left out: {MODEL} or {FOLDER} is not on this machine", file=sys.stderr)
        return
    source = load_model(MODEL)
    documents = list(open_corpus(FOLDER, "coref"))[:N_DOCUMENTS]
    for window, most in TARGETS.items():
        windows = cut_documents(documents, source, window, ExampleCounts())
        ready = encode_ahead(source, windows, window)
        options = RunOptions(max_tokens=window)
        members = equal_length_batches(ready.encode(windows, window), options.batch_tokens)
        batches = [ready.batch(encodings) for encodings in members]
        measure = partial(measure_examples, analyses=[Coreference()], options=options)
        works: dict[str, Work] = {
            "bare": partial(forward, ready, [batch.inputs for batch in batches], "sdpa"),
            "coreference": partial(
                measure, windows, ready, role=CorpusRole.TREEBANK, max_tokens=window
            ),
            "with cutting": partial(
                measure, documents, source, role=CorpusRole.COREF, max_tokens=window
            ),
        }
        best = best_seconds(works, settings.repeats)
        measured = (
            f"coreference (all types and distances) / bare SDPA forward, e5-small, "
            f"{len(windows)} windows of {window} tokens of OntoGUM"
        )
        ratio = best["coreference"] / best["bare"]
        yield Row("coreference", measured, ratio, "x", at_most(most))
        measured = "  with cutting and encoding / bare"
        yield Row("coreference", measured, best["with cutting"] / best["bare"], "x")
