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
from headscope.models.hidden import SPREAD_LAYERS, HiddenStates, open_hidden_states
from headscope.models.load import load_model
from headscope.models.loaded import LoadedModel
from headscope.models.untrained import make_untrained
from headscope.options import RunOptions
from headscope.probes import UNTRAINED_PREFIX
from headscope.probes.attention_only import AttentionOnly, fit_attention_only
from headscope.probes.attention_words import AttentionAndWords
from headscope.probes.layers import choose_layer, fit_layers
from headscope.probes.suite import Suite
from headscope.probes.train import NoStateStore, TrainingOptions, train
from headscope.probes.treebank import ProbeTreebank
from headscope.probes.vectors import WordVectors, read_vectors
from headscope.registry import PROBES

__all__ = ["run"]

SHARED = Path(__file__).parents[2] / "shared"
MODEL, TREEBANK = SHARED / "models/e5-small", SHARED / "data/treebanks/en_ewt-ud-train.conllu"
TEST = SHARED / "data/treebanks/en_ewt-ud-dev.conllu"
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
    yield _table_3(source, examples[:N_LEARNED])
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


def _table_3(source: LoadedModel, examples: list[Example]) -> Row:
    """Every probe with five seeds, once its stores are filled; once, as it takes minutes."""
    untrained = make_untrained(source)
    test = list(open_corpus(TEST, "treebank"))
    with TemporaryDirectory() as folder:
        start = perf_counter()
        learned = _store(source, examples, Path(folder), open_hidden_states(source, SPREAD_LAYERS))
        stored = perf_counter() - start
        hidden = {one: open_hidden_states(one, SPREAD_LAYERS) for one in (source, untrained)}
        banks = [
            [_store(one, part, Path(folder), hidden[one]) for part in (examples, test)]
            for one in (source, untrained)
        ]
        vectors = _read_vectors(learned)
        start = perf_counter()
        options = TrainingOptions(seeds=5)
        suite = Suite(*banks[0], vectors, options, lambda name: NoStateStore())
        suite.layer = choose_layer(fit_layers(suite))
        suites = {False: suite, True: suite.over(*banks[1], UNTRAINED_PREFIX)}
        for name, probe in PROBES.load_all():
            before = perf_counter()
            suites[probe.of_untrained].run(name, probe)
            print(f"    {name} {perf_counter() - before:.0f} s", file=sys.stderr)
        seconds = perf_counter() - start
    print(f"    store {stored:.0f} s, Table 3 {seconds:.0f} s", file=sys.stderr)
    measured = f"Table 3 with five seeds / filling the store, {len(examples)} EWT sentences"
    return Row("probes", measured, seconds / stored, "x", at_most(3))


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
