"""Measuring one shard of a pass: in this process, or in that of a worker."""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from logging import getLogger
from pathlib import Path
from socket import gethostname
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from headscope.contracts import Analysis, Annotation, Source, Watch
from headscope.corpora.collection import FilesCorpus
from headscope.corpora.lines import FileCorpus
from headscope.data.encoding import Batch
from headscope.engine.index import CorpusReader
from headscope.engine.measure import ByKind, Progress, Result, measure_examples
from headscope.engine.open_models import KeptModel, Models, open_models
from headscope.engine.plan import Pass, tokens_for
from headscope.engine.sample import Part, Sample, Shard, part_of
from headscope.errors import HeadscopeError, InputError, StudyError
from headscope.models.ablation import AblationSource
from headscope.models.encode import equal_length_batches
from headscope.models.gradients import GradientSource
from headscope.models.language import HiddenStateOutcome, LossOutcome, Outcome, build_task
from headscope.models.loaded import LoadedModel
from headscope.models.seq2seq import Seq2SeqModel
from headscope.models.untrained import make_untrained
from headscope.options import ClusterOptions, ModelOptions, RunOptions

__all__ = [
    "PassWork",
    "ShardWork",
    "StudyRecipe",
    "describe_source",
    "find_here",
    "heads_of",
    "locate",
    "package_versions",
]

log = getLogger("headscope")

PACKAGES = ("headscope", "torch", "transformers", "numpy")
COPIES = "HEADSCOPE_CORPORA"  # the variable that names a folder of copies by digest
NAMED_DOCUMENTS = 10  # in the message about a shard that could not be measured


@dataclass(frozen=True)
class PassWork:
    """A pass made ready: the analyses know what earlier passes gave."""

    pass_: Pass
    analyses: Sequence[Analysis] | ByKind
    means: Float[Tensor, "layer head size"] | None = None  # what altered heads give instead


@dataclass
class ShardWork:
    """All that measuring a shard takes."""

    models: Models
    samples: Mapping[str, Sample]
    options: RunOptions
    _opened: dict[str, Source[Any]] = field(default_factory=dict)  # that of the last pass
    _untrained: dict[int, LoadedModel] = field(default_factory=dict, repr=False)  # by draw

    def measure(
        self, work: PassWork, shards: Sequence[Shard], progress: Progress = lambda n_examples: None
    ) -> Result:
        """The sums over some shards."""
        total = Result()
        for shard in shards:
            total += self._measure(work, shard, progress)
        return total

    def _measure(self, work: PassWork, shard: Shard, progress: Progress) -> Result:
        pass_ = work.pass_
        source, tokens = self._source(work), self.tokens(pass_)
        options = replace(self.options, coref_window=pass_.cut)
        if pass_.watch is Watch.CHANGE:  # copies of one example fill a batch, and the bar moves on
            options = replace(options, batch_tokens=1)
        examples = self.sample(pass_).read(shard)
        return measure_examples(
            examples, source, work.analyses, options, pass_.role, tokens, progress
        )

    def shards(self, pass_: Pass) -> list[Shard]:
        """All shards of a pass."""
        return self.sample(pass_).shards(self.options.shard_examples)

    def own_shards(self, pass_: Pass) -> list[Shard]:
        """The shards of a pass that this job measures."""
        shards, part = self.shards(pass_), self.options.shard
        return shards if part is None else part_of(shards, Part.parse(part))

    def batches(self, pass_: Pass, model: LoadedModel) -> Iterator[Batch]:
        """All examples of a pass in batches."""
        for shard in self.shards(pass_):
            encodings = model.encode(self.sample(pass_).read(shard), self.tokens(pass_))
            for members in equal_length_batches(encodings, self.options.batch_tokens):
                yield model.batch(members)

    def describe_failure(self, pass_: Pass, shard: Shard, reason: str) -> dict[str, Any]:
        """What the manifest says of a shard that could not be measured."""
        try:
            examples = self.sample(pass_).read(shard)
            names = list(dict.fromkeys(example.own_document for example in examples))
        except HeadscopeError:  # which may be why it failed
            names = []
        n_more = len(names) - NAMED_DOCUMENTS
        log.warning(
            "%s: %d examples could not be measured (documents %s%s): %s",
            pass_.key,
            len(shard),
            ", ".join(names[:NAMED_DOCUMENTS]),
            f" and {n_more} more (see manifest.json)" if n_more > 0 else "",
            reason,
        )
        failed = {"pass": pass_.key, "shard": shard.number, "examples": len(shard)}
        return {**failed, "documents": names, "reason": reason}

    def tokens(self, pass_: Pass) -> int:
        """The longest input of a pass."""
        return tokens_for(pass_, self.models.source, self.options.max_tokens)

    def sample(self, pass_: Pass) -> Sample:
        """What a pass reads."""
        sample = self.samples[pass_.repeats or pass_.key]
        return sample if pass_.by_kind else self.without_targets(pass_, sample)

    def without_targets(self, pass_: Pass, sample: Sample) -> Sample:
        """The sample as an encoder reads it that is measured alone: a target is not its input."""
        has_targets = Annotation.TARGETS in pass_.corpus.provides
        return replace(sample, without_targets=self.models.has_decoder and has_targets)

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

    def _source(self, work: PassWork) -> Source[Any]:
        key = work.pass_.key
        if key not in self._opened:
            self._opened.clear()
            self._opened[key] = self._open_source(work)
        return self._opened[key]

    def _open_source(self, work: PassWork) -> Source[Any]:
        """The model as a pass watches it."""
        pass_ = work.pass_
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
            assert work.means is not None  # measured before all else
            outcome = self.outcome()
            return AblationSource(outcome, work.means, heads_of(pass_))
        return self.models.source


