"""The whole of `headscope analyze`: plan, measure shard by shard, write the tables."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from logging import getLogger
from pathlib import Path
from typing import Any

from headscope.analyses.dependency_tables import best_heads
from headscope.contracts import Analysis, AttentionSource, Corpus
from headscope.corpora.memory import MemoryCorpus
from headscope.corpora.opening import open_corpus
from headscope.data.example import Example
from headscope.errors import StudyError
from headscope.models.load import load_model
from headscope.models.loaded import LoadedModel, wrap_model
from headscope.models.null import randomize
from headscope.registry import ANALYSES
from headscope.runs.engine import Progress, Result, measure_examples
from headscope.runs.manifest import describe_run, refuse_other_study
from headscope.runs.progress import show_progress
from headscope.runs.results import Checkpoint, Run, RunFolder, finish_run
from headscope.runs.sample import Sample, draw_sample
from headscope.runs.study import Options, Pass, build_analysis, plan_passes, plan_repeats

__all__ = ["analyze", "as_corpus", "as_source"]

log = getLogger("headscope")

CorpusLike = str | Path | Corpus | Sequence[str | Example]
TreebankLike = str | Path | Corpus | Sequence[str | Path | Corpus | Example]


def analyze(
    model: Any = "demo",
    *,
    tokenizer: Any = None,
    text: CorpusLike | None = None,
    treebank: TreebankLike | None = None,
    out: str | Path | None = None,
    only: Collection[str | Analysis] | None = None,
    token_classes: Mapping[str, Collection[str]] | None = None,
    coarse: bool = False,
    query_pieces: str = "mean",
    null: bool = False,
    combine: bool = False,
    resume: bool = False,
    limit: int | None = None,
    seed: int = 0,
    replicates: int = 200,
    max_tokens: int | None = None,
    batch_tokens: int = 2048,
    shard_examples: int = 1024,
    revision: str | None = None,
    device: str = "auto",
    dtype: str = "float32",
    trust_remote_code: bool = False,
    progress: bool = True,
) -> Run:
    """Measure what a model's heads attend to, on all the data that is given.

    `model` is a hub name, a folder, "demo", or a transformers model in memory with its `tokenizer`;
    a corpus is a path, a registered name, or a list of texts; several treebanks may be listed.
    Without `out` nothing is written.

    >>> import headscope
    >>> run = headscope.analyze("demo", text=["A small text.", "Another one."], progress=False)
    >>> run.tables["entropy"].columns.tolist()
    ['layer', 'head', 'rows', 'nats', 'low', 'high', 'uniform']
    """
    options = Options(limit, seed, replicates, max_tokens, batch_tokens, shard_examples)
    folder = RunFolder(Path(out)) if out is not None else None
    if folder and not resume:
        folder.refuse_if_taken()
    analysis_options: dict[str, dict[str, Any]] = {
        "special-tokens": {"classes": token_classes or {}},
        "dependency": {"coarse": coarse, "query_pieces": query_pieces},
        "trees": {"query_pieces": query_pieces},
    }
    analyses = _choose_analyses(only, analysis_options)
    corpora = _open_corpora(text, treebank)
    passes, left_out = plan_passes(analyses, corpora, is_explicit=only is not None)
    for reason in left_out.values():
        log.info("Left out: %s", reason)
    repeats = plan_repeats(passes, "null") if null else []
    repeats += plan_repeats(passes, "combined") if combine else []
    samples = {one.key: draw_sample(one.corpus, limit, seed) for one in passes}
    loading = {"revision": revision, "device": device, "dtype": dtype, "seed": seed}
    source = as_source(model, tokenizer, {**loading, "trust_remote_code": trust_remote_code})
    manifest = describe_run(source, [*passes, *repeats], samples, options, left_out)
    study = _Study(source, [*passes, *repeats], samples, options, manifest, folder)
    return study.run(resume, progress)


@dataclass(frozen=True)
class _Study:
    """A checked plan with everything it needs in hand."""

    source: AttentionSource
    passes: Sequence[Pass]
    samples: Mapping[str, Sample]
    options: Options
    manifest: dict[str, Any]
    folder: RunFolder | None

    def run(self, resume: bool, has_progress: bool) -> Run:
        for one in self.passes:  # say what cannot be done before any work
            self.options.tokens_for(one.role, self.source)
            self._source_of(one)
        if self.folder:
            self._open_folder(self.folder, resume)
        totals = {one.key: self._sample(one).n_examples for one in self.passes}
        checkpoints: dict[str, Checkpoint] = {}
        with show_progress(totals, has_progress) as bars:
            for one in self.passes:
                before = checkpoints[one.repeats].result if one.repeats else None
                analyses = _choose_heads(one, before) if before else one.analyses
                checkpoints[one.key] = self._run_pass(one, analyses, bars[one.key])
        by_name = {a.name: a for one in self.passes for a in one.analyses}
        return finish_run(self.folder, self.manifest, by_name, checkpoints)

    @cached_property
    def null_source(self) -> AttentionSource:
        """The same model without its training."""
        if not isinstance(self.source, LoadedModel):
            raise StudyError(
                f"--null cannot be used with {self.source.name}: it is no transformers model. "
                "Expected a model that can be initialised anew; leave --null out."
            )
        return randomize(self.source, self.options.seed)

    def _source_of(self, one: Pass) -> AttentionSource:
        return self.null_source if one.variant == "null" else self.source

    def _sample(self, one: Pass) -> Sample:
        return self.samples[one.repeats or one.key]

    def _open_folder(self, folder: RunFolder, resume: bool) -> None:
        if resume and (folder.path / "manifest.json").exists():
            refuse_other_study(folder.path, folder.read_manifest(), self.manifest)
        else:
            folder.refuse_if_taken()
            folder.create()
            folder.write_manifest({**self.manifest, "status": "running"})

    def _run_pass(self, one: Pass, analyses: Sequence[Analysis], progress: Progress) -> Checkpoint:
        source = self._source_of(one)
        checkpoint = self.folder.load_checkpoint(one.key) if self.folder else Checkpoint()
        for shard, examples in enumerate(self._shards(one)):
            if shard in checkpoint.shards:
                progress(len(examples))
                continue
            checkpoint = checkpoint.with_shard(  # which alone keeps the totals of past shards
                shard,
                measure_examples(examples, source, analyses, self.options, one.role, progress),
            )
            if self.folder:
                self.folder.save_checkpoint(one.key, checkpoint)
        return checkpoint

    def _shards(self, one: Pass) -> Iterator[list[Example]]:
        examples = iter(self._sample(one))
        while shard := list(islice(examples, self.options.shard_examples)):
            yield shard


def _choose_heads(one: Pass, before: Result) -> list[Analysis]:
    """The analyses of a repeated pass; trees get the heads that the first pass found best."""
    if one.variant != "combined":
        return list(one.analyses)
    heads = best_heads(before.tallies["dependency"])
    return [replace(trees, combine=heads) for trees in one.analyses]  # type: ignore[type-var]


def _choose_analyses(
    only: Collection[str | Analysis] | None, options: Mapping[str, Mapping[str, Any]]
) -> list[Analysis]:
    names = list(ANALYSES.entries()) if only is None else list(only)
    return [build_analysis(n, options.get(n)) if isinstance(n, str) else n for n in names]


def _open_corpora(
    text: CorpusLike | None, treebank: TreebankLike | None
) -> list[tuple[str, Corpus]]:
    """The corpora with their roles; a list of treebanks is several, a list of examples is one."""
    corpora: list[tuple[str, Corpus]] = []
    if text is not None:
        corpora.append(("text", as_corpus(text, "text")))
    if isinstance(treebank, Sequence) and not isinstance(treebank, str):
        if all(isinstance(item, Example) for item in treebank):
            corpora.append(("treebank", MemoryCorpus(treebank)))  # type: ignore[arg-type]
        else:
            corpora += [("treebank", as_corpus(item, "treebank")) for item in treebank]  # type: ignore[arg-type]
    elif treebank is not None:
        corpora.append(("treebank", as_corpus(treebank, "treebank")))
    return corpora


def as_corpus(corpus: CorpusLike, role: str) -> Corpus:
    if isinstance(corpus, (str, Path)):
        return open_corpus(corpus, role)
    return MemoryCorpus(corpus) if isinstance(corpus, Sequence) else corpus


def as_source(model: Any, tokenizer: Any, loading: Mapping[str, Any]) -> AttentionSource:
    if isinstance(model, (str, Path)):
        return load_model(model, **loading)
    if hasattr(model, "attend"):
        source: AttentionSource = model
        return source
    return wrap_model(model, tokenizer)
