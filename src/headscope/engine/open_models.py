"""The model that a user gives, as a study needs it: with its language-modelling head or without."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from headscope.contracts import AttentionKind, AttentionSource, Source, Watch
from headscope.errors import HeadscopeError, ModelError, StudyError
from headscope.models.language import build_task
from headscope.models.load import load_model, load_with_head
from headscope.models.loaded import LoadedModel, refuse_offloaded, wrap_model
from headscope.models.seq2seq import OneKind, Part, Seq2SeqModel
from headscope.options import ModelOptions, RunOptions

__all__ = ["CachedModel", "Models", "open_models", "open_source"]

PLAIN = RunOptions.weights


def open_source(
    model: Any, tokenizer: Any, options: ModelOptions, seed: int = 0
) -> AttentionSource:
    """The model behind a name, a folder or an object in memory."""
    if isinstance(model, CachedModel):
        model.source = model.source or open_source(model.name, tokenizer, options, seed)
        return model.source
    if isinstance(model, (str, Path)):
        return load_model(model, **vars(options), seed=seed)
    if Source in type(model).__mro__:
        source: AttentionSource = model
        return source
    return wrap_model(model, tokenizer)


@dataclass
class CachedModel:
    """A model by name that is loaded once for several studies."""

    name: str
    source: AttentionSource | None = None


@dataclass(frozen=True)
class Models:
    """A model as it is measured, and the same with its language-modelling head if it has one."""

    source: AttentionSource
    with_head: LoadedModel | None = None
    why_no_head: str = ""

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def has_decoder(self) -> bool:
        """Whether the source is the encoder of an encoder-decoder."""
        return isinstance(self.source, LoadedModel) and self.source.whole is not None

    @property
    def whole(self) -> Seq2SeqModel | None:
        """The encoder-decoder run whole, if it is one whose decoder can be observed."""
        return self._decoder if isinstance(self._decoder, Seq2SeqModel) else None

    @property
    def parts(self) -> Mapping[AttentionKind, Part]:
        """Layers and heads of each kind of attention of the whole."""
        return self.whole.parts if self.whole else {}

    def take(self, kind: AttentionKind | None) -> AttentionSource:
        """One kind of attention of the whole, as a source of its own; None: the source."""
        return OneKind(self.whole, kind) if self.whole and kind else self.source

    @property
    def why_no_decoder(self) -> str:
        return self._decoder if isinstance(self._decoder, str) else ""

    @cached_property
    def _decoder(self) -> Seq2SeqModel | str | None:
        if not self.has_decoder:
            return None
        assert isinstance(self.source, LoadedModel)  # else it has no decoder
        whole = Seq2SeqModel(self.source)
        try:
            return whole if whole.parts else None
        except ModelError as error:
            return str(error)


def open_models(
    model: Any,
    tokenizer: Any,
    options: ModelOptions,
    run: RunOptions,
    watches: Collection[Watch],
) -> Models:
    """The model, loaded once. Its head is looked for only if gradients or changes are watched."""
    if isinstance(model, CachedModel) and model.source is None:
        models = open_models(model.name, tokenizer, options, replace(run, weights=PLAIN), watches)
        model.source = models.source
        return replace(models, source=_with_weights(models.source, run.weights))
    source: AttentionSource
    with_head: LoadedModel | None = None
    why, is_costly = "", any(watch.is_costly for watch in watches)
    if is_costly and isinstance(model, (str, Path)):
        source, head = load_with_head(model, **vars(options), seed=run.seed)
        with_head, why = (None, str(head)) if isinstance(head, ModelError) else (head, "")
    else:
        source = open_source(model, tokenizer, options, run.seed)
        if is_costly:
            with_head, why = _find_head(source)
    return Models(_with_weights(source, run.weights), with_head, why)


def _find_head(source: AttentionSource) -> tuple[LoadedModel | None, str]:
    """The model in memory, if it has a head of language modelling; or why it has none."""
    if not isinstance(source, LoadedModel):
        why = "is not a transformers model, so it has no loss. Expected one; leave the analysis out"
        return None, str(StudyError(f"{source.name} {why}."))
    try:
        build_task(source)  # says what is missing
    except HeadscopeError as error:
        return None, str(error)
    return source, ""


def _with_weights(source: AttentionSource, weights: str) -> AttentionSource:
    """The source with attention weights or shares of norms."""
    if weights == PLAIN:
        return source
    if not isinstance(source, LoadedModel):
        raise StudyError(
            f"--weights {weights} cannot be used with {source.name}: it is not a transformers "
            "model. Expected a model with value vectors; leave --weights out."
        )
    refuse_offloaded(source, f"--weights {weights} cannot see its projections")
    weighted = replace(source, weights=weights)
    weighted.check_weights()
    return weighted
