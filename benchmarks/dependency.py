"""Heads as parsers on a real treebank: what scoring costs beside the forward pass, and loops."""

import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np
import torch

from benchmarks.row import Row, Settings, at_least, at_most
from benchmarks.timing import Work, best_seconds
from benchmarks.workload import encode_ahead, forward
from headscope.analyses.dependency.measure import Dependency
from headscope.analyses.trees import Trees
from headscope.contracts import CorpusRole
from headscope.corpora.opening import open_corpus
from headscope.data.encoding import Batch, Encoding
from headscope.data.example import Example
from headscope.engine.measure import measure_examples
from headscope.models.encode import equal_length_batches
from headscope.models.load import load_model
from headscope.models.loaded import LoadedModel
from headscope.models.tap import observe_outputs
from headscope.options import RunOptions

__all__ = ["run"]

SHARED = Path(__file__).parents[2] / "shared"
MODEL, TREEBANK = SHARED / "models/e5-small", SHARED / "data/treebanks/en_ewt-ud-dev.conllu"
N_SENTENCES, N_LOOPED = 2000, 40
OPTIONS = RunOptions(shard_examples=N_SENTENCES)


def run(settings: Settings) -> Iterator[Row]:
    """Ratios to the bare SDPA forward over the same batches; and to per-head loops over maps."""
    if not (MODEL.exists() and TREEBANK.exists()):
        print(f"  left out: {MODEL} or {TREEBANK} is not on this machine", file=sys.stderr)
        return
    source = load_model(MODEL)
    examples = list(open_corpus(TREEBANK, "treebank"))[:N_SENTENCES]
    ready = encode_ahead(source, examples, source.max_tokens)
    encodings = ready.encode(examples, source.max_tokens)
    batches = [ready.batch(b) for b in equal_length_batches(encodings, OPTIONS.batch_tokens)]
    works: dict[str, Work] = {
        "bare": partial(forward, ready, [batch.inputs for batch in batches], "sdpa"),
        "dependency": partial(_measure, ready, examples, [Dependency()]),
        "with trees": partial(_measure, ready, examples, [Dependency(), Trees()]),
    }
    best = best_seconds(works, settings.repeats)
    yield Row(
        "dependency",
        f"dependency (all relations, both directions) / bare SDPA "
        f"forward, e5-small, {len(examples)} EWT sentences",
        best["dependency"] / best["bare"],
        "x",
        at_most(1.10),
    )
    ratio = best["with trees"] / best["bare"]
    yield Row("dependency", "  dependency and trees / bare", ratio, "x", at_most(1.35))
    gain = _loop_seconds(ready, encodings[:N_LOOPED]) / _scoring_seconds(ready, examples, settings)
    measured = "scoring: per-head loops over stored maps / dependency, seconds a sentence"
    yield Row("dependency", measured, gain, "x", at_least(10))


def _measure(source: LoadedModel, examples: Sequence[Example], analyses: list[object]) -> None:
    measure_examples(examples, source, analyses, OPTIONS, CorpusRole.TREEBANK)  # type: ignore[arg-type]


def _scoring_seconds(source: LoadedModel, examples: Sequence[Example], settings: Settings) -> float:
    """Seconds a sentence that measuring and adding up take within a pass, best of several."""
    seconds = []
    for _ in range(settings.repeats):
        result = measure_examples(examples, source, [Dependency()], OPTIONS, CorpusRole.TREEBANK)
        seconds.append(result.seconds["measure (within model)"] + result.seconds["add"])
    return min(seconds) / len(examples)


def _loop_seconds(source: LoadedModel, encodings: Sequence[Encoding]) -> float:
    """Seconds a sentence for words, predictions and counts, head by head, as the paper's code."""
    stored = [(encoding, _maps(source, encoding)) for encoding in encodings]
    start = perf_counter()
    for encoding, maps in stored:
        for layer in maps:
            for weights in layer:
                _score_head(_merge_words(weights, encoding), encoding)
    return (perf_counter() - start) / len(stored)


def _maps(source: LoadedModel, encoding: Encoding) -> np.ndarray:
    layers: list[torch.Tensor] = []
    observe_outputs(
        source.model, Batch((encoding,)).inputs, lambda seen: layers.append(seen.weights[0])
    )
    return torch.stack(layers).numpy()  # [layer, head, query, key]


def _merge_words(weights: np.ndarray, encoding: Encoding) -> np.ndarray:
    """Sum over the pieces attended to, mean over those that attend; NumPy, one head at a time."""
    n_words = len(encoding.example.words or ())
    pieces = [np.flatnonzero(encoding.word_ids == word) for word in range(n_words)]
    to_words = np.stack([weights[:, p].sum(axis=1) for p in pieces], axis=1)
    return np.stack([to_words[p].mean(axis=0) for p in pieces])


def _score_head(words: np.ndarray, encoding: Encoding) -> dict[tuple[str, str], list[int]]:
    tree = encoding.example.tree
    assert tree is not None
    scores = words.copy()
    np.fill_diagonal(scores, -1)
    counts: dict[tuple[str, str], list[int]] = {}
    for direction, found in (("row", scores.argmax(axis=1)), ("column", scores.argmax(axis=0))):
        for word, (head, relation) in enumerate(zip(tree.heads, tree.relations, strict=True)):
            for name in (relation, "all"):
                count = counts.setdefault((name, direction), [0, 0])
                count[0] += int(found[word] == head)
                count[1] += 1
    return counts
