"""The model that a user gives, as a study needs it; and what long inputs need, told beforehand."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from logging import getLogger
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from headscope.contracts import AttentionKind, AttentionSource, Source
from headscope.data.example import Example
from headscope.errors import HeadscopeError, ModelError, StudyError
from headscope.models.anatomy import run as run_model
from headscope.models.language import build_task
from headscope.models.load import load_model, load_with_head
from headscope.models.loaded import LoadedModel, refuse_offloaded, wrap_model
from headscope.models.seq2seq import OneKind, Part, Seq2SeqModel
from headscope.models.tap import using_attention
from headscope.options import ModelOptions, RunOptions

__all__ = [
    "CachedModel", "Models", "estimate_bytes", "estimate_seconds", "open_models", "open_source",
    "tell_needs",
]  # fmt: skip

log = getLogger("headscope")

PLAIN = RunOptions.weights
LONG = 1024  # tokens; what shorter inputs need is not worth a word
TIMED_TOKENS = 256
GB = 1e9
COPIES = 4  # of a slice's weights: scores, scaled, masked, softmax
WIDTHS = 8  # arrays of the hidden size that are alive in a layer


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
    needs_head: bool,
) -> Models:
    """The model, loaded once; its language-modelling head too if something needs it."""
    if isinstance(model, CachedModel) and model.source is None:
        models = open_models(
            model.name, tokenizer, options, replace(run, weights=PLAIN), needs_head
        )
        model.source = models.source
        return replace(models, source=_with_weights(models.source, run.weights))
    source: AttentionSource
    with_head: LoadedModel | None = None
    why = ""
    if needs_head and isinstance(model, (str, Path)):
        source, head = load_with_head(model, **vars(options), seed=run.seed)
        with_head, why = (None, str(head)) if isinstance(head, ModelError) else (head, "")
    else:
        source = open_source(model, tokenizer, options, run.seed)
        if needs_head:
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


def tell_needs(source: object, n_tokens: int, slice_rows: int, n_rows: int) -> None:
    """Say what inputs of this length need, or that there is too little memory for them.

    `n_rows` are the query rows of all heads that are kept to be compared, 0 where none are.
    """
    if n_tokens <= LONG or not isinstance(source, LoadedModel):
        return
    n_bytes, free = estimate_bytes(source, n_tokens, slice_rows, n_rows), _free_bytes()
    if source.device.type == "cpu" and free is not None and n_bytes > free:
        raise StudyError(
            f"An input of {n_tokens} tokens needs about {n_bytes / GB:.1f} GB in addition to "
            f"{source.name}, but only {free / GB:.1f} GB are free. Expected enough memory; "
            "use a smaller --max-tokens, --slice-rows or --rows."
        )
    log.warning(
        "An input of %s tokens, the longest that is read, takes about %.0f s and %.1f GB in "
        "addition to the model.",
        f"{n_tokens:,}", estimate_seconds(source, n_tokens), n_bytes / GB,
    )  # fmt: skip


def estimate_bytes(source: LoadedModel, n_tokens: int, slice_rows: int, n_rows: int) -> float:
    """Memory for an input of so many tokens above that of the model, from the shapes."""
    config = source.model.config
    hidden = getattr(config, "hidden_size", 0)
    inner = getattr(config, "intermediate_size", 0) or 4 * hidden
    rows = min(slice_rows, n_tokens) if source.is_sliced else n_tokens
    maps = COPIES * source.n_heads * rows * n_tokens
    kept = min(n_rows, n_tokens) * source.n_layers * source.n_heads * n_tokens
    states = n_tokens * (WIDTHS * hidden + 3 * inner)
    return 4.0 * (maps + kept + states)


def estimate_seconds(source: LoadedModel, n_tokens: int) -> float:
    """Time for an input of so many tokens: that of a short one, by the number of products."""
    timed = min(TIMED_TOKENS, n_tokens)
    more = _count_products(source, n_tokens) / _count_products(source, timed)
    return _time_forward(source, timed) * more


def _count_products(source: LoadedModel, n_tokens: int) -> float:
    """Products of a forward pass: each token with the weights, and with all other tokens."""
    hidden = getattr(source.model.config, "hidden_size", 0)
    embedded = source.model.get_input_embeddings()
    n_looked_up = sum(weight.numel() for weight in embedded.parameters())
    n_weights = sum(weight.numel() for weight in source.model.parameters()) - n_looked_up
    return n_tokens * (n_weights + 2.0 * source.n_layers * hidden * n_tokens)


def _time_forward(source: LoadedModel, n_tokens: int) -> float:
    """Seconds of the model on a text of so many tokens, the second time."""
    example = Example("timed", text=" ".join(["one, two"] * n_tokens))
    inputs = source.batch(source.encode([example], n_tokens)).inputs
    start = perf_counter()

    def forward(model: torch.nn.Module, given: dict[str, object], show: object) -> None:
        nonlocal start
        with torch.inference_mode():
            model(**given)
            start = perf_counter()
            model(**given)

    with using_attention(source.model, "eager"):
        run_model(forward, source.model, inputs, lambda output: None)  # type: ignore[arg-type]
    return perf_counter() - start


def _free_bytes() -> float | None:
    path = Path("/proc/meminfo")
    lines = path.read_text(encoding="ascii").splitlines() if path.exists() else []
    sizes = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return 1024.0 * int(sizes[0]) if sizes else None
