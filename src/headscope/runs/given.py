"""What a user gives, made into what a study needs: analyses, corpora, the model."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from logging import getLogger
from pathlib import Path
from typing import Any

from headscope.contracts import Analysis, AttentionSource, Corpus
from headscope.corpora.memory import MemoryCorpus
from headscope.corpora.opening import open_corpus
from headscope.data.example import Example
from headscope.errors import HeadscopeError, StudyError
from headscope.models.gradients import GradientSource
from headscope.models.language import build_task
from headscope.models.load import load_model
from headscope.models.loaded import LoadedModel, wrap_model
from headscope.registry import ANALYSES
from headscope.runs.sample import Sample
from headscope.runs.study import Pass, build_analysis, watches_gradients

__all__ = [
    "CorporaLike",
    "CorpusLike",
    "as_corpus",
    "as_source",
    "choose_analyses",
    "open_corpora",
    "open_gradients",
    "tell_short_corpora",
    "weigh",
]

log = getLogger("headscope")

CorpusLike = str | Path | Corpus | Sequence[str | Example]
CorporaLike = str | Path | Corpus | Sequence[str | Path | Corpus | Example]


def choose_analyses(
    only: Collection[str | Analysis] | None,
    also: Collection[str | Analysis],
    options: Mapping[str, Mapping[str, Any]],
) -> list[Analysis]:
    """Those asked for; without a word all, but what costs more than a forward pass."""

    def build(names: Collection[str | Analysis]) -> list[Analysis]:
        return [build_analysis(n, options.get(n)) if isinstance(n, str) else n for n in names]

    if only is not None:
        return build(dict.fromkeys([*only, *also]))
    usual = [analysis for analysis in build(ANALYSES.entries()) if not watches_gradients(analysis)]
    return [*usual, *build(also)]


def open_corpora(
    given: Mapping[str, CorpusLike | CorporaLike | None], skip_bad: bool
) -> list[tuple[str, Corpus]]:
    """The corpora with their roles; a list of paths is several corpora, of examples one."""
    corpora: list[tuple[str, Corpus]] = []
    for role, items in given.items():
        is_list = isinstance(items, Sequence) and not isinstance(items, str) and role != "text"
        if is_list and not all(isinstance(item, Example) for item in items):  # type: ignore[union-attr]
            corpora += [(role, as_corpus(item, role, skip_bad)) for item in items]  # type: ignore[union-attr]
        elif items is not None:
            corpora.append((role, as_corpus(items, role, skip_bad)))
    return corpora


def as_corpus(corpus: Any, role: str, skip_bad: bool = False) -> Corpus:
    """The corpus behind a path or a name, a list, or a corpus itself."""
    if isinstance(corpus, (str, Path)):
        return open_corpus(corpus, role, skip_bad)
    if isinstance(corpus, Sequence):
        return MemoryCorpus(corpus, role=role)
    found: Corpus = corpus
    return found


def as_source(model: Any, tokenizer: Any, loading: Mapping[str, Any]) -> AttentionSource:
    if isinstance(model, (str, Path)):
        return load_model(model, **loading)
    if hasattr(model, "attend"):
        source: AttentionSource = model
        return source
    return wrap_model(model, tokenizer)


def weigh(source: AttentionSource, weights: str) -> AttentionSource:
    """The source with attention weights or shares of norms."""
    if weights == "attention":
        return source
    if not isinstance(source, LoadedModel):
        raise StudyError(
            f"--weights {weights} cannot be used with {source.name}: it is no transformers model. "
            "Expected a model with value vectors; leave --weights out."
        )
    return replace(source, weights=weights)


def open_gradients(
    passes: Sequence[Pass],
    model: Any,
    source: AttentionSource,
    loading: Mapping[str, Any],
    left_out: dict[str, str],
) -> AttentionSource | None:
    """The model with its head, if gradients are asked for; without a head they are left out."""
    asked = [a.name for one in passes if one.variant == "gradients" for a in one.analyses]
    if not asked:
        return None
    try:
        if isinstance(model, (str, Path)):
            head = load_model(model, **loading, with_head=True)
        elif isinstance(source, LoadedModel):
            head = source
        else:
            raise StudyError(f"{source.name} is no transformers model, so it has no loss.")
        return GradientSource(build_task(head, loading["seed"]))
    except HeadscopeError as error:
        if all(one.variant == "gradients" for one in passes):
            raise
        left_out |= {name: str(error) for name in asked}
        log.info("Left out: %s", error)
        return None


def tell_short_corpora(samples: Iterable[Sample], limit: int | None) -> None:
    """Say where a corpus has fewer examples than were asked for."""
    for sample in samples:
        if limit is not None and sample.n_available < limit:
            found = f"{sample.corpus.name} has {sample.n_available} examples"
            log.info("%s, fewer than the %d of --limit; all are used.", found, limit)
