"""The whole of `headscope probe`: store attention, train every probe, score them, write tables."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from logging import getLogger
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

from headscope.contracts import Annotation, AttentionSource, Corpus, CorpusRole
from headscope.corpora.lines import file_digest, read_lines
from headscope.corpora.opening import CorporaLike, as_corpora
from headscope.data.example import Example, stable_hash
from headscope.engine.checkpoint import StateFile
from headscope.engine.open_models import open_source
from headscope.engine.plan import tell_left_out
from headscope.engine.progress import Bars, show_progress
from headscope.engine.resolve import read_names
from headscope.engine.sample import Sample, draw_sample
from headscope.engine.word_maps import SourceRecipe, StoredMaps
from headscope.errors import StudyError
from headscope.models.loaded import LoadedModel
from headscope.models.untrained import make_untrained
from headscope.options import (
    ClusterOptions,
    ModelOptions,
    ProbeOptions,
    RunOptions,
    build_options,
    collect_options,
    refuse_unknown,
)
from headscope.probes import UNTRAINED_PREFIX
from headscope.probes.baselines import count_correct
from headscope.probes.suite import Probe, Suite
from headscope.probes.tables import ProbeResult, build_tables
from headscope.probes.train import NoStateStore, StateStore, TrainingOptions, refuse_tiny
from headscope.probes.treebank import ProbeTreebank
from headscope.probes.vectors import WordVectors, read_vectors
from headscope.registry import PROBES
from headscope.runs.folder import RunFolder
from headscope.runs.manifest import begin_manifest
from headscope.runs.run import Run, add_tables
from headscope.runs.tables import number_layers

__all__ = ["probe", "probe_within"]

log = getLogger("headscope")

LONG_SENTENCE = 10  # words; EWT's train and dev share 68 sentences, all shorter
SHARED_SHARE = 0.2  # of the test sentences: more cannot be chance
UNSEEN_SHARE = 0.05  # of words whose relation the training treebank lacks: above it, a warning


def probe(
    model: Any = "demo",
    *,
    train: CorporaLike,
    test: CorporaLike,
    vectors: str | Path | None = None,
    out: str | Path | None = None,
    store: str | Path | None = None,
    only: str | Collection[str] | None = None,
    resume: bool = False,
    tokenizer: Any = None,
    progress: bool = True,
    **options: Any,
) -> Run:
    """How much syntax is in all heads together: train probes on one treebank, score on another.

    The attention between words is written to `store` once; another run over the same model and
    treebank finds it there. Without `vectors`, probes that read words are left out. `options` are
    those of `headscope.options.ProbeOptions`, `ModelOptions` and `ClusterOptions`.
    """
    refuse_unknown(options, collect_options(ProbeOptions, ModelOptions, ClusterOptions))
    chosen: ProbeOptions = build_options(ProbeOptions, options)
    cluster: ClusterOptions = build_options(ClusterOptions, options)
    folder = RunFolder(Path(out)) if out is not None else None
    if folder and not resume:
        folder.refuse_if_taken()
    digest = file_digest(Path(vectors)) if vectors else None  # says what is wrong with the file
    samples = {
        "train": draw_sample(_open_treebank(train), chosen.sentences, chosen.seed),
        "test": draw_sample(_open_treebank(test), None, chosen.seed),
    }
    refuse_tiny(samples["train"].n_examples)
    n_shared = count_shared(samples["train"], samples["test"], chosen.allow_overlap)
    warn_of_other_labels(samples["train"], samples["test"])
    loading: ModelOptions = build_options(ModelOptions, options)
    source = open_source(model, tokenizer, loading, chosen.seed)
    recipe = SourceRecipe(cluster, model, tokenizer, loading, chosen.seed) if cluster.ray else None
    can_be_untrained = isinstance(source, LoadedModel)
    probes, left_out = choose_probes(read_names(only), vectors is not None, can_be_untrained)
    training = TrainingOptions(epochs=chosen.epochs, seed=chosen.seed)
    manifest = {
        **begin_manifest(source.describe(), asdict(chosen) | asdict(training), left_out),
        "treebanks": {part: _describe(sample) for part, sample in samples.items()},
        PROBES.plural: list(probes),
        "vectors": digest,
        "shared_sentences": n_shared,
    }
    begun = folder.begin(manifest, resume) if folder else nullcontext()
    with begun, _open_store(store, folder) as place, show_progress(progress) as bars:
        study = _ProbeStudy(source, place, samples, chosen, training, folder, bars, recipe)
        return study.run(probes, Path(vectors) if vectors else None, manifest)


def probe_within(run: Run, model: Any, **options: Any) -> Run:
    """The run with the probes of `analyze --train`, which lie in a folder within its own."""
    assert run.folder is not None  # the command line always has one
    return add_tables(run, probe(model, out=run.folder / PROBES.plural, **options))


def choose_probes(
    only: Collection[str] | None, has_vectors: bool, can_be_untrained: bool
) -> tuple[dict[str, Probe], dict[str, str]]:
    """The probes to run, and those left out with the reason; an error for what was asked for."""
    for name in only or ():
        PROBES.find(name).load()
    probes: dict[str, Probe] = {}
    left_out: dict[str, str] = {}
    for name, probe in PROBES.load_all():
        if only is not None and name not in only:
            continue
        if probe.needs_vectors and not has_vectors:
            left_out[name] = f"Skipped {name!r}: no word vectors were given (--vectors FILE)."
        elif probe.of_untrained and not can_be_untrained:
            left_out[name] = (
                f"Skipped {name!r}: it needs a transformers model, to draw its weights."
            )
        else:
            probes[name] = probe
    if only is not None and left_out:
        raise StudyError(" ".join(left_out.values()))
    tell_left_out(left_out)
    return probes, left_out


def count_shared(train: Sample, test: Sample, is_allowed: bool = False) -> int:
    """How many sentences of the test treebank are also learned from; an error if that cannot be
    chance.

    Short formulas ("Thank you .") stand in any two treebanks; a long sentence, or many, do not.
    """
    known = {_sentence_key(example) for example in train}
    shared = [example for example in test if _sentence_key(example) in known]
    n_long = sum(len(example.words or ()) >= LONG_SENTENCE for example in shared)
    is_same = train.corpus.digest() == test.corpus.digest()
    is_chance = not is_same and n_long == 0 and len(shared) <= SHARED_SHARE * test.n_examples
    if is_chance or is_allowed:
        return len(shared)
    what = f"{len(shared)} of the {test.n_examples} sentences of {test.corpus.name}"
    raise StudyError(
        f"{what} are also in {train.corpus.name}, {n_long} of them with {LONG_SENTENCE} words or "
        "more: probes would be scored on what they learned. Expected other sentences to learn "
        "from than to score on; give two treebanks, or allow it: `headscope probe --allow-overlap`."
    )


def _sentence_key(example: Example) -> int:
    return stable_hash(" ".join(example.words or ()))


def warn_of_other_labels(train: Sample, test: Sample) -> None:
    """Say where the two treebanks seem to be annotated by different schemes."""
    known = {r for example in train for r in (example.tree.relations if example.tree else ())}
    counts = Counter(
        r for example in test for r in (example.tree.relations if example.tree else ())
    )
    unseen = {relation: n for relation, n in counts.items() if relation not in known}
    share = sum(unseen.values()) / max(sum(counts.values()), 1)
    if share > UNSEEN_SHARE:
        named = ", ".join(sorted(unseen, key=lambda relation: -unseen[relation])[:5])
        log.warning(
            "%.0f %% of the words of %s have a relation that %s does not use (%s). The two may be "
            "annotated by different schemes, and then their scores mean little; give treebanks of "
            "one scheme.",
            100 * share,
            test.corpus.name,
            train.corpus.name,
            named,
        )


@dataclass(frozen=True)
class _ProbeStudy:
    """Everything that training and scoring need, in hand."""

    source: AttentionSource
    store: Path
    samples: Mapping[str, Sample]
    options: ProbeOptions
    training: TrainingOptions
    folder: RunFolder | None
    bars: Bars
    recipe: SourceRecipe | None = None  # of workers, if a cluster is to be used

    def run(
        self, probes: Mapping[str, Probe], vectors: Path | None, manifest: dict[str, Any]
    ) -> Run:
        treebanks = self._open_treebanks(self.source)
        words = _read_vectors(vectors, treebanks)
        suite = Suite(
            train=treebanks["train"],
            test=treebanks["test"],
            vectors=words,
            options=self.training,
            open_state=self._open_state,
            report=self.bars.report,
            compat=self.options.compat,
        )
        suites = {"": suite}
        if any(probe.of_untrained for probe in probes.values()):
            assert isinstance(self.source, LoadedModel)  # else these probes are left out
            untrained = self._open_treebanks(
                make_untrained(self.source, self.options.seed), is_untrained=True
            )
            suites[UNTRAINED_PREFIX] = suite.over(
                untrained["train"], untrained["test"], UNTRAINED_PREFIX
            )
        results = {
            name: suites[UNTRAINED_PREFIX if probe.of_untrained else ""].run(probe)
            for name, probe in probes.items()
        }
        with_curve = {n: p for n, p in probes.items() if p.has_curve and self.options.curve}
        steps = [
            (name, one) for name, probe in with_curve.items() for one in suite.run_curve(probe)
        ]
        steps += [(name, results[name]) for name, probe in probes.items() if probe.has_curve]
        pairs = [(n, o) for n, probe in probes.items() for o in probe.compared_with if o in probes]
        tables = self._tables(list(suites.values()), results, pairs, steps)
        tables = number_layers(tables, manifest["model"])
        final = manifest | {
            "status": "complete",
            "tables": list(tables),
            "counts": {part: dict(t.maps.index.counts) for part, t in treebanks.items()},
            "coverage": _coverage(words, treebanks),
        }
        if self.folder:
            self.folder.finish(tables, final)
        return Run(tables, final, self.folder.path if self.folder else None)

    def _open_treebanks(
        self, source: AttentionSource, is_untrained: bool = False
    ) -> dict[str, ProbeTreebank]:
        options = RunOptions(seed=self.options.seed, batch_tokens=self.options.batch_tokens)
        recipe = self.recipe and replace(self.recipe, is_untrained=is_untrained)
        maps = StoredMaps(source, self.store, options, self.options.query_pieces, recipe)
        return {
            part: maps.treebank(sample, self.bars.add(f"{part}: {source.name}", sample.n_examples))
            for part, sample in self.samples.items()
        }

    def _open_state(self, name: str) -> StateStore:
        if self.folder is None:
            return NoStateStore()
        return StateFile(self.folder.path / "checkpoints" / f"{name}.safetensors")

    def _tables(
        self,
        suites: Sequence[Suite],
        results: Mapping[str, ProbeResult],
        pairs: Sequence[tuple[str, str]],
        steps: Sequence[tuple[str, ProbeResult]],
    ) -> dict[str, pd.DataFrame]:
        suite = suites[0]
        fitted = {name: probe for one in suites for name, probe in one.fitted.items()}
        counts = suite.head_counts, count_correct(suite.test)
        shape = self.source.n_layers, self.source.n_heads
        return build_tables(results, pairs, steps, fitted, counts, shape)


def _open_treebank(treebank: CorporaLike) -> Corpus:
    (corpus,) = _only_one(as_corpora(treebank, CorpusRole.TREEBANK))
    if Annotation.DEPENDENCIES not in corpus.provides:
        raise StudyError(
            f"{corpus.name} has no dependency trees. Expected a treebank with heads and relations, "
            "to learn from and to score on; give another file as --train or --test."
        )
    return corpus


def _only_one(corpora: list[Corpus]) -> list[Corpus]:
    if len(corpora) != 1:
        raise StudyError(
            f"{len(corpora)} treebanks were given where probes take one. Expected one file or "
            "folder as --train and one as --test; put the files into one folder."
        )
    return corpora


def _describe(sample: Sample) -> dict[str, Any]:
    return {
        "corpus": sample.corpus.name,
        "path": str(getattr(sample.corpus, "path", "")),
        "digest": sample.corpus.digest(),
        "available": sample.n_available,
        "sentences": sample.n_examples,
    }


def _read_vectors(path: Path | None, treebanks: Mapping[str, ProbeTreebank]) -> WordVectors | None:
    if path is None:
        return None
    words = {w for t in treebanks.values() for s in t.sentences for w in s.words}
    vectors = read_vectors(path, read_lines(path), words)
    for part, share in _coverage(vectors, treebanks).items():
        log.info("%s: %.1f %% of the words of %s have a vector", path, 100 * share, part)
    return vectors


def _coverage(
    vectors: WordVectors | None, treebanks: Mapping[str, ProbeTreebank]
) -> dict[str, float]:
    if vectors is None:
        return {}
    return {
        part: vectors.coverage([word for s in treebank.sentences for word in s.words])
        for part, treebank in treebanks.items()
    }


@contextmanager
def _open_store(store: str | Path | None, folder: RunFolder | None) -> Iterator[Path]:
    """Where maps are kept: as given, else beside the run; without a run, until it is over."""
    if store is not None:
        yield Path(store)
    elif folder is not None:
        yield folder.path.parent / "stores"
    else:
        with TemporaryDirectory() as name:
            yield Path(name)
