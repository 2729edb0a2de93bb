"""The whole of `headscope analyze`: plan, measure shard by shard, write the tables."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from headscope.arguments import checked
from headscope.contracts import Analysis, CorpusRole, Watch
from headscope.corpora.collection import with_blocks
from headscope.corpora.opening import CorporaLike, as_corpora
from headscope.data.table import split_kinds
from headscope.engine.checkpoint import Checkpoint, SavedSums, StateFile
from headscope.engine.cluster import Pool, find_ray, measure_on_cluster, open_pool
from headscope.engine.examples import gather_examples, write_examples
from headscope.engine.finish import finish_run
from headscope.engine.head_views import refuse_absent_heads
from headscope.engine.measure import Progress, Result
from headscope.engine.needs import tell_needs
from headscope.engine.open_models import Models, open_models
from headscope.engine.parts import (
    SHARDS,
    check_part,
    finish_part,
    refuse_lacking,
)
from headscope.engine.plan import (
    Pass,
    describe_study,
    fit_windows,
    leave_out_lone_layers,
    leave_out_many_heads,
    plan_kinds,
    plan_passes,
    plan_untrained,
    refuse_single_model,
    say_skipped,
    tell_left_out,
)
from headscope.engine.progress import Bars, show_progress
from headscope.engine.resolve import (
    choose_analyses,
    read_names,
    split_options,
    tell_limits,
    tell_long_documents,
)
from headscope.engine.sample import Part, Shard, draw_sample, refuse_unused
from headscope.engine.work import PassWork, ShardWork, StudyRecipe, heads_of
from headscope.errors import ModelError, StudyError
from headscope.models.ablation import mean_outputs
from headscope.models.loaded import LoadedModel, refuse_offloaded
from headscope.runs.folder import RunFolder
from headscope.runs.run import Run
from headscope.runs.tables import tally_name

__all__ = ["analyze"]


@checked
def analyze(
    model: Any = "demo",
    *,
    tokenizer: Any = None,
    text: CorporaLike | None = None,
    treebank: CorporaLike | None = None,
    coref: CorporaLike | None = None,
    out: str | Path | None = None,
    only: str | Analysis | Iterable[str | Analysis] | None = None,
    also: str | Analysis | Iterable[str | Analysis] = (),
    resume: bool = False,
    progress: bool = True,
    **options: Any,
) -> Run:
    """Measure what a model's heads attend to in the given data.

    `model` is a hub name, a folder, "demo", or a transformers model in memory with its `tokenizer`;
    a corpus is a path or several, a registered name, or `headscope.texts([...])`. Without `out`
    nothing is written. `options` are those of the run (`headscope.options.RunOptions`), of the
    model (`ModelOptions`) and of the analyses; `headscope analyze --help` lists them all.

    >>> import headscope
    >>> texts = headscope.texts(["A small text.", "Another one."])
    >>> run = headscope.analyze("demo", text=texts, progress=False)
    >>> run.tables["entropy"].columns.tolist()  # doctest: +ELLIPSIS
    ['layer', 'head', 'rows', 'nats', 'low', 'high', 'uniform', 'share', ...]
    """
    run, loading, cluster, of_analyses = split_options(options)
    if run.shard is not None:
        Part.parse(run.shard)  # says what is wrong with it
    if cluster.ray is not None:
        find_ray(cluster)  # before the model is loaded
    folder = RunFolder(Path(out)) if out is not None else None
    chosen = read_names(only)
    is_explicit = chosen is not None
    analyses = choose_analyses(chosen, read_names(also) or (), of_analyses, run.seed)
    given = {CorpusRole.TEXT: text, CorpusRole.TREEBANK: treebank, CorpusRole.COREF: coref}
    corpora = [
        (role, with_blocks(corpus, run.block_sentences))
        for role, items in given.items()
        if items is not None
        for corpus in as_corpora(items, role, run.skip_bad)
    ]
    if folder and not resume:  # what was typed is checked first: a wrong name is the likelier slip
        folder.refuse_if_taken()
    passes, left_out = plan_passes(analyses, corpora, is_explicit, run.max_tokens, run.coref_window)
    drawn = {id(p.corpus): (p.corpus, p.role, *run.limit_of(p.role)) for p in passes}
    indexes = folder.path.parent / ".indexes" if folder else None  # no part or run: `merge parts/*`
    with show_progress(progress) as bars, bars.stage("reading corpora"):
        samples_of = {
            key: draw_sample(corpus, limit, run.seed, indexes)
            for key, (corpus, _, limit, _) in drawn.items()
        }
    samples = {p.key: samples_of[id(p.corpus)] for p in passes}
    tell_limits(
        (samples_of[key], role, limit, flag) for key, (_, role, limit, flag) in drawn.items()
    )
    if run.weigh == "segments":
        tell_long_documents(samples_of.values())
    with show_progress(progress) as bars, bars.stage("loading the model"):
        models = open_models(model, tokenizer, loading, run, [p.watch for p in passes])
    refuse_single_model(passes, models.source)
    passes, lone = leave_out_lone_layers(passes, models.source, is_explicit)
    passes, impossible = _leave_out_impossible(fit_windows(passes, models.source), models)
    passes, no_decoder = plan_kinds(passes, models, is_explicit)
    if not models.has_decoder:  # what is across is no concern of other models
        across = [a.name for a in analyses if a.watches is Watch.CROSS_ATTENTION]
        left_out = {name: why for name, why in left_out.items() if name not in across}
    left_out |= lone | impossible | no_decoder | leave_out_many_heads(passes, models.source)
    tell_left_out(left_out)
    untrained = plan_untrained(passes, run.null) if run.null else []
    studied = [*passes, *untrained]
    whole = models.whole if any(pass_.by_kind for pass_ in passes) else None
    manifest = describe_study(whole or models.source, studied, samples, run, left_out)
    work = ShardWork(models, samples, run)
    if run.shard is not None:
        manifest[SHARDS] = {pass_.key: len(work.shards(pass_)) for pass_ in studied}
    recipe = None
    if cluster.ray is not None:
        watches = tuple(pass_.watch for pass_ in passes)
        recipe = StudyRecipe(cluster, model, tokenizer, loading, run, watches, samples)
    return _Study(work, studied, manifest, folder, recipe).run(resume, progress)


def _leave_out_impossible(
    passes: Sequence[Pass], models: Models
) -> tuple[list[Pass], dict[str, str]]:
    """The passes without those that this model cannot do, and why.

    A run that has nothing else to do is refused.
    """
    reasons = {pass_.key: _why_impossible(pass_, models) for pass_ in passes}
    kept = [pass_ for pass_ in passes if not reasons[pass_.key]]
    if passes and not kept:
        raise StudyError(reasons[passes[0].key])
    left_out = [pass_ for pass_ in passes if pass_ not in kept]
    return kept, {a.name: say_skipped(a.name, reasons[p.key]) for p in left_out for a in p.analyses}


def _why_impossible(pass_: Pass, models: Models) -> str:
    """Why gradients cannot be taken, or heads altered; changes can be seen in hidden states too."""
    if not pass_.watch.is_costly:
        return ""
    if pass_.watch is Watch.GRADIENT and not models.with_head:
        return models.why_no_head
    model = models.with_head or models.source
    if not isinstance(model, LoadedModel):
        raise StudyError(
            f"The heads of {model.name} cannot be altered: it is not a transformers model. "
            "Expected one; leave the analysis out."
        )
    return model.explain_fixed()


@dataclass(frozen=True)
class _Study:
    """A checked plan with everything it needs in hand."""

    work: ShardWork
    passes: Sequence[Pass]
    manifest: dict[str, Any]
    folder: RunFolder | None
    recipe: StudyRecipe | None = None  # what makes workers of a cluster, if one is to be used
    _results: dict[str, Checkpoint] = field(default_factory=dict)

    def run(self, resume: bool, has_progress: bool) -> Run:
        self._check()
        begun = self.folder.begin(self.manifest, resume) if self.folder else nullcontext()
        with begun, show_progress(has_progress) as bars, self._open_cluster() as pool:
            failed = [f for pass_ in self.passes for f in self._run_pass(pass_, bars, pool)]
            analyses = {a.name: a for p in self.passes for a in p.analyses}
            if failed and not any(done.shards for done in self._results.values()):
                raise ModelError(
                    f"No shard could be measured: {failed[0]['reason']} Expected at least one; see "
                    f"the workers' messages above, or try without --ray."
                )
            if self.work.options.shard is not None:
                refuse_lacking(self.folder, failed)
                return finish_part(self.folder, self.manifest, self._results)
            for pass_ in self.passes:
                refuse_unused(pass_.corpus.name, self._results[pass_.key].result.counts)
            with bars.stage("tables and map of heads"):
                run = finish_run(self.folder, self.manifest, analyses, self._results, failed)
            shown = list(self._gather(run, bars)) if self.work.options.examples else []
        if self.folder:
            write_examples(self.folder.path, shown)
        return replace(run, examples=shown)

    def _check(self) -> None:
        """Say what cannot be done before any work."""
        models = self.work.models
        for pass_ in self.passes:
            across: list[Any] = [a for a in pass_.analyses if a.compares_layers]
            n_rows = max((int(analysis.rows) for analysis in across), default=0)
            if not pass_.repeats:
                tokens = self.work.tokens(pass_)
                tell_needs(models.source, tokens, self.work.options.slice_rows, n_rows)
            if pass_.watch is Watch.GRADIENT and models.with_head:
                refuse_offloaded(models.with_head, "gradients cannot flow through it")
            if pass_.watch is Watch.CHANGE:
                refuse_absent_heads(models.source, heads_of(pass_) or ())
            if pass_.draw == 1:
                self.work.make_untrained(pass_.draw)
        if self.work.options.shard is not None:
            check_part(self.work, self.passes, self.folder)

    def _open_cluster(self) -> Any:
        if self.recipe is None:
            return nullcontext()
        return open_pool(self.recipe.options, self.recipe, self.recipe.facts(self.work))

    def _run_pass(self, pass_: Pass, bars: Bars, pool: Pool | None) -> Iterator[dict[str, Any]]:
        """Measure what is not yet measured; gives what the manifest says of what could not be."""
        work = PassWork(pass_, pass_.by_kind or pass_.analyses, self._means(pass_, bars))
        shards = self.work.own_shards(pass_)
        progress = bars.add(pass_.key, sum(map(len, shards)), pass_.role.unit)
        saved = SavedSums(self.folder.tally_path(pass_.key) if self.folder else None)
        progress(sum(len(shard) for shard in shards if shard.number in saved.shards))
        missing = [shard for shard in shards if shard.number not in saved.shards]
        measure = self._measure_here if pool is None else partial(measure_on_cluster, pool)
        with saved:
            for measured, result in measure(work, missing, progress):
                if isinstance(result, Result):
                    saved.add([shard.number for shard in measured], result)
                else:
                    for shard in measured:
                        yield self.work.describe_failure(pass_, shard, result)
        self._results[pass_.key] = saved.checkpoint

    def _measure_here(
        self, work: PassWork, shards: Sequence[Shard], progress: Progress
    ) -> Iterator[tuple[Sequence[Shard], Result]]:
        for shard in shards:
            yield [shard], self.work.measure(work, [shard], progress)

    def _means(self, pass_: Pass, bars: Bars) -> Any:
        """The mean outputs of heads to alter: a pass of its own over all examples, kept."""
        if pass_.watch is not Watch.CHANGE:
            return None
        model = self.work.outcome().source
        key = f"{pass_.key}-means"
        file = StateFile(self.folder.tally_path(key)) if self.folder else None
        saved = file.load() if file else None
        if saved is not None:
            return saved[0]["means"].to(model.device)
        advance = bars.add(key, self.work.sample(pass_).n_examples)
        means = mean_outputs(model, self.work.batches(pass_, model), progress=advance)
        if file:
            file.save({"means": means}, {})
        return means

    def _gather(self, run: Run, bars: Bars) -> Iterator[Any]:
        """The examples that show notable heads; not once more in longer windows."""
        read: set[int] = set()
        parts = split_kinds(run.tables)
        for pass_ in self.passes:
            is_first = pass_.repeats is None and pass_.watch is Watch.ATTENTION
            if is_first and id(pass_.corpus) not in read:
                read.add(id(pass_.corpus))
                rankings = self._results[pass_.key].result.rankings
                sample, tokens = self.work.sample(pass_), self.work.tokens(pass_)
                start_bar = partial(bars.add, f"{pass_.key} (examples)")
                for kind, analyses in pass_.by_kind.items() or [(None, pass_.analyses)]:
                    source, tables = self.work.models.take(kind), parts.get(kind or "", run.tables)
                    names = {a.name: tally_name(kind, a.name) if kind else a.name for a in analyses}
                    own = {a: rankings[name] for a, name in names.items() if name in rankings}
                    yield from gather_examples(
                        source, pass_, analyses, sample, tokens, own, tables, start_bar
                    )
