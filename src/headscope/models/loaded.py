"""A transformers model in memory as a source of attention, and views of it that show more."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from itertools import count
from typing import ClassVar, cast

import torch
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from headscope.contracts import Watch
from headscope.data.attention import LayerAttention
from headscope.data.encoding import Batch, Encoding
from headscope.data.example import Example
from headscope.errors import ModelError
from headscope.models.encode import Encoder
from headscope.models.norms import NormWeights
from headscope.models.tap import TapOutput, observe_outputs, observe_tap

__all__ = ["WEIGHTS", "LoadedModel", "ModelView", "eval_mode", "weights_digest", "wrap_model"]

PROBE = Example("probe", text="a")
ROUNDING = 0.02  # of a row of a few bfloat16 weights
WEIGHTS = ("attention", "norm")


@dataclass(frozen=True)
class LoadedModel:
    """A model with its tokenizer. Its attention is observed by the tap, else in its outputs."""

    emits: ClassVar[Watch] = Watch.ATTENTION
    name: str
    model: PreTrainedModel
    encoder: Encoder
    revision: str | None = None
    weights: str = "attention"  # or "norm": norm-weighted attention

    def __post_init__(self) -> None:
        if self.weights not in WEIGHTS:
            raise ModelError(
                f"--weights {self.weights} cannot be used. Expected {' or '.join(WEIGHTS)}."
            )

    @cached_property
    def max_tokens(self) -> int:
        """The longest input both the model's positions and the tokenizer allow."""
        positions = getattr(self.model.config, "max_position_embeddings", None) or 0
        limits: list[int] = [positions] if positions > 0 else []  # XLNet says -1: no limit
        limits += [self.encoder.tokenizer.model_max_length, *_position_rows(self.model), 10**9]
        return min(limits)

    @property
    def device(self) -> torch.device:
        device: torch.device = self.model.device
        return device

    @property
    def n_layers(self) -> int:
        return self._probed[1]

    @property
    def n_heads(self) -> int:
        return self._probed[2]

    @property
    def is_tapped(self) -> bool:
        """Whether the tap sees its attention, and so can change it."""
        return self._probed[0] is observe_tap

    def encode(self, examples: Sequence[Example], max_tokens: int) -> list[Encoding]:
        """The examples in tokens, truncated to `max_tokens`."""
        return self.encoder.encode(examples, max_tokens)

    def batch(self, encodings: Sequence[Encoding]) -> Batch:
        """Encodings of equal length, where the model is."""
        return Batch(tuple(encodings), self.device)

    def attend(self, batch: Batch, observe: Callable[[LayerAttention], None]) -> None:
        """Run the model and show every layer's attention, first layer first."""
        self._run(self._probed[0], batch, observe)

    def describe(self) -> dict[str, object]:
        """What the manifest says of the model."""
        return {
            "name": self.name,
            "revision": self.revision,
            "class": type(self.model).__name__,
            "digest": weights_digest(self.model),
            "weights": self.weights,
            "layers": self.n_layers,
            "heads": self.n_heads,
            "dtype": str(self.model.dtype).removeprefix("torch."),
            "device": str(self.device),
            "seen_by": "tap" if self.is_tapped else "output_attentions",
        }

    def without_head(self) -> "LoadedModel":
        """The model below its language-modelling head, with the same weights in memory."""
        model = cast(PreTrainedModel, self.model.base_model)
        base = wrap_model(model, self.encoder.tokenizer, self.name, self.revision)
        return replace(base, weights=self.weights)

    def _run(
        self, how: Callable[..., None], batch: Batch, observe: Callable[[LayerAttention], None]
    ) -> None:
        layers = count()

        def show(output: TapOutput) -> None:
            weights = output.weights
            if weights.ndim != 4 or weights.shape[-2:] != (batch.n_tokens, batch.n_tokens):
                raise ModelError(
                    f"{self.name} gives attention of shape {tuple(weights.shape)} for "
                    f"{batch.n_tokens} tokens. Expected one weight for each pair of tokens; choose "
                    "another model."
                )
            if self.weights == "norm":
                weights = self._norm_weights.compute(output)
            visible = output.visible.to(weights.device)
            observe(LayerAttention(next(layers), weights, batch, visible))

        extra = {"use_cache": False} if "use_cache" in _arguments(self.model) else {}
        with eval_mode(self.model):
            how(self.model, {**batch.inputs, **extra}, show)

    @cached_property
    def _norm_weights(self) -> NormWeights:
        return NormWeights(self.model)

    @cached_property
    def _probed(self) -> tuple[Callable[..., None], int, int]:
        """How this model's attention can be observed, its layers and heads, found by a tiny run."""
        batch = self.batch(self.encode([PROBE], min(8, self.max_tokens)))
        failures = []
        for how in (observe_tap, observe_outputs):
            layers: list[LayerAttention] = []
            try:
                self._run(how, batch, layers.append)
                return how, len(layers), self._count_heads(layers)
            except Exception as error:  # any model file may fail here in its own way
                is_ours = isinstance(error, ModelError)
                failures.append(f"{error}" if is_ours else f"{type(error).__name__}: {error}")
        raise ModelError(
            f"The attention of {self.name} ({type(self.model).__name__}) cannot be seen: neither "
            f"through transformers' AttentionInterface ({failures[0]}) nor as output_attentions "
            f"({failures[1]}). Expected a transformer with softmax attention and the same number "
            "of heads in every layer; choose another model."
        )

    def _count_heads(self, layers: Sequence[LayerAttention]) -> int:
        """The heads of each layer, if every row of weights is a distribution."""
        heads = {attention.weights.shape[1] for attention in layers}
        most = getattr(self.model.config, "num_hidden_layers", None) or len(layers)
        if len(heads) != 1 or len(layers) > most:
            raise ModelError(f"{len(layers)} layers with {sorted(heads)} heads were seen")
        for attention in layers:
            error = (attention.weights.sum(-1) - 1).abs().max()
            if error > ROUNDING:
                raise ModelError(f"a row of weights misses a sum of 1 by {error:.3g}")
        return heads.pop()


