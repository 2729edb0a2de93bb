"""The whole of `headscope analyze`: check, read, load, plan, measure, finish."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from logging import getLogger
from pathlib import Path
from typing import Any

from headscope.arguments import checked
from headscope.contracts import Analysis, Annotation, CorpusRole, Watch
from headscope.corpora.opening import CorporaLike, as_corpora
from headscope.data.example import Example
from headscope.data.head_view import ShownExample, write_examples
from headscope.data.table import split_kinds
from headscope.engine.checkpoint import Checkpoint, SavedSums, StateFile
from headscope.engine.cluster import Pool, find_ray, open_pool
from headscope.engine.examples import gather_examples
from headscope.engine.finish import finish_run
from headscope.engine.head_views import refuse_absent_heads
from headscope.engine.measure import Result
from headscope.engine.merge import SHARDS, finish_part
from headscope.engine.open_models import open_models, tell_needs
from headscope.engine.passes import Pass
from headscope.engine.plan import describe_study, list_passes, make_corpora, plan, tell_left_out
from headscope.engine.progress import Bars, show_progress
from headscope.engine.resolve import choose_analyses, read_names, split_options
from headscope.engine.sample import Part, Sample, Shard, draw_sample, part_of, tell_samples
from headscope.engine.work import Group, Worker, locate, measure_on_cluster, open_worker
from headscope.errors import InputError, ModelError, StudyError, say_count, shorten
from headscope.models.loaded import refuse_offloaded
from headscope.options import RunOptions
from headscope.runs.folder import RunFolder
from headscope.runs.run import Run
from headscope.runs.tables import tally_name

__all__ = ["analyze"]

log = getLogger("headscope")

NAMED_DOCUMENTS = 10  # in the message about a shard that could not be measured


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
    part = None if run.shard is None else Part.parse(run.shard)  # says what is wrong with it
    if part and out is None:
        raise StudyError("--shard was given without --out. Expected a folder for the part; add it.")
    if cluster.ray is not None:
        find_ray(cluster)
    folder = RunFolder(Path(out)) if out is not None else None
    chosen = read_names(only)
    analyses = choose_analyses(chosen, read_names(also) or (), of_analyses, run.seed)
    given = {CorpusRole.TEXT: text, CorpusRole.TREEBANK: treebank, CorpusRole.COREF: coref}
    corpora = [
        (role, corpus.with_blocks(run.block_sentences))
        for role, items in given.items()
        if items is not None
        for corpus in as_corpora(items, role, run.skip_bad)
    ]
    if folder:  # what was typed is checked first: a wrong name is the likelier slip
        folder.refuse_unusable(resume)
    corpora += make_corpora(analyses, corpora)
    readings, lacking = list_passes(analyses, corpora, run, chosen is not None)
    with show_progress(progress) as bars, bars.stage("reading corpora"):
        drawn = _draw_samples(readings, run)
    tell_samples(drawn.values(), run)
    with show_progress(progress) as bars, bars.stage("loading the model"):
        needs_head = any(pass_.needs_head for pass_ in readings)
        models = open_models(model, tokenizer, loading, run, needs_head)
    passes, left_out = plan(readings, lacking, models, run, chosen is not None)
    tell_left_out(left_out)
    samples = {pass_.key: drawn[id(pass_.corpus)][1] for pass_ in passes}
    for pass_ in passes if models.has_decoder else ():
        if not pass_.by_kind and Annotation.TARGETS in pass_.corpus.provides:
            # an encoder that is measured alone does not read targets
            samples[pass_.key] = replace(samples[pass_.key], without_targets=True)
    whole = models.whole if any(pass_.by_kind for pass_ in passes) else None
    manifest = describe_study(whole or models.source, passes, samples, run, left_out)
    shards = {key: sample.shards(run.shard_examples) for key, sample in samples.items()}
    if part:
        manifest[SHARDS] = {key: len(of_pass) for key, of_pass in shards.items()}
    worker = Worker(models, run)
    study = _Study(worker, passes, samples, shards, manifest, folder, part)
    study.check()
    pool: Any = nullcontext()
    if cluster.ray is not None:
        of_worker = (cluster.cpus_per_worker, locate(model), tokenizer, loading, run, needs_head)
        pool = open_pool(cluster, partial(open_worker, *of_worker), worker.facts())
    begun = folder.begin(manifest, resume) if folder else nullcontext()
    with begun, show_progress(progress) as bars, pool as workers:
        finished = study.run(bars, workers)
    if folder and not part:
        write_examples(folder.path, finished.examples)
    return finished


def _draw_samples(
    passes: Iterable[Pass], options: RunOptions
) -> dict[int, tuple[CorpusRole, Sample]]:
    """The role and the sample of each corpus, which is read for it, by its identity."""
    corpora = {id(pass_.corpus): (pass_.role, pass_.corpus) for pass_ in passes}
    return {
        key: (role, draw_sample(corpus, options.limit_of(role)[0], options.seed))
        for key, (role, corpus) in corpora.items()
    }


@dataclass(frozen=True)
class _Study:
    worker: Worker
    passes: Sequence[Pass]
    samples: Mapping[str, Sample]  # by pass
    shards: Mapping[str, Sequence[Shard]]  # by pass
    manifest: dict[str, Any]
    folder: RunFolder | None
    part: Part | None
    _results: dict[str, Checkpoint] = field(default_factory=dict)

    def check(self) -> None:
        """Say what cannot be done before any work."""
        models, options = self.worker.models, self.worker.options
        for pass_ in self.passes:
            across: list[Any] = [a for a in pass_.analyses if a.compares_layers]
            n_rows = max((int(analysis.rows) for analysis in across), default=0)
            if not pass_.repeats:
                tell_needs(models.source, pass_.max_tokens, options.slice_rows, n_rows)
            if pass_.watch is Watch.GRADIENT and models.with_head:
                refuse_offloaded(models.with_head, "gradients cannot flow through it")
            if pass_.watch is Watch.CHANGE:
                refuse_absent_heads(models.source, pass_.analyses[0].altered_heads() or ())
            if pass_.draw == 1:
                self.worker.make_untrained(pass_.draw)
            if not part_of(self.shards[pass_.key], self.part):
                log.warning(
                    "%s: part %s has nothing to measure because the whole has %s. "
                    "Take fewer parts, or smaller shards (--shard-examples) in every part.",
                    pass_.key, self.part, say_count(len(self.shards[pass_.key]), "shard"),
                )  # fmt: skip

    def run(self, bars: Bars, pool: Pool | None) -> Run:
        """Measure all passes, and turn their sums into a run, or into a finished part of one."""
        failed = [f for pass_ in self.passes for f in self._run_pass(pass_, bars, pool)]
        if failed and not any(checkpoint.shards for checkpoint in self._results.values()):
            raise ModelError(
                f"No shard could be measured: {failed[0]['reason']} Expected at least one; see "
                f"the workers' messages above, or try without --ray."
            )
        if self.part:
            assert self.folder is not None  # checked before
            return finish_part(self.folder, self.manifest, self._results, failed)
        for pass_ in self.passes:
            counts = self._results[pass_.key].result.counts
            reasons = "; ".join(f"{n} {reason}" for reason, n in counts.skipped.items())
            if not counts.used:  # there would be nothing to say
                raise InputError(
                    f"No example of {pass_.corpus.name} could be measured "
                    f"({shorten(reasons) or 'there is none'}). Expected at least one that the "
                    "model can read; check the file, or raise --max-tokens."
                )
        analyses = {a.name: a for pass_ in self.passes for a in pass_.analyses}
        with bars.stage("tables and map of heads"):
            run = finish_run(self.folder, self.manifest, analyses, self._results, failed)
        shown = list(self._gather(run, bars)) if self.worker.options.examples else []
        return replace(run, examples=shown)

    def _run_pass(self, pass_: Pass, bars: Bars, pool: Pool | None) -> Iterator[dict[str, Any]]:
        """Measure what is not yet measured; gives what the manifest says of what could not be."""
        prepared = self._prepare(pass_, bars)
        shards = part_of(self.shards[pass_.key], self.part)
        progress = bars.add(pass_.key, sum(map(len, shards)), pass_.role.unit)
        saved = SavedSums(self.folder.tally_path(pass_.key) if self.folder else None)
        progress(sum(len(shard) for shard in shards if shard.number in saved.shards))
        missing = [shard for shard in shards if shard.number not in saved.shards]
        examples = self.samples[pass_.key].read(missing)
        measured: Iterator[tuple[Group, Result | str]]
        if pool is None:
            measured = (
                ([(shard, some)], self.worker.measure(pass_, prepared, [some], progress))
                for shard, some in examples
            )
        else:
            measured = measure_on_cluster(pool, pass_, prepared, examples, len(missing), progress)
        with saved:
            for group, result in measured:
                if isinstance(result, Result):
                    saved.add([shard.number for shard, _ in group], result)
                else:
                    for shard, members in group:
                        yield _describe_failure(pass_, shard, members, result)
        self._results[pass_.key] = saved.checkpoint

    def _prepare(self, pass_: Pass, bars: Bars) -> Any:
        """What must be known before a pass: a pass of its own over all examples, kept.

        The mean outputs of heads to alter, or the sets of heads to switch off; else None.
        """
        name = {Watch.CHANGE: "means", Watch.HEAD_SETS: "sets"}.get(pass_.watch)
        if name is None:
            return None
        key, sample = f"{pass_.key}-{name}", self.samples[pass_.key]
        file = StateFile(self.folder.tally_path(key)) if self.folder else None
        saved = file.load() if file else None
        if saved is not None:
            return saved[0][name].to(self.worker.outcome().source.device)
        shards = (examples for _, examples in sample.read(self.shards[pass_.key]))
        progress = bars.add(key, sample.n_examples)
        if pass_.watch is Watch.CHANGE:
            prepared = self.worker.mean_outputs(shards, pass_.max_tokens, progress)
        else:
            prepared = self.worker.choose_head_sets(pass_, shards, progress)
        if file:
            file.save({name: prepared}, {})
        return prepared

    def _gather(self, run: Run, bars: Bars) -> Iterator[ShownExample]:
        """The examples that show notable heads; not once more in longer windows."""
        read: set[int] = set()
        parts, models = split_kinds(run.tables), self.worker.models
        for pass_ in self.passes:
            is_first = pass_.repeats is None and pass_.watch is Watch.ATTENTION
            if not is_first or id(pass_.corpus) in read:
                continue
            read.add(id(pass_.corpus))
            rankings = self._results[pass_.key].result.rankings
            for kind, analyses in pass_.by_kind.items() or [(None, pass_.analyses)]:
                names = {a.name: tally_name(kind, a.name) if kind else a.name for a in analyses}
                yield from gather_examples(
                    models.take(kind),
                    replace(pass_, analyses=tuple(analyses)),
                    self.samples[pass_.key],
                    {a: rankings[name] for a, name in names.items() if name in rankings},
                    parts.get(kind or "", run.tables),
                    partial(bars.add, f"{pass_.key} (examples)"),
                )


def _describe_failure(
    pass_: Pass, shard: Shard, examples: Iterable[Example], reason: str
) -> dict[str, Any]:
    """What the manifest says of a shard that could not be measured, which is told."""
    names = list(dict.fromkeys(example.own_document for example in examples))
    n_more = len(names) - NAMED_DOCUMENTS
    log.warning(
        "%s: %s could not be measured (documents %s%s): %s",
        pass_.key,
        say_count(len(shard), "example"),
        ", ".join(names[:NAMED_DOCUMENTS]),
        f" and {n_more} more (see manifest.json)" if n_more > 0 else "",
        reason,
    )
    failed = {"pass": pass_.key, "shard": shard.number, "examples": len(shard)}
    return {**failed, "documents": names, "reason": reason}
