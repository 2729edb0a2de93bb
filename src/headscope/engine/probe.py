"""The whole of `headscope probe`: store attention, train every probe, score them, write tables."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from logging import getLogger
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from headscope.arguments import checked
from headscope.contracts import Annotation, AttentionSource, CorpusRole
from headscope.corpora.collection import BaseCorpus
from headscope.corpora.lines import file_digest, read_lines
from headscope.corpora.opening import CorporaLike, as_corpora
from headscope.data.example import stable_hash
from headscope.engine.checkpoint import StateFile
from headscope.engine.cluster import find_ray
from headscope.engine.open_models import open_source
from headscope.engine.plan import tell_left_out
from headscope.engine.progress import Bars, show_progress
from headscope.engine.resolve import read_names
from headscope.engine.sample import Sample, draw_sample
from headscope.engine.word_maps import StoredMaps
from headscope.engine.work import locate
from headscope.errors import ModelError, StudyError
from headscope.models.hidden import HiddenStates, open_hidden_states
from headscope.models.load import make_untrained
from headscope.models.loaded import LoadedModel
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
from headscope.probes.controls import examine_probe, list_steps
from headscope.probes.geometry import choose_layer, fit_layers, list_structures
from headscope.probes.parts import N_PARTS, Part, PartScores, fit_heads, fit_parts, score_parts
from headscope.probes.structural import refuse_rank
from headscope.probes.suite import Probe, Suite, run_probes, run_side_by_side
from headscope.probes.tables import Findings, build_tables
from headscope.probes.train import NoStateStore, TrainingOptions, refuse_tiny
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


@checked
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

    The attention between words is written to `store` once; later runs with the same model and
    treebank use it again. Without `vectors`, probes that read words are left out. `options` are
    those of `headscope.options.ProbeOptions`, `ModelOptions` and `ClusterOptions`.
    """
    refuse_unknown(options, collect_options(ProbeOptions, ModelOptions, ClusterOptions))
    chosen: ProbeOptions = build_options(ProbeOptions, options)
    cluster: ClusterOptions = build_options(ClusterOptions, options)
    if cluster.ray is not None:
        find_ray(cluster)  # before the model is loaded
    learned, tested = _open_treebank(train), _open_treebank(test)
    folder = RunFolder(Path(out)) if out is not None else None
    if folder:
        folder.refuse_unusable(resume)
    with show_progress(progress) as bars, bars.stage("reading treebanks"):
        digest = file_digest(Path(vectors)) if vectors else None  # says what is wrong with the file
        samples = {
            "train": draw_sample(learned, chosen.sentences, chosen.seed).load_into_memory(),
            "test": draw_sample(tested, None, chosen.seed).load_into_memory(),
        }
    documents = {example.own_document for example in samples["train"]}
    refuse_tiny(samples["train"].n_examples, len(documents))
    n_shared = _count_shared(samples["train"], samples["test"], chosen.allow_overlap)
    _warn_of_other_labels(samples["train"], samples["test"])
    loading: ModelOptions = build_options(ModelOptions, options)
    with show_progress(progress) as bars, bars.stage("loading the model"):
        source = open_source(model, tokenizer, loading, chosen.seed)
    opening = partial(open_source, locate(model), tokenizer, loading, chosen.seed)
    is_model = isinstance(source, LoadedModel)
    probes, left_out = _choose_probes(read_names(only), vectors is not None, is_model)
    hidden = None
    if isinstance(source, LoadedModel) and any(probe.needs_hidden for probe in probes.values()):
        hidden = _open_hidden(source, chosen, only is not None)
        if hidden is None:
            probes = {name: probe for name, probe in probes.items() if not probe.needs_hidden}
    training = TrainingOptions(epochs=chosen.epochs, seed=chosen.seed, seeds=chosen.seeds)
    manifest = {
        **begin_manifest(source.describe(), asdict(chosen) | asdict(training), left_out),
        "treebanks": {part: _describe(sample) for part, sample in samples.items()},
        PROBES.plural: list(probes),
        "vectors": digest,
        "shared_sentences": n_shared,
    }
    begun = folder.begin(manifest, resume) if folder else nullcontext()
    with begun, TemporaryDirectory() as temporary, show_progress(progress) as bars:
        # maps are kept as given, else beside the run; without a run, until it is over
        beside = folder.path.parent / "stores" if folder else Path(temporary)
        kept = Path(store) if store is not None else beside
        study = _ProbeStudy(
            source, kept, samples, chosen, training, folder, bars, hidden, cluster, opening
        )
        return study.run(probes, Path(vectors) if vectors else None, manifest)


