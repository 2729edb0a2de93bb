"""The whole of `headscope analyze`: plan, measure shard by shard, write the tables."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from logging import getLogger
from pathlib import Path
from typing import Any

from headscope.analyses.dependency_tables import best_heads
from headscope.contracts import Analysis, AttentionSource
from headscope.data.encoding import Batch
from headscope.data.example import Example
from headscope.errors import StudyError
from headscope.models.batching import equal_length_batches
from headscope.models.loaded import LoadedModel
from headscope.models.null import randomize
from headscope.runs.checkpoints import Checkpoint
from headscope.runs.engine import Progress, Result, measure_examples
from headscope.runs.examples import Shown, gather_examples, write_examples
from headscope.runs.given import (
    CorporaLike,
    CorpusLike,
    as_source,
    choose_analyses,
    open_corpora,
    open_watched,
    read_heads,
    refuse_idle_heads,
    tell_short_corpora,
    watch,
    weigh,
)
from headscope.runs.manifest import describe_run, refuse_other_study
from headscope.runs.progress import show_progress
from headscope.runs.results import Run, RunFolder, finish_run
from headscope.runs.sample import Sample, draw_sample
from headscope.runs.study import (
    Options,
    Pass,
    fit_windows,
    leave_out_lone_heads,
    plan_passes,
    plan_repeats,
)

__all__ = ["analyze"]

log = getLogger("headscope")


def analyze(
    model: Any = "demo",
    *,
    tokenizer: Any = None,
    text: CorpusLike | None = None,
    treebank: CorporaLike | None = None,
    coref: CorporaLike | None = None,
    out: str | Path | None = None,
    only: Collection[str | Analysis] | None = None,
    also: Collection[str | Analysis] = (),
    token_classes: Mapping[str, Collection[str]] | None = None,
    coarse: bool = False,
    query_pieces: str = "mean",
    weights: str = "attention",
    heads: str | None = None,
    rows: int = 128,
    null: bool = False,
    combine: bool = False,
    singletons: bool = False,
    skip_bad: bool = False,
    examples: bool = True,
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
    a corpus is a path, a registered name, or a list of texts; several treebanks and coreference
    corpora may be listed. Without `out` nothing is written. With `examples` the sentences where
    notable heads do best and worst are read and seen once more.

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
        "gradient": {"classes": token_classes or {}},
        "ablation": {"heads": read_heads(heads)},
        "distance": {"rows": rows},
        "dependency": {"coarse": coarse, "query_pieces": query_pieces},
        "trees": {"query_pieces": query_pieces},
        "coreference": {"singletons": singletons, "query_pieces": query_pieces},
        "gap": {"query_pieces": query_pieces},
    }
    analyses = choose_analyses(only, also, analysis_options)
    refuse_idle_heads(heads, analyses)
    corpora = open_corpora({"text": text, "treebank": treebank, "coref": coref}, skip_bad)
    passes, left_out = plan_passes(analyses, corpora, only is not None, max_tokens)
    for reason in left_out.values():
        log.info("Left out: %s", reason)
    repeats = plan_repeats(passes, "null") if null else []
    repeats += plan_repeats(passes, "combined") if combine else []
    read = {id(one.corpus): one.corpus for one in passes}
    drawn = {key: draw_sample(corpus, limit, seed) for key, corpus in read.items()}
    samples = {one.key: drawn[id(one.corpus)] for one in passes}
    tell_short_corpora(drawn.values(), limit)
    loading = {"revision": revision, "device": device, "dtype": dtype, "seed": seed}
    loading["trust_remote_code"] = trust_remote_code
    source = weigh(as_source(model, tokenizer, loading), weights)
    passes, lone = leave_out_lone_heads(passes, source, is_explicit=only is not None)
    left_out |= lone
    passes = fit_windows(passes, source)
    watched = open_watched(passes, model, source, loading, left_out)
    passes = [one for one in passes if one.variant is None or one.variant in watched]
    manifest = describe_run(source, [*passes, *repeats], samples, options, left_out)
    studied = [*passes, *repeats]
    study = _Study(source, watched, studied, samples, options, manifest, folder, examples)
    return study.run(resume, progress)


@dataclass(frozen=True)
class _Study:
    """A checked plan with everything it needs in hand."""

    source: AttentionSource
    watched: Mapping[str, LoadedModel]  # the same model, for what costs more than attention
    passes: Sequence[Pass]
    samples: Mapping[str, Sample]
    options: Options
    manifest: dict[str, Any]
    folder: RunFolder | None
    has_examples: bool = True
    _sources: dict[str, AttentionSource] = field(default_factory=dict)

    def run(self, resume: bool, has_progress: bool) -> Run:
        for one in self.passes:  # say what cannot be done before any work
            self.options.tokens_for(one.role, self.source, one.window)
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
        run = finish_run(self.folder, self.manifest, by_name, checkpoints)
        shown = []
        for place, one in enumerate(self.passes):
            shown += self._gather(one, self.passes[:place], checkpoints[one.key], run)
        if self.folder:
            write_examples(self.folder.path, shown)
        return replace(run, examples=shown)

    def _gather(
        self, one: Pass, before: Sequence[Pass], checkpoint: Checkpoint, run: Run
    ) -> list[Shown]:
        """The examples of a pass that show its notable heads; not once more in longer windows."""
        is_longer = any(o.corpus is one.corpus and o.variant is None for o in before)
        if one.variant is not None or not self.has_examples or is_longer:
            return []
        max_tokens = self.options.tokens_for(one.role, self.source, one.window)
        rankings = checkpoint.result.rankings
        sample = self._sample(one)
        return gather_examples(self.source, one, sample, max_tokens, rankings, run.tables)

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
        if one.variant in self.watched:
            return self._watch(one)
        return self.null_source if one.variant == "null" else self.source

    def _watch(self, one: Pass) -> AttentionSource:
        """The model as a pass watches it, made once."""
        assert one.variant is not None
        model = self.watched[one.variant]
        if one.key in self._sources:
            return self._sources[one.key]

        def batches() -> Iterator[Batch]:
            max_tokens = self.options.tokens_for(one.role, model, one.window)
            for shard in self._shards(one):
                encodings = model.encode(shard, max_tokens)
                for members in equal_length_batches(encodings, self.options.batch_tokens):
                    yield model.batch(members)

        source = watch(one, model, batches, self.options.seed)
        self._sources[one.key] = source
        return source

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
        source, options = self._source_of(one), self.options
        if one.variant == "ablation":  # copies of one example fill a batch, and the bar moves on
            options = replace(options, batch_tokens=1)
        checkpoint = self.folder.load_checkpoint(one.key) if self.folder else Checkpoint()
        for shard, examples in enumerate(self._shards(one)):
            if shard in checkpoint.shards:
                progress(len(examples))
                continue
            checkpoint = checkpoint.with_shard(  # which alone keeps the totals of past shards
                shard,
                measure_examples(
                    examples, source, analyses, options, one.role, progress, one.window
                ),
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
