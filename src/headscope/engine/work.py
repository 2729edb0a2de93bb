"""Measuring the examples of a pass: in this process, or in those of workers on a cluster."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import Any

import torch
from torch import Tensor

from headscope.contracts import Analysis, Source, Watch
from headscope.data.example import Example
from headscope.engine.cluster import Pool
from headscope.engine.measure import Predict, Progress, Result, measure_examples
from headscope.engine.open_models import CachedModel, Models, open_models
from headscope.engine.passes import Pass
from headscope.engine.sample import Shard
from headscope.errors import StudyError
from headscope.models.ablation import AblationSource, mean_outputs
from headscope.models.copying import CopyingSource
from headscope.models.encode import equal_length_batches
from headscope.models.gradients import GradientSource
from headscope.models.head_sets import HeadSetSource
from headscope.models.language import (
    PREDICTED_TOKENS,
    HiddenStateOutcome,
    LossOutcome,
    Outcome,
    build_task,
)
from headscope.models.load import make_untrained
from headscope.models.loaded import LoadedModel
from headscope.models.seq2seq import Seq2SeqModel
from headscope.options import ModelOptions, RunOptions
from headscope.runs.manifest import package_versions
from headscope.runs.tables import Frames, make_tables

__all__ = [
    "Group", "Groups", "Worker", "describe_source", "locate", "measure_on_cluster", "open_worker",
    "package_facts",
]  # fmt: skip


@dataclass
class Worker:
    """A model that measures one pass after the other."""

    models: Models
    options: RunOptions
    _opened: dict[str, Source[Any]] = field(default_factory=dict)  # that of the last pass
    _untrained: dict[int, LoadedModel] = field(default_factory=dict, repr=False)  # by draw

    def facts(self) -> dict[str, str]:
        """What must be the same for all workers."""
        return describe_source(self.models.source)

    def measure(
        self,
        pass_: Pass,
        prepared: Tensor | None,
        shards: Iterable[Sequence[Example]],
        progress: Progress = lambda n_examples: None,
    ) -> Result:
        """The sums over the examples of some shards.

        `prepared` is what altered heads give instead, or which sets of heads are switched off.
        """
        if pass_.key not in self._opened:
            self._opened.clear()
            self._opened[pass_.key] = self._open_source(pass_, prepared)
        options = replace(self.options, coref_window=pass_.cut)
        if pass_.watch is Watch.CHANGE:  # copies of one example fill a batch, and the bar moves on
            options = replace(options, batch_tokens=1)
        if pass_.watch is Watch.HEAD_SETS:
            options = replace(options, batch_tokens=PREDICTED_TOKENS)
        source, analyses = self._opened[pass_.key], pass_.by_kind or pass_.analyses
        total, predict = Result(), self._predict_for(pass_)
        for examples in shards:
            total += measure_examples(
                examples, source, analyses, options, pass_.role, pass_.max_tokens, progress, predict
            )
        return total

    def _predict_for(self, pass_: Pass) -> Predict | None:
        """What tells the predictions of the model that a pass measures, if it makes any."""
        head = self.models.with_head
        if head is None or pass_.watch is not Watch.ATTENTION or pass_.draw or pass_.by_kind:
            return None
        task = build_task(head, self.options.seed)
        return task.predict if task.objective == "next" else None

    def mean_outputs(
        self, shards: Iterable[Sequence[Example]], max_tokens: int, progress: Progress
    ) -> Tensor:
        """The mean output of each head over all examples."""
        model = self.outcome().source
        batches = (
            model.batch(members)
            for examples in shards
            for members in equal_length_batches(
                model.encode(examples, max_tokens), self.options.batch_tokens
            )
        )
        return mean_outputs(model, batches, progress=progress)

    def choose_head_sets(
        self, pass_: Pass, shards: Iterable[Sequence[Example]], progress: Progress
    ) -> Tensor:
        """The sets of heads that are switched off, `[set, layer, head]`, by the other analyses that
        choose them, over all examples."""
        shards = list(shards)

        def tables_of(analysis: Analysis) -> Frames:
            plain = replace(pass_, key=f"{pass_.key}-choice", watch=Watch.ATTENTION)
            result = self.measure(replace(plain, analyses=(analysis,)), None, shards, progress)
            return make_tables(analysis, result.tallies[analysis.name])

        return torch.from_numpy(pass_.analyses[0].choose_head_sets(tables_of))

    def outcome(self) -> Outcome:
        """What altering heads changes: the loss, or the last hidden states."""
        if self.models.with_head is not None:
            return LossOutcome(build_task(self.models.with_head, self.options.seed))
        assert isinstance(self.models.source, LoadedModel)  # checked when the pass was planned
        return HiddenStateOutcome(self.models.source)

    def make_untrained(self, draw: int) -> LoadedModel:
        """The same model without its training; each draw has other random weights."""
        if not isinstance(self.models.source, LoadedModel):
            raise StudyError(
                f"--null cannot be used with {self.models.source.name}: it is not a transformers "
                f"model. Expected a model that can be initialised with random weights; leave "
                f"--null out."
            )
        if draw not in self._untrained:  # all passes of a draw share it; earlier ones are done
            self._untrained.clear()
            seed = self.options.seed + draw - 1
            self._untrained[draw] = make_untrained(self.models.source, seed)
        return self._untrained[draw]

    def _open_source(self, pass_: Pass, prepared: Tensor | None) -> Source[Any]:
        if pass_.draw is not None:
            untrained = self.make_untrained(pass_.draw)
            return Seq2SeqModel(untrained) if pass_.by_kind else untrained
        if pass_.by_kind:
            assert self.models.whole is not None  # else it was not planned so
            return self.models.whole
        if pass_.watch is Watch.GRADIENT:
            assert self.models.with_head is not None  # else the pass was left out
            return GradientSource(build_task(self.models.with_head, self.options.seed))
        if pass_.watch is Watch.CHANGE:
            assert prepared is not None  # measured before all else
            return AblationSource(self.outcome(), prepared, pass_.analyses[0].altered_heads())
        if pass_.watch is Watch.COPYING:
            assert self.models.with_head is not None  # else the pass was left out
            return CopyingSource(build_task(self.models.with_head), self.options.seed)
        if pass_.watch is Watch.HEAD_SETS:
            assert self.models.with_head is not None  # else the pass was left out
            assert prepared is not None  # as above
            return HeadSetSource(build_task(self.models.with_head, self.options.seed), prepared)
        return self.models.source


def open_worker(
    n_threads: int,
    model: Any,
    tokenizer: Any,
    loading: ModelOptions,
    run: RunOptions,
    needs_head: bool,
) -> Worker:
    """A worker that loads the model itself."""
    torch.set_num_threads(n_threads)
    return Worker(open_models(model, tokenizer, loading, run, needs_head), run)


Group = list[tuple[Shard, list[Example]]]  # what a task measures


def measure_on_cluster(
    pool: Pool,
    pass_: Pass,
    prepared: Tensor | None,
    shards: Iterable[tuple[Shard, list[Example]]],
    n_shards: int,
    progress: Progress,
) -> Iterator[tuple[Group, Result | str]]:
    """Shards and their sums, in whatever order; a string says why they could not be measured."""
    shared = pool.share(replace(pass_, corpus=None)), pool.share(prepared)
    groups = Groups(iter(shards), n_shards)

    def take() -> tuple[Any, ...] | None:
        group = groups.take()
        return (*shared, [examples for _, examples in group]) if group else None

    for number, result in pool.run("measure", take):
        group = groups.taken.pop(number)
        if isinstance(result, str) and len(group) > 1:  # which of them it was
            groups.alone += group
            continue
        came = monotonic()
        yield group, result
        progress(sum(len(shard) for shard, _ in group))
        if not isinstance(result, str):
            n_workers = sum(handle.is_ready for handle in pool.handles)
            measuring = sum(s for stage, s in result.seconds.items() if "within" not in stage)
            groups.learn(n_workers, len(group), monotonic() - came, measuring)


@dataclass(eq=False)
class Groups:
    """Shards in tasks: so many in each that the driver is busy adding at most half of the time.

    Sums over many heads are large (1,024 heads: 268 MB of distances). Workers then add those of
    several shards before they send them; the numbers are the same.
    """

    shards: Iterator[tuple[Shard, list[Example]]]
    n_left: int
    alone: Group = field(default_factory=list)  # what is to be tried one by one
    taken: dict[int, Group] = field(default_factory=dict)  # by number of the task
    size: int = 1
    _n_tasks: int = 0
    _n_results: int = 0
    _n_measured: int = 0
    _adding: float = 0.0  # seconds of the driver
    _measuring: float = 0.0  # seconds of all workers

    def take(self) -> Group | None:
        """What the next task is to measure, if there is anything for now."""
        if self.alone:
            group = [self.alone.pop(0)]
        else:
            group = list(islice(self.shards, self.size))
            self.n_left -= len(group)
        if not group:
            return None
        self.taken[self._n_tasks] = group
        self._n_tasks += 1
        return group

    def learn(self, n_workers: int, n_shards: int, adding: float, measuring: float) -> None:
        """See from the last result how long one takes to add, and a shard to measure."""
        self._n_results += 1
        self._n_measured += n_shards
        self._adding += adding
        self._measuring += measuring
        a_shard = self._measuring / self._n_measured
        wanted = 2 * n_workers * (self._adding / self._n_results) / max(a_shard, 1e-9)
        fair = self.n_left // max(n_workers, 1)  # smaller ones at the end
        self.size = max(1, round(min(wanted, max(wanted / 2, fair))))


def locate(given: Any) -> Any:
    """A model or corpus as a worker is told of it: a path whole, a name as it is."""
    named = given.name if isinstance(given, CachedModel) else given
    if isinstance(named, (str, Path)) and Path(named).exists():
        return str(Path(named).absolute())
    return named


def describe_source(source: Source[Any]) -> dict[str, str]:
    """What numbers depend on: the packages and the model."""
    model: Mapping[str, Any] = source.describe()
    return package_facts() | {
        "digest of the model's weights": str(model["digest"]),
        "digest of its tokenizer": str(model.get("tokenizer")),
        "dtype of the model": str(model.get("dtype")),
    }


def package_facts() -> dict[str, str]:
    """The versions of the packages that numbers depend on."""
    return {f"version of {name}": number for name, number in package_versions().items()}
