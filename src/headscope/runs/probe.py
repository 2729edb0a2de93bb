"""The whole of `headscope probe`: store attention, train every probe, score them, write tables."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from logging import getLogger
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

from headscope.contracts import AttentionSource, Corpus
from headscope.corpora.lines import file_digest, read_lines
from headscope.data.example import Example
from headscope.errors import StudyError
from headscope.models.loaded import LoadedModel
from headscope.models.null import randomize
from headscope.probes.single_head import count_found
from headscope.probes.suite import NULL_PREFIX, Note, Suite
from headscope.probes.tables import (
    Bootstrap,
    ProbeResult,
    curve_table,
    probe_table,
    relation_table,
    weight_table,
)
from headscope.probes.train import LEAST_SENTENCES, Checkpoint, NoCheckpoint, Plan, refuse_tiny
from headscope.probes.treebank import ProbeTreebank
from headscope.probes.vectors import WordVectors, read_vectors
from headscope.runs.given import as_corpus, as_source
from headscope.runs.probe_files import FileCheckpoint, show_training
from headscope.runs.probe_plan import (
    choose_probes,
    describe_probes,
    open_folder,
    warn_of_other_labels,
)
from headscope.runs.progress import show_progress
from headscope.runs.results import Run, RunFolder
from headscope.runs.sample import Sample, draw_sample
from headscope.runs.study import Options
from headscope.runs.word_maps import StoredMaps

__all__ = ["probe"]

log = getLogger("headscope")

TreebankLike = str | Path | Corpus | Sequence[Example]

CURVE = ("attention-only", "attention-and-words")
CURVE_PARTS = (64, 16, 4)  # the training set is divided by these


def probe(
    model: Any = "demo",
    *,
    train: TreebankLike,
    test: TreebankLike,
    vectors: str | Path | None = None,
    out: str | Path | None = None,
    store: str | Path | None = None,
    only: Collection[str] | None = None,
    sentences: int | None = None,
    epochs: int = 20,
    compat: bool = False,
    curve: bool = True,
    query_pieces: str = "mean",
    resume: bool = False,
    seed: int = 0,
    replicates: int = 200,
    batch_tokens: int = 2048,
    tokenizer: Any = None,
    revision: str | None = None,
    device: str = "auto",
    dtype: str = "float32",
    trust_remote_code: bool = False,
    progress: bool = True,
) -> Run:
    """How much syntax is in all heads together: train probes on one treebank, score on another.

    The attention between words is written to `store` once; another run over the same model and
    treebank finds it there. Without `vectors`, probes that read words are left out.
    """
    options = Options(sentences, seed, replicates, batch_tokens=batch_tokens)
    plan = Plan(epochs=epochs, seed=seed)
    folder = RunFolder(Path(out)) if out is not None else None
    if folder and not resume:
        folder.refuse_if_taken()
    corpora = {"train": as_corpus(train, "treebank"), "test": as_corpus(test, "treebank")}
    samples = {
        "train": draw_sample(_with_trees(corpora["train"]), sentences, seed),
        "test": draw_sample(_with_trees(corpora["test"]), None, seed),
    }
    refuse_tiny(samples["train"].n_examples)
    warn_of_other_labels(samples["train"], samples["test"])
    loading = {"revision": revision, "device": device, "dtype": dtype, "seed": seed}
    source = as_source(model, tokenizer, {**loading, "trust_remote_code": trust_remote_code})
    names, left_out = choose_probes(only, vectors is not None, isinstance(source, LoadedModel))
    manifest = describe_probes(source, samples, options, plan, names, left_out) | {
        "vectors": file_digest(Path(vectors)) if vectors else None,
        "compat": compat,
        "curve": curve,
        "query_pieces": query_pieces,
    }
    if folder:
        open_folder(folder, manifest, resume)
    with _store_folder(store, folder) as place:
        work = _Work(source, place, samples, options, plan, folder, query_pieces, compat, progress)
        vectors_path = Path(vectors) if vectors else None
        return work.run(names, vectors_path, curve, manifest)


@dataclass(frozen=True)
class _Work:
    """Everything that training and scoring need, in hand."""

    source: AttentionSource
    store: Path
    samples: Mapping[str, Sample]
    options: Options
    plan: Plan
    folder: RunFolder | None
    query_pieces: str
    compat: bool
    has_progress: bool

    def run(
        self, names: Sequence[str], vectors: Path | None, curve: bool, manifest: dict[str, Any]
    ) -> Run:
        treebanks = self._treebanks(self.source)
        found = self._read_vectors(vectors, treebanks)
        with show_training(self.has_progress) as note:
            suite = self._suite(treebanks, found, note)
            results, suites = self._run_probes(names, suite)
            sizes = _curve_sizes(len(suite.train)) if curve else []
            steps = [
                (name, suite.of_size(n).run(name)) for name in CURVE if name in names for n in sizes
            ]
        steps += [(name, results[name]) for name in CURVE if name in results]
        tables = self._tables(suites, results, steps)
        final = manifest | {
            "status": "complete",
            "tables": list(tables),
            "counts": {role: dict(t.maps.index.account) for role, t in treebanks.items()},
            "coverage": _coverage(found, treebanks),
        }
        if self.folder:
            for name, table in tables.items():
                self.folder.write_table(name, table)
            self.folder.write_manifest(final)
        return Run(tables, final, self.folder.path if self.folder else None)

    def _treebanks(self, source: AttentionSource) -> dict[str, ProbeTreebank]:
        maps = StoredMaps(source, self.store, self.options, self.query_pieces)
        totals = {f"{role}: {source.name}": s.n_examples for role, s in self.samples.items()}
        with show_progress(totals, self.has_progress) as bars:
            return {
                role: maps.treebank(sample, bar)
                for (role, sample), bar in zip(self.samples.items(), bars.values(), strict=True)
            }

    def _read_vectors(
        self, path: Path | None, treebanks: Mapping[str, ProbeTreebank]
    ) -> WordVectors | None:
        if path is None:
            return None
        words = {w for t in treebanks.values() for s in t.sentences for w in s.words}
        vectors = read_vectors(path, read_lines(path), words)
        for role, share in _coverage(vectors, treebanks).items():
            log.info("%s: %.1f %% of the words of %s have a vector", path, 100 * share, role)
        return vectors

    def _suite(
        self, treebanks: Mapping[str, ProbeTreebank], vectors: WordVectors | None, note: Note
    ) -> Suite:
        return Suite(
            train=treebanks["train"],
            test=treebanks["test"],
            vectors=vectors,
            plan=self.plan,
            checkpoint=self._checkpoint,
            note=note,
            compat=self.compat,
        )

    def _checkpoint(self, name: str) -> Checkpoint:
        if self.folder is None:
            return NoCheckpoint()
        return FileCheckpoint(self.folder.path / "checkpoints" / f"{name}.safetensors")

    def _run_probes(
        self, names: Sequence[str], suite: Suite
    ) -> tuple[dict[str, ProbeResult], list[Suite]]:
        """The result of each probe in the order of names, and the suites that they belong to."""
        suites = {"": suite}
        if any(name.startswith(NULL_PREFIX) for name in names):
            assert isinstance(self.source, LoadedModel)  # else these names are left out
            null = self._treebanks(randomize(self.source, self.options.seed))
            suites[NULL_PREFIX] = suite.over(null["train"], null["test"], NULL_PREFIX)
        results = {}
        for name in names:
            prefix = NULL_PREFIX if name.startswith(NULL_PREFIX) else ""
            results[name] = suites[prefix].run(name.removeprefix(prefix))
        return results, list(suites.values())

    def _tables(
        self,
        suites: Sequence[Suite],
        results: Mapping[str, ProbeResult],
        steps: Sequence[tuple[str, ProbeResult]],
    ) -> dict[str, pd.DataFrame]:
        bootstrap = Bootstrap(self.options.seed, self.options.replicates)
        suite = suites[0]
        fitted = {name: probe for one in suites for name, probe in one.fitted.items()}
        counts = suite.head_counts, count_found(suite.test)
        return {
            "probes": probe_table(results, bootstrap),
            "probe-weights": weight_table(fitted, self.source.n_layers),
            "probe-relations": relation_table(results, *counts, self.source.n_heads, bootstrap),
            "probe-curve": curve_table(steps, bootstrap),
        }


def _with_trees(corpus: Corpus) -> Corpus:
    if "dependencies" not in corpus.provides:
        raise StudyError(
            f"{corpus.name} has no dependency trees. Expected a treebank with heads and relations, "
            "to learn from and to score on; give another file as --train or --test."
        )
    return corpus


def _curve_sizes(n_sentences: int) -> list[int]:
    """The training sizes of a learning curve below the whole."""
    sizes = [n_sentences // part for part in CURVE_PARTS]
    return [size for size in sizes if size >= LEAST_SENTENCES]


def _coverage(
    vectors: WordVectors | None, treebanks: Mapping[str, ProbeTreebank]
) -> dict[str, float]:
    if vectors is None:
        return {}
    return {
        role: vectors.coverage([word for s in treebank.sentences for word in s.words])
        for role, treebank in treebanks.items()
    }


@contextmanager
def _store_folder(store: str | Path | None, folder: RunFolder | None) -> Iterator[Path]:
    """Where maps are kept: as given, else beside the run; without a run, until it is over."""
    if store is not None:
        yield Path(store)
    elif folder is not None:
        yield folder.path.parent / "stores"
    else:
        with TemporaryDirectory() as name:
            yield Path(name)