class ModelView(ABC):
    """A source that shows something else of a model: all of a source but `attend`."""

    emits: ClassVar[Watch]

    @property
    @abstractmethod
    def model(self) -> LoadedModel:
        """The model behind it."""

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def n_layers(self) -> int:
        return self.model.n_layers

    @property
    def n_heads(self) -> int:
        return self.model.n_heads

    @property
    def max_tokens(self) -> int:
        return self.model.max_tokens

    def encode(self, examples: Sequence[Example], max_tokens: int) -> list[Encoding]:
        return self.model.encode(examples, max_tokens)

    def batch(self, encodings: Sequence[Encoding]) -> Batch:
        return self.model.batch(encodings)

    def describe(self) -> dict[str, object]:
        return self.model.describe()


def wrap_model(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase | None,
    name: str | None = None,
    revision: str | None = None,
) -> LoadedModel:
    """A model already in memory, with its tokenizer; of an encoder-decoder, the encoder."""
    if tokenizer is None:
        raise ModelError(
            f"A {type(model).__name__} object was given without its tokenizer. Expected both; "
            "pass tokenizer=... beside it."
        )
    name = name or model.config.name_or_path or type(model).__name__
    if model.config.is_encoder_decoder:
        model = model.get_encoder()
    return LoadedModel(name, model, Encoder(tokenizer, _arguments(model)), revision)


def weights_digest(model: nn.Module) -> str:
    """The sha256 of all weights by name: the same model gives the same digest from any place.

    A pooler is left out: attention does not depend on it, and where the checkpoint has none it is
    random, other in every load.
    """
    digest = sha256()
    for name, tensor in sorted(model.state_dict().items()):
        if "pooler" in name:
            continue
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def _arguments(model: nn.Module) -> frozenset[str]:
    return frozenset(inspect.signature(model.forward).parameters)


def _position_rows(model: nn.Module) -> Iterator[int]:
    """Positions a learned table really has: where padding takes a row, counting starts after it."""
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            n_reserved = 0 if module.padding_idx is None else module.padding_idx + 1
            yield module.num_embeddings - n_reserved


@contextmanager
def eval_mode(model: nn.Module) -> Iterator[None]:
    """The model without dropout, and as it was again afterwards."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