def heads_of(pass_: Pass) -> Collection[tuple[int, int]] | None:
    """The heads that a pass alters; None: all."""
    return pass_.analyses[0].altered_heads()


@dataclass(frozen=True)
class StudyRecipe:
    """What a worker of a cluster needs to measure shards: it loads the model itself."""

    options: ClusterOptions
    model: Any
    tokenizer: Any
    loading: ModelOptions
    run: RunOptions
    watches: tuple[Watch, ...]
    samples: Mapping[str, Sample]

    def __getstate__(self) -> dict[str, Any]:
        """What is sent to a worker: it loads the model itself."""
        return {**vars(self), "model": locate(self.model)}

    def open(self) -> ShardWork:
        """The model and the corpora, where the worker is."""
        torch.set_num_threads(self.options.cpus_per_worker)
        samples = {key: find_here(sample) for key, sample in self.samples.items()}
        models = open_models(self.model, self.tokenizer, self.loading, self.run, self.watches)
        return ShardWork(models, samples, self.run)

    def facts(self, worker: ShardWork) -> dict[str, str]:
        """What must be the same everywhere."""
        return describe_source(worker.models.source)


def locate(given: Any) -> Any:
    """A model or corpus as a worker is told of it: a path whole, a name as it is."""
    named = given.name if isinstance(given, KeptModel) else given
    if isinstance(named, (str, Path)) and Path(named).exists():
        return str(Path(named).absolute())
    return named


def describe_source(source: Source[Any]) -> dict[str, str]:
    """What numbers depend on: the packages and the model."""
    model = source.describe()
    return package_versions() | {
        "digest of the model's weights": str(model["digest"]),
        "digest of its tokenizer": str(model.get("tokenizer")),
        "dtype of the model": str(model.get("dtype")),
    }


def package_versions() -> dict[str, str]:
    """The versions of the packages that numbers depend on."""
    return {f"version of {name}": version(name) for name in PACKAGES}


def find_here(sample: Sample) -> Sample:
    """The sample with files that are on this machine: where they were, or copied there by hash.

    A copy is `$HEADSCOPE_CORPORA/DIGEST/NAME`.
    """
    corpus: Any = sample.corpus
    if isinstance(corpus, FilesCorpus):
        found: Any = replace(corpus, members={k: _find_file(m) for k, m in corpus.members.items()})
        vars(found).update({n: v for n, v in vars(corpus).items() if n not in vars(found)})
    else:
        found = _find_file(corpus)
    return replace(sample, corpus=found, reader=CorpusReader(found, sample.index))


def _find_file(corpus: Any) -> Any:
    if not isinstance(corpus, FileCorpus) or corpus.path.exists():
        return corpus
    copies = os.environ.get(COPIES)
    copy = Path(copies or "") / corpus.digest() / corpus.path.name
    if copies and copy.exists():
        return corpus.moved(copy)
    raise InputError(
        f"{corpus.path} is not on {gethostname()}. Expected the corpus on every machine: on a "
        f"shared disk, or a copy of it as {corpus.digest()}/{corpus.path.name} in the folder that "
        f"the variable {COPIES} names there."
    )
