"""What a user gives, made into what a study needs: analyses, corpora, the model."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from logging import getLogger
from pathlib import Path
from typing import Any, cast

from headscope.contracts import Analysis, AttentionSource, Corpus
from headscope.corpora.memory import MemoryCorpus
from headscope.corpora.opening import open_corpus
from headscope.data.attention import parse_head_name
from headscope.data.encoding import Batch
from headscope.data.example import Example
from headscope.errors import HeadscopeError, StudyError
from headscope.models.ablation import AblationSource, mean_outputs
from headscope.models.answers import Answers, HiddenAnswers, LossAnswers
from headscope.models.gradients import GradientSource
from headscope.models.language import build_task, find_objective
from headscope.models.load import load_model
from headscope.models.loaded import LoadedModel, wrap_model
from headscope.registry import ANALYSES
from headscope.runs.look import refuse_absent_heads
from headscope.runs.sample import Sample
from headscope.runs.study import Pass, build_analysis, watched_by

__all__ = [
    "CorporaLike",
    "CorpusLike",
    "as_corpus",
    "as_source",
    "choose_analyses",
    "open_corpora",
    "open_watched",
    "read_heads",
    "refuse_idle_heads",
    "tell_short_corpora",
    "watch",
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
    known = build(ANALYSES.entries())
    return [*(a for a in known if watched_by(a) == "attention"), *build(also)]


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


def open_watched(
    passes: Sequence[Pass],
    model: Any,
    source: AttentionSource,
    loading: Mapping[str, Any],
    left_out: dict[str, str],
) -> dict[str, LoadedModel]:
    """The model behind each pass that watches more than attention, with its head if it has one.

    Gradients need a loss: without a head they are left out. Ablation then compares hidden states.
    """
    asked = {one.variant: one for one in passes if one.variant in ("gradients", "ablation")}
    if not asked:
        return {}
    try:
        found = _load_head(model, source, loading)
        return {str(variant): found for variant in asked}
    except HeadscopeError as error:
        if len(passes) == len(asked) == 1 and "gradients" in asked:
            raise
        if "gradients" in asked:
            left_out |= {analysis.name: str(error) for analysis in asked["gradients"].analyses}
            log.info("Left out: %s", error)
    if "ablation" not in asked:
        return {}
    if not isinstance(source, LoadedModel):
        raise StudyError(
            f"The heads of {source.name} cannot be altered: it is no transformers model. Expected "
            "one; leave the analysis 'ablation' out."
        )
    return {"ablation": source}


def _load_head(model: Any, source: AttentionSource, loading: Mapping[str, Any]) -> LoadedModel:
    if isinstance(model, (str, Path)):
        found = load_model(model, **loading, with_head=True)
    elif isinstance(source, LoadedModel):
        found = source
    else:
        raise StudyError(f"{source.name} is no transformers model, so it has no loss.")
    build_task(found)  # says what is missing
    return found


def watch(
    one: Pass, model: LoadedModel, batches: Callable[[], Iterable[Batch]], seed: int
) -> AttentionSource:
    """What a pass of its variant is shown: gradients, or changes by ablation."""
    if one.variant == "gradients":
        return GradientSource(build_task(model, seed))
    heads = getattr(one.analyses[0], "heads", None)
    refuse_absent_heads(model, heads or ())
    has_head = find_objective(type(model.model).__name__) is not None
    answers: Answers = LossAnswers(build_task(model, seed)) if has_head else HiddenAnswers(model)
    return cast(AttentionSource, AblationSource(answers, mean_outputs(model, batches()), heads))


def refuse_idle_heads(heads: str | None, analyses: Collection[Analysis]) -> None:
    """An error where heads are named and none is to be altered."""
    if heads is not None and all(analysis.name != "ablation" for analysis in analyses):
        raise StudyError(
            f"--heads {heads} names heads to alter, but no analysis does. Expected --also ablation "
            "(or --only ablation) beside it; add that, or leave --heads out."
        )


def read_heads(names: str | None) -> tuple[tuple[int, int], ...] | None:
    """The heads of "3-5,8-10", counted from 0; None for all.

    >>> read_heads("3-5,8-10")
    ((2, 4), (7, 9))
    """
    if names is None:
        return None
    found = [parse_head_name(name) for name in names.split(",")]
    if None in found:
        raise StudyError(
            f"--heads {names} cannot be read. Expected layer-head, counted from 1, with commas "
            "between them, for example --heads 3-5,8-10."
        )
    return tuple(head for head in found if head is not None)


def tell_short_corpora(samples: Iterable[Sample], limit: int | None) -> None:
    """Say where a corpus has fewer examples than were asked for."""
    for sample in samples:
        if limit is not None and sample.n_available < limit:
            found = f"{sample.corpus.name} has {sample.n_available} examples"
            log.info("%s, fewer than the %d of --limit; all are used.", found, limit)
