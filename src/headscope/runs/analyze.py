"""The whole of `headscope analyze`: plan, measure shard by shard, write the tables."""

import json
import platform
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import islice
from logging import getLogger
from pathlib import Path
from typing import Any

from headscope.contracts import Analysis, AttentionSource, Corpus
from headscope.corpora.memory import MemoryCorpus
from headscope.corpora.opening import open_corpus
from headscope.data.example import Example
from headscope.errors import OutputError
from headscope.models.load import load_model
from headscope.models.loaded import wrap_model
from headscope.registry import ANALYSES
from headscope.runs.engine import Progress, measure_examples
from headscope.runs.progress import show_progress
from headscope.runs.results import Checkpoint, Run, RunFolder, finish_run
from headscope.runs.sample import Sample, draw_sample
from headscope.runs.study import Options, Pass, build_analysis, describe_analyses, plan_passes

__all__ = ["analyze"]

log = getLogger("headscope")

CorpusLike = str | Path | Corpus | Sequence[str | Example]


def analyze(
    model: Any = "demo",
    *,
    tokenizer: Any = None,
    text: CorpusLike | None = None,
    treebank: CorpusLike | None = None,
    out: str | Path | None = None,
    only: Collection[str | Analysis] | None = None,
    token_classes: Mapping[str, Collection[str]] | None = None,
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
    a corpus is a path, a registered name, or a list of texts. Without `out` nothing is written.

    >>> import headscope
    >>> run = headscope.analyze("demo", text=["A small text.", "Another one."], progress=False)
    >>> run.tables["entropy"].columns.tolist()
    ['layer', 'head', 'rows', 'nats', 'low', 'high', 'uniform']
    """
    options = Options(limit, seed, replicates, max_tokens, batch_tokens, shard_examples)
    folder = RunFolder(Path(out)) if out is not None else None
    if folder and not resume:
        folder.refuse_if_taken()
    analyses = _choose_analyses(only, token_classes)
    given = {"text": text, "treebank": treebank}
    corpora = {role: _as_corpus(c, role) for role, c in given.items() if c is not None}
    passes, left_out = plan_passes(analyses, corpora, is_explicit=only is not None)
    for reason in left_out.values():
        log.info("Left out: %s", reason)
    samples = {p.role: draw_sample(p.corpus, limit, seed) for p in passes}
    source = _as_source(model, tokenizer, revision, device, dtype, trust_remote_code)
    manifest = _describe(source, passes, samples, options, left_out)
    return _Study(source, passes, samples, options, manifest, folder).run(resume, progress)


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
        for one in self.passes:  # too long for the model? say so before any work
            self.options.tokens_for(one.role, self.source)
        if self.folder:
            self._open_folder(self.folder, resume)
        totals = {role: sample.n_examples for role, sample in self.samples.items()}
        checkpoints = {}
        with show_progress(totals, has_progress) as bars:
            for one in self.passes:
                checkpoints[one.role] = self._run_pass(one, bars[one.role])
        analyses = {a.name: a for one in self.passes for a in one.analyses}
        return finish_run(self.folder, self.manifest, analyses, checkpoints)

    def _open_folder(self, folder: RunFolder, resume: bool) -> None:
        if resume and (folder.path / "manifest.json").exists():
            _refuse_other_study(folder, self.manifest)
        else:
            folder.refuse_if_taken()
            folder.create()
            folder.write_manifest({**self.manifest, "status": "running"})

    def _run_pass(self, one: Pass, progress: Progress) -> Checkpoint:
        checkpoint = self.folder.load_checkpoint(one.role) if self.folder else Checkpoint()
        for shard, examples in enumerate(self._shards(one.role)):
            if shard in checkpoint.shards:
                progress(len(examples))
                continue
            result = measure_examples(
                examples, self.source, one.analyses, self.options, one.role, progress
            )
            checkpoint = checkpoint.with_shard(shard, result)
            if self.folder:
                self.folder.save_checkpoint(one.role, checkpoint)
        return checkpoint

    def _shards(self, role: str) -> Iterator[list[Example]]:
        examples = iter(self.samples[role])
        while shard := list(islice(examples, self.options.shard_examples)):
            yield shard


def _choose_analyses(
    only: Collection[str | Analysis] | None, token_classes: Mapping[str, Collection[str]] | None
) -> list[Analysis]:
    names = list(ANALYSES.entries()) if only is None else list(only)
    options = {"special-tokens": {"classes": token_classes}} if token_classes else {}
    return [build_analysis(n, options.get(n)) if isinstance(n, str) else n for n in names]


def _as_corpus(corpus: CorpusLike, role: str) -> Corpus:
    if isinstance(corpus, (str, Path)):
        return open_corpus(corpus, role)
    return MemoryCorpus(corpus) if isinstance(corpus, Sequence) else corpus


def _as_source(
    model: Any,
    tokenizer: Any,
    revision: str | None,
    device: str,
    dtype: str,
    trust_remote_code: bool,
) -> AttentionSource:
    if isinstance(model, (str, Path)):
        return load_model(
            model,
            revision=revision,
            device=device,
            dtype=dtype,
            trust_remote_code=trust_remote_code,
        )
    if hasattr(model, "attend"):
        source: AttentionSource = model
        return source
    return wrap_model(model, tokenizer)


def _describe(
    source: AttentionSource,
    passes: Sequence[Pass],
    samples: Mapping[str, Sample],
    options: Options,
    left_out: Mapping[str, str],
) -> dict[str, Any]:
    corpora = {
        one.role: {
            "name": one.corpus.name,
            "path": str(getattr(one.corpus, "path", "")),
            "digest": one.corpus.digest(),
            "available": samples[one.role].n_available,
            "examples": samples[one.role].n_examples,
            "analyses": [analysis.name for analysis in one.analyses],
        }
        for one in passes
    }
    return {
        "model": source.describe(),
        "corpora": corpora,
        "analyses": describe_analyses([a for one in passes for a in one.analyses]),
        "left_out": dict(left_out),
        "options": asdict(options),
        "versions": {
            **{name: version(name) for name in ("headscope", "torch", "transformers", "numpy")},
            "python": platform.python_version(),
        },
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _refuse_other_study(folder: RunFolder, manifest: Mapping[str, Any]) -> None:
    """A run is resumed only with what it was begun with: anything else would mix two answers."""
    begun = folder.read_manifest()
    facts: dict[str, Callable[[Mapping[str, Any]], Any]] = {
        "model": lambda m: m["model"]["digest"],
        "corpora": lambda m: {role: c["digest"] for role, c in m["corpora"].items()},
        "analyses": lambda m: m["analyses"],
        "options": lambda m: {**m["options"], "batch_tokens": None},  # a matter of memory alone
    }
    for name, fact in facts.items():
        before, now = _as_json(fact(begun)), _as_json(fact(manifest))
        if before != now:
            raise OutputError(
                f"{folder.path} holds another run: its {name} differ ({before} there, {now} now). "
                "Expected the same command as before; repeat it, or choose another --out."
            )


def _as_json(value: Any) -> Any:
    return json.loads(json.dumps(value, sort_keys=True))
