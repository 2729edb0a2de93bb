"""Probes over all heads: what solving and training cost beside storing attention, and that beside
the model."""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TypeVar

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
from headscope.models.hidden import SPREAD_LAYERS, HiddenStates, open_hidden_states
from headscope.models.load import load_model, make_untrained
from headscope.models.loaded import LoadedModel
from headscope.options import RunOptions
from headscope.probes import UNTRAINED_PREFIX
from headscope.probes.attention_only import AttentionOnly, fit_attention_only
from headscope.probes.geometry import choose_layer, fit_layers
from headscope.probes.suite import Suite, run_probes
from headscope.probes.train import NoStateStore, TrainingOptions, train
from headscope.probes.treebank import ProbeTreebank
from headscope.probes.vectors import WordVectors, read_vectors
from headscope.probes.word_nets import AttentionAndWords
from headscope.registry import PROBES

__all__ = ["run", "run_store"]

T = TypeVar("T")

SHARED = Path(__file__).parents[2] / "shared"
MODEL, TREEBANK = SHARED / "models/e5-small", SHARED / "data/treebanks/en_ewt-ud-train.conllu"
TEST = SHARED / "data/treebanks/en_ewt-ud-dev.conllu"
VECTORS = SHARED / "data/vectors/glove-100d.txt.gz"
N_STORED = 1000  # sentences of the comparison with the bare forward pass
N_LEARNED: int | None = None  # sentences that probes learn from; None: all
N_MEMORY = (500, 4000)
OPTIONS = RunOptions(shard_examples=N_STORED)


def run(settings: Settings) -> Iterator[Row]:
    """All of Table 3 with five seeds against filling the store."""
    if _has_files():
        yield _table_3(load_model(MODEL), list(open_corpus(TREEBANK, "treebank"))[:N_LEARNED])


def run_store(settings: Settings) -> Iterator[Row]:
    """The store against the bare SDPA forward, single probes against the store, and memory."""
    if not _has_files():
        return
    source = load_model(MODEL)
    examples = list(open_corpus(TREEBANK, "treebank"))
    yield _storing(source, examples[:N_STORED], settings)
    yield from _learning(source, examples[:N_LEARNED])
    yield from _memory(settings)


def _has_files() -> bool:
    missing = [path for path in (MODEL, TREEBANK, TEST, VECTORS) if not path.exists()]
    for path in missing:
        print(f"  left out: {path} is not here", file=sys.stderr)
    return not missing


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
        treebank, stored = _timed(lambda: _store(source, examples, Path(folder)))
        (probe, minimum), solved = _timed(lambda: fit_attention_only(treebank))
        assert minimum.is_converged
        vectors = _read_vectors(treebank)
        _, trained = _timed(lambda: _train_epoch(treebank, probe, vectors))
    of = f"filling the store, {len(examples)} EWT sentences"
    steps = f"{minimum.iterations} iterations, {minimum.evaluations} evaluations"
    print(f"    store {stored:.0f} s, L-BFGS {solved:.0f} s ({steps})", file=sys.stderr)
    yield Row("probes", f"attention-only, L-BFGS to 1e-5 / {of}", solved / stored, "x", at_most(5))
    measured = f"attention-and-words, an epoch / {of}"
    yield Row("probes", measured, trained / stored, "x", at_most(1))


def _table_3(source: LoadedModel, examples: list[Example]) -> Row:
    """Every probe with five seeds, once its stores are filled; once, as it takes minutes."""
    test = list(open_corpus(TEST, "treebank"))
    probes = dict(PROBES.load_all())
    with TemporaryDirectory() as name:
        folder, hidden = Path(name), open_hidden_states(source, SPREAD_LAYERS)
        learned, stored = _timed(lambda: _store(source, examples, folder, hidden))
        scored = _store(source, test, folder, hidden)
        vectors = _read_vectors(learned)
        options = TrainingOptions(seeds=5)
        suite = Suite(learned, scored, vectors, options, lambda name: NoStateStore())
        fits, of_layers = _timed(lambda: fit_layers(suite))
        suite.layer = choose_layer(fits)
        untrained = make_untrained(source)
        own = open_hidden_states(untrained, str(suite.layer))
        banks = (_store(untrained, part, folder, own) for part in (examples, test))
        without = suite.over(*banks, UNTRAINED_PREFIX)
        suites = {one: without if probe.of_untrained else suite for one, probe in probes.items()}
        results, of_probes = _timed(lambda: run_probes(probes, suites))
    for one, result in results.items():
        print(f"    {one} {100 * result.scores.shares[0]:.1f} UAS", file=sys.stderr)
    text = f"    store {stored:.0f} s, layers {of_layers:.0f} s, probes {of_probes:.0f} s"
    print(text, file=sys.stderr)
    measured = f"Table 3 with five seeds / filling the store, {len(examples)} EWT sentences"
    return Row("probes", measured, (of_layers + of_probes) / stored, "x", at_most(3))


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    start = perf_counter()
    return work(), perf_counter() - start


def _memory(settings: Settings) -> Iterator[Row]:
    few, many = (peak_of_case(settings, "probe_treebank", n) for n in N_MEMORY)
    measured = f"probes, peak of the process, {N_MEMORY[1]} EWT sentences"
    yield Row("probes", measured, many, "MB", under(2000))
    yield Row("probes", f"  the same, {N_MEMORY[0]} sentences", few, "MB")


def _store(
    source: LoadedModel,
    examples: list[Example],
    folder: Path,
    hidden: HiddenStates | None = None,
) -> ProbeTreebank:
    sample = draw_sample(MemoryCorpus(examples), None, 0)
    return StoredMaps(source, folder, OPTIONS, hidden=hidden).treebank(sample)


def _read_vectors(treebank: ProbeTreebank) -> WordVectors:
    words = {word for sentence in treebank.sentences for word in sentence.words}
    return read_vectors(VECTORS, read_lines(VECTORS), words)


def _train_epoch(treebank: ProbeTreebank, probe: AttentionOnly, vectors: WordVectors) -> None:
    model = AttentionAndWords(vectors, probe)
    train(model, treebank, vectors.row_of, TrainingOptions(epochs=1), NoStateStore())