def _open_hidden(source: LoadedModel, options: ProbeOptions, is_asked: bool) -> HiddenStates | None:
    """The hidden states that are to be stored; None, with a warning, for a model whose cannot be,
    unless a user asked for probes by name."""
    try:
        hidden = open_hidden_states(source, options.hidden_layers)
    except ModelError as error:
        if is_asked:
            raise
        log.warning("Probes over hidden states are left out: %s", error)
        return None
    refuse_rank(options.rank, hidden.dimension)
    return hidden


def probe_within(run: Run, model: Any, **options: Any) -> Run:
    """The run with the probes of `analyze --train`, which lie in a folder within its own."""
    assert run.folder is not None  # the command line always has one
    return add_tables(run, probe(model, out=run.folder / PROBES.plural, **options))


def _choose_probes(
    only: Collection[str] | None, has_vectors: bool, is_model: bool
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
        elif (probe.of_untrained or probe.needs_hidden) and not is_model:
            wanted = "to draw its weights" if probe.of_untrained else "for its hidden states"
            left_out[name] = f"Skipped {name!r}: it needs a transformers model, {wanted}."
        else:
            probes[name] = probe
    if only is not None and left_out:
        raise StudyError(" ".join(left_out.values()))
    tell_left_out(left_out)
    return probes, left_out


def _count_shared(train: Sample, test: Sample, is_allowed: bool = False) -> int:
    """How many sentences of the test treebank are also learned from; an error if that cannot be
    chance.

    Short formulas ("Thank you .") stand in any two treebanks; a long sentence, or many, do not.
    """
    known = {stable_hash(" ".join(example.words or ())) for example in train}
    shared = [e for e in test if stable_hash(" ".join(e.words or ())) in known]
    n_long = sum(len(example.words or ()) >= LONG_SENTENCE for example in shared)
    is_same = train.corpus.digest() == test.corpus.digest()
    is_chance = not is_same and n_long == 0 and len(shared) <= SHARED_SHARE * test.n_examples
    if is_chance or is_allowed:
        return len(shared)
    what = f"{len(shared)} of the {test.n_examples} sentences of {test.corpus.name}"
    raise StudyError(
        f"{what} are also in {train.corpus.name}, {n_long} of them with {LONG_SENTENCE} words or "
        "more: probes would be scored on sentences they learned from. Expected different sentences "
        "for training and scoring; give two treebanks, or allow it: `headscope probe "
        "--allow-overlap`."
    )


def _warn_of_other_labels(train: Sample, test: Sample) -> None:
    known = {r for e in train if e.tree for r in e.tree.relations}
    counts = Counter(r for e in test if e.tree for r in e.tree.relations)
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
    source: AttentionSource
    store: Path
    samples: Mapping[str, Sample]
    options: ProbeOptions
    training: TrainingOptions
    folder: RunFolder | None
    bars: Bars
    hidden: HiddenStates | None
    cluster: ClusterOptions
    open_source: Callable[[], AttentionSource]  # in a worker of a cluster

    def run(
        self, probes: Mapping[str, Probe], vectors: Path | None, manifest: dict[str, Any]
    ) -> Run:
        treebanks = self._open_treebanks(self.source, self.samples, self.hidden)
        words, folder = _read_vectors(vectors, treebanks), self.folder
        suite = Suite(
            train=treebanks["train"],
            test=treebanks["test"],
            vectors=words,
            options=self.training,
            open_state=lambda name: (
                StateFile(folder.path / "checkpoints" / f"{name}.safetensors")
                if folder
                else NoStateStore()
            ),
            report=self.bars.report,
            compat=self.options.compat,
            rank=self.options.rank,
        )
        fits = fit_layers(suite) if self.hidden else []
        suite.layer = choose_layer(fits) if fits else 0
        suites = {"": suite}
        if any(probe.of_untrained for probe in probes.values()):
            assert isinstance(self.source, LoadedModel)  # else these probes are left out
            untrained = make_untrained(self.source, self.options.seed)
            of_layer = self.hidden and HiddenStates(
                untrained, (suite.layer,), self.hidden.dimension
            )
            both = self._open_treebanks(untrained, self.samples, of_layer, is_untrained=True)
            suites[UNTRAINED_PREFIX] = suite.over(both["train"], both["test"], UNTRAINED_PREFIX)
        by_probe = {
            name: suites[UNTRAINED_PREFIX if probe.of_untrained else ""]
            for name, probe in probes.items()
        }
        results = run_probes(probes, by_probe)
        examined = {
            name: partial(examine_probe, by_probe[name], name, probe)
            for name, probe in probes.items()
            if probe.is_trained
        }
        controls = run_side_by_side(examined) if self.options.curve else {}
        findings = Findings(
            results=results,
            steps=list(list_steps(controls, results)),
            controls=controls,
            fitted={name: probe for s in suites.values() for name, probe in s.fitted.items()},
            counts=(suite.head_counts, count_correct(suite.test)),
            shape=(self.source.n_layers, self.source.n_heads),
            layer_numbers=self.source.layer_numbers,
            parts=self._run_parts(suite) if self.options.parts and suite.fitted else (),
            structures=list_structures(fits, by_probe) if fits else [],
            train_documents=suite.train.n_documents,
            test_documents=suite.test.n_documents,
        )
        tables = number_layers(build_tables(findings), manifest["model"])
        final = manifest | {
            "status": "complete",
            "tables": list(tables),
            "counts": {part: dict(t.maps.index.counts) for part, t in treebanks.items()},
            "coverage": _coverage(words, treebanks),
        }
        if folder:
            folder.finish(tables, final)
        return Run(tables, final, folder.path if folder else None)

    def _run_parts(self, suite: Suite) -> list[tuple[Part, PartScores, int]]:
        n_sentences = min(N_PARTS, len(suite.train))
        parts = list(fit_parts(suite.train, self.source.layer_numbers, self.options.seed))
        scores = score_parts([part.probe for part in parts], suite.test)
        scored = [(*pair, n_sentences) for pair in zip(parts, scores, strict=True)]
        if not isinstance(self.source, LoadedModel) or self.source.weights == "norm":
            return scored
        source = replace(self.source, weights="norm")
        try:
            source.check_weights()
        except ModelError as error:
            log.warning("Norms are left out of the parts: %s", error)
            return scored
        fewer = draw_sample(self.samples["train"].corpus, n_sentences, self.options.seed)
        without = replace(self, cluster=ClusterOptions())  # workers would load attention
        norms = without._open_treebanks(source, {**self.samples, "train": fewer}, None)
        of_norms = fit_heads("norms", norms["train"], range(norms["train"].maps.n_maps))
        (score,) = score_parts([of_norms.probe], norms["test"])
        return [*scored, (of_norms, score, len(norms["train"]))]

    def _open_treebanks(
        self,
        source: AttentionSource,
        samples: Mapping[str, Sample],
        hidden: HiddenStates | None,
        is_untrained: bool = False,
    ) -> dict[str, ProbeTreebank]:
        options = RunOptions(seed=self.options.seed, batch_tokens=self.options.batch_tokens)
        pieces, opening = self.options.query_pieces, self.open_source
        if is_untrained:
            opening = partial(_open_untrained, opening, self.options.seed)
        maps = StoredMaps(source, self.store, options, pieces, hidden, self.cluster, opening)
        return {
            part: maps.treebank(sample, self.bars.add(f"{part}: {source.name}", sample.n_examples))
            for part, sample in samples.items()
        }


def _open_untrained(open_source: Callable[[], Any], seed: int) -> AttentionSource:
    return make_untrained(open_source(), seed)


def _open_treebank(treebank: CorporaLike) -> BaseCorpus:
    corpora = as_corpora(treebank, CorpusRole.TREEBANK)
    if len(corpora) != 1:
        raise StudyError(
            f"{len(corpora)} treebanks were given where probes take one. Expected one file or "
            "folder as --train and one as --test; put the files into one folder."
        )
    (corpus,) = corpora
    if Annotation.DEPENDENCIES not in corpus.provides:
        raise StudyError(
            f"{corpus.name} has no dependency trees. Expected a treebank with heads and relations, "
            "to learn from and to score on; give another file as --train or --test."
        )
    return corpus


def _describe(sample: Sample) -> dict[str, Any]:
    return {
        "corpus": sample.corpus.name,
        "path": sample.corpus.location,
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
