"""Probes over all heads: what storing attention, solving and training cost beside the model."""

import sys
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from benchmarks.memory import peak_of_case
from benchmarks.row import Row, Settings, at_most, under
from benchmarks.timing import Work, best_seconds
from benchmarks.workload import encode_ahead, forward
from headscope.corpora.collection import MemoryCorpus
from headscope.corpora.lines import read_lines
from headscope.corpora.opening import open_corpus
from headscope.data.example import Example
from headscope.engine.sample import draw_sample
from headscope.engine.word_maps import StoredMaps
from headscope.models.encode import equal_length_batches
from headscope.models.load import load_model
from headscope.models.loaded import LoadedModel
from headscope.options import RunOptions
from headscope.probes.attention_only import AttentionOnly, fit_attention_only
from headscope.probes.attention_words import AttentionAndWords
from headscope.probes.train import NoStateStore, TrainingOptions, train
from headscope.probes.treebank import ProbeTreebank
from headscope.probes.vectors import WordVectors, read_vectors

__all__ = ["run"]

SHARED = Path(__file__).parents[2] / "shared"
MODEL, TREEBANK = SHARED / "models/e5-small", SHARED / "data/treebanks/en_ewt-ud-train.conllu"
VECTORS = SHARED / "data/vectors/glove-100d.txt.gz"
N_STORED = 1000  # sentences of the comparison with the bare forward pass
N_LEARNED: int | None = None  # sentences that probes learn from; None: all
N_MEMORY = (500, 4000)
OPTIONS = RunOptions(shard_examples=N_STORED)


def run(settings: Settings) -> Iterator[Row]:
    """The store against the bare SDPA forward; solving and training against filling the store."""
    if not (MODEL.exists() and TREEBANK.exists() and VECTORS.exists()):
        print(f"  left out: {MODEL}, {TREEBANK} or {VECTORS} is not here", file=sys.stderr)
        return
    source = load_model(MODEL)
    examples = list(open_corpus(TREEBANK, "treebank"))
    yield _storing(source, examples[:N_STORED], settings)
    yield from _learning(source, examples[:N_LEARNED])
    yield from _memory(settings)


def _storing(source: LoadedModel, examples: list[Example], settings: Settings) -> Row:
    ready = encode_ahead(source, examples, source.max_tokens)
    encodings = ready.encode(examples, source.max_tokens)
    batches = [ready.batch(b) for b in equal_length_batches(encodings, OPTIONS.batch_tokens)]
    with TemporaryDirectory() as folder:
        numbers = count()
        works: dict[str, Work] = {
            "bare": partial(forward, ready, [batch.inputs for batch in batches], "sdpa"),
            "store": lambda: _store(ready, examples, Path(folder) / str(next(numbers))),
        }
        best = best_seconds(works, settings.repeats)
    measured = f"store of word attention / bare SDPA forward, e5-small, {len(examples)} sentences"
    return Row("probes", measured, best["store"] / best["bare"], "x", at_most(1.25))


def _learning(source: LoadedModel, examples: list[Example]) -> Iterator[Row]:
    """Each once: they take minutes."""
    with TemporaryDirectory() as folder:
        start = perf_counter()
        treebank = _store(source, examples, Path(folder))
        stored = perf_counter() - start
        start = perf_counter()
        probe, minimum = fit_attention_only(treebank)
        solved = perf_counter() - start
        assert minimum.is_converged
        vectors = _read_vectors(treebank)
        start = perf_counter()
        _train_epoch(treebank, probe, vectors)
        trained = perf_counter() - start
    of = f"filling the store, {len(examples)} EWT sentences"
    steps = f"{minimum.iterations} iterations, {minimum.evaluations} evaluations"
    print(f"    store {stored:.0f} s, L-BFGS {solved:.0f} s ({steps})", file=sys.stderr)
    yield Row("probes", f"attention-only, L-BFGS to 1e-5 / {of}", solved / stored, "x", at_most(5))
    measured = f"attention-and-words, an epoch / {of}"
    yield Row("probes", measured, trained / stored, "x", at_most(1))


def _memory(settings: Settings) -> Iterator[Row]:
    few, many = (peak_of_case(settings, "probe_treebank", n) for n in N_MEMORY)
    measured = f"probes, peak of the process, {N_MEMORY[1]} EWT sentences"
    yield Row("probes", measured, many, "MB", under(2000))
    yield Row("probes", f"  the same, {N_MEMORY[0]} sentences", few, "MB")


def _store(source: LoadedModel, examples: list[Example], folder: Path) -> ProbeTreebank:
    sample = draw_sample(MemoryCorpus(examples), None, 0)
    return StoredMaps(source, folder, OPTIONS).treebank(sample)


def _read_vectors(treebank: ProbeTreebank) -> WordVectors:
    words = {word for sentence in treebank.sentences for word in sentence.words}
    return read_vectors(VECTORS, read_lines(VECTORS), words)


def _train_epoch(treebank: ProbeTreebank, probe: AttentionOnly, vectors: WordVectors) -> None:
    model = AttentionAndWords(vectors, probe)
    train(model, treebank, vectors.row_of, TrainingOptions(epochs=1), NoStateStore())
