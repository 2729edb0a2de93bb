"""The whole of `headscope analyze`: plan, measure shard by shard, write the tables."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from headscope.contracts import (
    Analysis,
    Annotation,
    AttentionKind,
    AttentionSource,
    CorpusRole,
    Source,
    Watch,
)
from headscope.corpora.opening import CorporaLike, as_corpora
from headscope.data.encoding import Batch
from headscope.data.example import Example
from headscope.data.table import split_kinds
from headscope.engine.checkpoint import Checkpoint, StateFile, read_checkpoint, write_checkpoint
from headscope.engine.examples import gather_examples, write_examples
from headscope.engine.finish import finish_run
from headscope.engine.head_views import refuse_absent_heads
from headscope.engine.measure import measure_examples
from headscope.engine.open_models import Models, open_models
from headscope.engine.plan import (
    Pass,
    describe_study,
    fit_windows,
    leave_out_lone_layers,
    leave_out_many_heads,
    plan_kinds,
    plan_passes,
    plan_second_readings,
    plan_untrained,
    refuse_single_model,
    tell_left_out,
    tokens_for,
)
from headscope.engine.progress import Bars, show_progress
from headscope.engine.resolve import (
    choose_analyses,
    read_names,
    split_options,
    tell_limits,
)
from headscope.engine.sample import Sample, draw_sample
from headscope.errors import StudyError
from headscope.models.ablation import AblationSource, mean_outputs
from headscope.models.encode import equal_length_batches
from headscope.models.gradients import GradientSource
from headscope.models.language import HiddenStateOutcome, LossOutcome, Outcome, build_task
from headscope.models.loaded import LoadedModel, refuse_offloaded
from headscope.models.untrained import make_untrained
from headscope.options import RunOptions
from headscope.runs.folder import RunFolder
from headscope.runs.run import Run
from headscope.runs.tables import Repeat, tally_name

UNITS = {CorpusRole.TREEBANK: "sentences", CorpusRole.COREF: "documents"}

__all__ = ["analyze"]


def analyze(
    model: Any = "demo",
    *,
    tokenizer: Any = None,
    text: CorporaLike | None = None,
    treebank: CorporaLike | None = None,
    coref: CorporaLike | None = None,
    out: str | Path | None = None,
    only: str | Collection[str | Analysis] | None = None,
    also: str | Collection[str | Analysis] = (),
    resume: bool = False,
    progress: bool = True,
    **options: Any,
) -> Run:
    """Measure what a model's heads attend to, on all the data that is given.

    `model` is a hub name, a folder, "demo", or a transformers model in memory with its `tokenizer`;
    a corpus is a path or several, a registered name, or `headscope.texts([...])`. Without `out`
    nothing is written. `options` are those of the run (`headscope.options.RunOptions`), of the
    model (`ModelOptions`) and of the analyses; `headscope analyze --help` lists them all.

    >>> import headscope
    >>> texts = headscope.texts(["A small text.", "Another one."])
    >>> run = headscope.analyze("demo", text=texts, progress=False)
    >>> run.tables["entropy"].columns.tolist()  # doctest: +ELLIPSIS
    ['layer', 'head', 'rows', 'nats', 'low', 'high', 'effective', 'uniform', 'share', ...]
    """
    run, loading, of_analyses = split_options(options)
    folder = RunFolder(Path(out)) if out is not None else None
    if folder and not resume:
        folder.refuse_if_taken()
    chosen = read_names(only)
    is_explicit = chosen is not None
    analyses = choose_analyses(chosen, read_names(also) or (), of_analyses, run.seed)
    given = {CorpusRole.TEXT: text, CorpusRole.TREEBANK: treebank, CorpusRole.COREF: coref}
    corpora = [
        (role, corpus)
        for role, items in given.items()
        if items is not None
        for corpus in as_corpora(items, role, run.skip_bad)
    ]
    passes, left_out = plan_passes(analyses, corpora, is_explicit, run.max_tokens, run.coref_window)
    repeats = plan_untrained(passes, run.null) if run.null else []
    repeats += plan_second_readings(passes)
    drawn = {id(p.corpus): (p.corpus, run.limit_of(p.role)) for p in passes}
    samples_of = {
        key: draw_sample(corpus, limit, run.seed) for key, (corpus, (limit, _)) in drawn.items()
    }
    samples = {p.key: samples_of[id(p.corpus)] for p in passes}
    tell_limits([(samples_of[key], *limit) for key, (_, limit) in drawn.items()])
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
    studied = [*passes, *repeats]
    whole = models.whole if any(pass_.by_kind for pass_ in passes) else None
    manifest = describe_study(whole or models.source, studied, samples, run, left_out)
    return _Study(models, studied, samples, run, manifest, folder).run(resume, progress)


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
    return kept, {a.name: reasons[p.key] for p in left_out for a in p.analyses}


def _why_impossible(pass_: Pass, models: Models) -> str:
    """Why gradients cannot be taken, or heads altered; changes can be seen in hidden states too."""
    if not pass_.watch.is_costly:
        return ""
    if pass_.watch is Watch.GRADIENT and not models.with_head:
        return models.why_no_head
    model = models.with_head or models.source
    if not isinstance(model, LoadedModel):
        raise StudyError(
            f"The heads of {model.name} cannot be altered: it is no transformers model. "
            "Expected one; leave the analysis out."
        )
    return model.explain_fixed()


@dataclass(frozen=True)
class _Study:
    """A checked plan with everything it needs in hand."""

    models: Models
    passes: Sequence[Pass]
    samples: Mapping[str, Sample]
    options: RunOptions
    manifest: dict[str, Any]
    folder: RunFolder | None
    _results: dict[str, Checkpoint] = field(default_factory=dict)

    def run(self, resume: bool, has_progress: bool) -> Run:
        self._check()
        begun = self.folder.begin(self.manifest, resume) if self.folder else nullcontext()
        with begun, show_progress(has_progress) as bars:
            for pass_ in self.passes:
                self._results[pass_.key] = self._run_pass(pass_, bars)
            analyses = {a.name: a for p in self.passes for a in p.analyses}
            with bars.stage("tables and map of heads"):
                run = finish_run(self.folder, self.manifest, analyses, self._results)
            shown = list(self._gather(run, bars)) if self.options.examples else []
        if self.folder:
            write_examples(self.folder.path, shown)
        return replace(run, examples=shown)

    def _check(self) -> None:
        """Say what cannot be done before any work."""
        for pass_ in self.passes:
            self._tokens(pass_)
            if pass_.watch is Watch.GRADIENT and self.models.with_head:
                refuse_offloaded(self.models.with_head, "gradients cannot flow through it")
            if pass_.watch is Watch.CHANGE:
                refuse_absent_heads(self.models.source, _heads_of(pass_) or ())
            if pass_.draw == 1:
                self._make_untrained(pass_.draw)

    def _make_untrained(self, draw: int) -> AttentionSource:
        """The same model without its training; each draw has other random weights."""
        if not isinstance(self.models.source, LoadedModel):
            raise StudyError(
                f"--null cannot be used with {self.models.source.name}: it is no transformers "
                "model. Expected a model that can be initialised anew; leave --null out."
            )
        return make_untrained(self.models.source, self.options.seed + draw - 1)

    def _tokens(self, pass_: Pass) -> int:
        return tokens_for(pass_, self.models.source, self.options.max_tokens)

    def _run_pass(self, pass_: Pass, bars: Bars) -> Checkpoint:
        source = self._open_source(pass_, bars)
        options = replace(self.options, coref_window=pass_.cut)
        if pass_.watch is Watch.CHANGE:  # copies of one example fill a batch, and the bar moves on
            options = replace(options, batch_tokens=1)
        analyses = pass_.by_kind or self._analyses_of(pass_)
        unit = UNITS.get(pass_.role, "examples")
        progress = bars.add(pass_.key, self._sample(pass_).n_examples, unit)
        checkpoint = self._load(pass_.key)
        for shard, examples in enumerate(self._shards(pass_)):
            if shard in checkpoint.shards:
                progress(len(examples))
                continue
            tokens = self._tokens(pass_)
            checkpoint = checkpoint.with_shard(  # which alone keeps the totals of past shards
                shard,
                measure_examples(examples, source, analyses, options, pass_.role, tokens, progress),
            )
            if self.folder:
                write_checkpoint(self.folder.tally_path(pass_.key), checkpoint)
        return checkpoint

    def _load(self, key: str) -> Checkpoint:
        path = self.folder.tally_path(key) if self.folder else None
        return read_checkpoint(path) if path and path.exists() else Checkpoint()

    def _analyses_of(self, pass_: Pass) -> Sequence[Analysis]:
        """The analyses of a pass; those of a second reading know what the first gave."""
        if pass_.repeat is not Repeat.SECOND_READING:
            return pass_.analyses
        tallies = self._results[str(pass_.repeats)].result.tallies
        second: list[Any] = list(pass_.analyses)
        return [analysis.repeat(tallies) for analysis in second]

    def _open_source(self, pass_: Pass, bars: Bars) -> Source[Any]:
        """The model as a pass watches it."""
        if pass_.draw is not None:
            return self._make_untrained(pass_.draw)
        if pass_.by_kind:
            assert self.models.whole is not None  # else it was not planned so
            return self.models.whole
        if pass_.watch is Watch.GRADIENT:
            assert self.models.with_head is not None  # else the pass was left out
            return GradientSource(build_task(self.models.with_head, self.options.seed))
        if pass_.watch is Watch.CHANGE:
            return self._open_ablation(pass_, bars)
        return self.models.source

    def _open_ablation(self, pass_: Pass, bars: Bars) -> AblationSource:
        """The model with heads to alter; their mean outputs are a pass of their own, kept."""
        model, outcome = self.models.with_head, None
        if model is None:
            assert isinstance(self.models.source, LoadedModel)  # checked when the pass was planned
            model = self.models.source
            outcome = HiddenStateOutcome(model)
        task: Outcome = outcome or LossOutcome(build_task(model, self.options.seed))
        key = f"{pass_.key}-means"
        file = StateFile(self.folder.tally_path(key)) if self.folder else None
        saved = file.load() if file else None
        if saved is None:
            advance = bars.add(key, self._sample(pass_).n_examples)
            means = mean_outputs(model, self._batches(pass_, model), progress=advance)
            if file:
                file.save({"means": means}, {})
        else:
            means = saved[0]["means"].to(model.device)
        return AblationSource(task, means, _heads_of(pass_))

    def _batches(self, pass_: Pass, model: LoadedModel) -> Iterator[Batch]:
        for shard in self._shards(pass_):
            encodings = model.encode(shard, self._tokens(pass_))
            for members in equal_length_batches(encodings, self.options.batch_tokens):
                yield model.batch(members)

    def _sample(self, pass_: Pass) -> Sample:
        sample = self.samples[pass_.repeats or pass_.key]
        return sample if pass_.by_kind else self._without_targets(pass_, sample)

    def _without_targets(self, pass_: Pass, sample: Sample) -> Sample:
        """The sample as an encoder reads it that is measured alone: a target is not its input."""
        has_targets = Annotation.TARGETS in pass_.corpus.provides
        return replace(sample, without_targets=self.models.has_decoder and has_targets)

    def _shards(self, pass_: Pass) -> Iterator[list[Example]]:
        examples = iter(self._sample(pass_))
        while shard := list(islice(examples, self.options.shard_examples)):
            yield shard

    def _gather(self, run: Run, bars: Bars) -> Iterator[Any]:
        """The examples that show notable heads; not once more in longer windows."""
        read: set[int] = set()
        for pass_ in self.passes:
            is_first = pass_.repeats is None and pass_.watch is Watch.ATTENTION
            if is_first and id(pass_.corpus) not in read:
                read.add(id(pass_.corpus))
                rankings, tables = self._results[pass_.key].result.rankings, run.tables
                sample, tokens = self._sample(pass_), self._tokens(pass_)
                if pass_.by_kind:  # the encoder's heads: drawings are of one text
                    kind = AttentionKind.ENCODER
                    sample, tables = self._without_targets(pass_, sample), split_kinds(tables)[kind]
                    rankings = {
                        a.name: rankings[name]
                        for a in pass_.by_kind[kind]
                        if (name := tally_name(kind, a.name)) in rankings
                    }
                advance = bars.add(f"{pass_.key} (examples)", sample.n_examples)
                yield from gather_examples(
                    self.models.source, pass_, sample, tokens, rankings, tables, advance
                )


def _heads_of(pass_: Pass) -> Collection[tuple[int, int]] | None:
    heads: Collection[tuple[int, int]] | None = getattr(pass_.analyses[0], "heads", None)
    return heads
