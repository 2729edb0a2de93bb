"""A transformers model in memory as a source of attention, and views of it that show more."""

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from headscope.contracts import Source, Watch
from headscope.data.attention import LayerAttention
from headscope.data.encoding import Batch, Encoding
from headscope.data.example import Example
from headscope.data.reading import MapSlice, Reading
from headscope.errors import ModelError, shorten
from headscope.models import anatomy, tap
from headscope.models.encode import Encoder, special_names
from headscope.models.slices import SlicedLayer, Slicing, find_slicing, observe_slices

__all__ = ["WEIGHTS", "LoadedModel", "ModelView", "refuse_offloaded", "wrap_model"]

WEIGHTS = ("attention", "norm")
MANY = 2**63 - 1


@dataclass(frozen=True)
class LoadedModel(Source[LayerAttention]):
    """A model with its tokenizer. Its attention is observed by the tap, else in its outputs."""

    emits: ClassVar[Watch] = Watch.ATTENTION
    name: str
    model: PreTrainedModel
    encoder: Encoder
    revision: str | None = None
    weights: str = "attention"  # or "norm": norm-weighted attention
    whole: PreTrainedModel | None = None  # the encoder-decoder whose encoder this is

    def __post_init__(self) -> None:
        if self.weights not in WEIGHTS:
            raise ModelError(
                f"--weights {self.weights} cannot be used. Expected {' or '.join(WEIGHTS)}; "
                "change it, or leave it out."
            )

    @cached_property
    def max_tokens(self) -> int:
        """The longest input both the model's positions and the tokenizer allow."""
        positions = getattr(self.model.config, "max_position_embeddings", None) or 0
        limits: list[int] = [positions] if positions > 0 else []  # XLNet says -1: no limit
        of_tokenizer = self.encoder.tokenizer.model_max_length
        is_whole = isinstance(of_tokenizer, (int, float)) and of_tokenizer % 1 == 0
        if not is_whole or of_tokenizer is True or of_tokenizer < 1:
            raise ModelError(
                f"The tokenizer of {self.name} has model_max_length = {shorten(of_tokenizer)}. "
                "Expected the most tokens of an input, 1 or more; fix tokenizer_config.json."
            )
        limits.append(min(int(of_tokenizer), 10**9))
        for name, table in self.model.named_modules():
            if name.endswith("position_embeddings") and isinstance(table, nn.Embedding):
                # where padding takes a row, counting starts after it
                n_reserved = 0 if table.padding_idx is None else table.padding_idx + 1
                limits.append(table.num_embeddings - n_reserved)
        return min(limits)

    @property
    def device(self) -> torch.device:
        """Where the model is; of one spread over several devices, where its first weights are."""
        devices = (weight.device for weight in self.model.parameters())
        return next((d for d in devices if d.type != "meta"), torch.device("cpu"))

    @property
    def is_offloaded(self) -> bool:
        """Whether some weights are fetched from memory or disk only when they are used."""
        return any(weight.is_meta for weight in self.model.parameters())

    @property
    def n_layers(self) -> int:
        return len(self._anatomy.numbers)

    @property
    def n_heads(self) -> int:
        return self._anatomy.n_heads

    @property
    def layer_numbers(self) -> tuple[int, ...]:
        """The numbers of the layers it shows, from 0; a hybrid has others between them."""
        return self._anatomy.numbers

    @property
    def is_tapped(self) -> bool:
        """Whether the tap sees its attention, and so can change it."""
        return self._anatomy.observe is not tap.observe_outputs

    @property
    def is_sliced(self) -> bool:
        """Whether its maps are read slice by slice, where no analysis needs them whole."""
        return self.weights == "attention" and self._slicing is not Slicing.NONE

    def encode(self, examples: Sequence[Example], max_tokens: int) -> list[Encoding]:
        """The examples in tokens, truncated to `max_tokens`."""
        return self.encoder.encode(examples, max_tokens)

    def batch(self, encodings: Sequence[Encoding]) -> Batch:
        """Encodings of equal length, where the model is."""
        ids = [e.inputs["input_ids"] for e in encodings if "input_ids" in e.inputs]
        highest = max((int(of_example.max(initial=0)) for of_example in ids), default=0)
        if highest >= self._n_embeddings:
            raise ModelError(
                f"The tokenizer of {self.name} gives the token {highest}, but the model has "
                f"{self._n_embeddings} embeddings. Expected the tokenizer that belongs to the "
                "model; save them together, or resize the embeddings."
            )
        return Batch(tuple(encodings), self.device)

    @cached_property
    def _n_embeddings(self) -> int:
        return _count_embeddings(self.model)

    @contextmanager
    def prepared(self) -> Iterator[None]:
        """Ready for many batches: what each of them would set and take back is set once."""
        name = tap.NAME if self.is_tapped else "eager"
        with anatomy.eval_mode(self.model), tap.using_attention(self.model, name):
            yield

    def attend(self, batch: Batch, observe: Callable[[LayerAttention], None]) -> None:
        """Run the model and show every layer's attention, first layer first."""
        is_norm, has_sink, layers = self.weights == "norm", self.has_sink, count()
        observe = self._stop_after_last(observe)

        def show(output: tap.TapOutput) -> None:
            weights = self._norm_weights.compute(output) if is_norm else output.weights
            weights = weights.to(batch.device)  # a model may be spread over several devices
            anatomy.check_shape(weights, batch.n_tokens, self.name)
            visible = output.visible.to(weights.device)
            layer = LayerAttention(next(layers), weights, batch, visible, has_sink)
            n_groups = 0 if output.values is None else output.values.shape[1]
            observe(replace(layer, n_layers=self.n_layers, n_groups=n_groups))

        anatomy.run(self._anatomy.observe, self.model, batch.inputs, show)

    def read(
        self,
        batch: Batch,
        readings: Collection[Reading],
        n_rows: int,
        observe: Callable[[LayerAttention], None],
    ) -> None:
        """Run the model and show what is read of every layer, `n_rows` query rows at a time."""
        if not self.is_sliced:
            return self.attend(batch, observe)
        layers, shown = count(), list[LayerAttention]()
        observe = self._stop_after_last(observe)

        def begin(layer: SlicedLayer) -> Callable[[MapSlice], None]:
            weights = torch.empty(layer.shape, dtype=layer.dtype, device="meta")
            anatomy.check_shape(weights, batch.n_tokens, self.name)
            visible = layer.visible.to(batch.device)
            attention = LayerAttention(next(layers), weights, batch, visible, self.has_sink)
            attention = replace(attention, n_layers=self.n_layers, n_groups=layer.n_groups)
            totals = {reading: reading.begin(attention) for reading in readings}
            shown.append(replace(attention, readings=totals))

            def take(part: MapSlice) -> None:
                part = part._replace(weights=part.weights.to(batch.device))
                for reading, total in totals.items():
                    reading.add(total, part)

            return take

        def end(output: Tensor) -> None:
            # a weight that is no number makes the output of its row none
            finite = torch.isfinite(tap.at_least_float32(output).flatten(1).sum(1)).to(batch.device)
            observe(replace(shown.pop(), finite=finite))

        def observe_all(model: PreTrainedModel, inputs: Any, show: Any) -> None:
            observe_slices(model, inputs, self._slicing, n_rows, begin, end)

        return anatomy.run(observe_all, self.model, batch.inputs, lambda output: None)

    def _stop_after_last(
        self, observe: Callable[[LayerAttention], None]
    ) -> Callable[[LayerAttention], None]:
        """The observer, which ends the run once it saw the last layer: nothing more is read."""
        # Hooks that fetch weights (accelerate) also free them.
        if any(m._forward_hooks or "_hf_hook" in vars(m) for m in self._modules):
            return observe

        def show(attention: LayerAttention) -> None:
            observe(attention)
            if attention.layer == self.n_layers - 1:
                raise anatomy.AllSeen

        return show

    @cached_property
    def _modules(self) -> tuple[nn.Module, ...]:
        return tuple(self.model.modules())

    @cached_property
    def _slicing(self) -> Slicing:
        if self._anatomy.observe is not tap.observe_tap:
            return Slicing.NONE
        with anatomy.eval_mode(self.model):
            return find_slicing(self.model, self.batch_of_probe().inputs)

    def describe(self) -> dict[str, object]:
        """What the manifest says of the model."""
        return {
            "name": self.name,
            "revision": self.revision,
            "class": type(self.model).__name__,
            "digest": anatomy.weights_digest(self.model),
            "tokenizer": self.encoder.digest(),
            "special_tokens": special_names(self.batch_of_probe().encodings[0]),
            "weights": self.weights,
            "layers": self.n_layers,
            "heads": self.n_heads,
            "key_value_heads": self._anatomy.n_groups,
            "dtype": str(self.model.dtype).removeprefix("torch."),
            "device": str(self.device),
            "layer_numbers": [number + 1 for number in self.layer_numbers],
            "seen_by": "tap" if self.is_tapped else "output_attentions",
        }

    def without_head(self) -> "LoadedModel":
        """The model below its language-modelling head, with the same weights in memory."""
        model = cast(PreTrainedModel, self.model.base_model)
        base = wrap_model(model, self.encoder.tokenizer, self.name, self.revision)
        return replace(base, weights=self.weights)

    @property
    def has_sink(self) -> bool:
        """Whether some attention goes to a learned sink; what goes there adds nothing."""
        return self._anatomy.has_sink and self.weights == "attention"

    @property
    def scales_rows(self) -> bool:
        """Whether its weights are scaled as what its heads give is: by a sink outside of them."""
        return self._anatomy.observe is anatomy.observe_scaled

    def explain_fixed(self) -> str:
        """Why what its heads give cannot be altered, in a message; "" where it can."""
        why = self._anatomy.why_fixed
        return why and (
            f"The head outputs of {self.name} cannot be altered or weighted by norms: {why}. "
            f"Expected heads that add value vectors, once per layer, through that interface; use "
            f"--weights attention, and leave out analyses of gradients and of removed heads."
        )

    @property
    def layer_stack(self) -> Sequence[nn.Module]:
        """All layers in order, those without attention too; none where they are no plain list."""
        stack = self.model.get_submodule(self._anatomy.stack)
        return list(stack) if isinstance(stack, nn.ModuleList) else []

    @cached_property
    def _anatomy(self) -> anatomy.Anatomy:
        return anatomy.examine(self.model, self.batch_of_probe().inputs, self.name)

    def check_weights(self) -> None:
        """An error where the model cannot show the weights that are wanted."""
        if self.weights == "norm":
            _ = self._norm_weights

    @cached_property
    def _norm_weights(self) -> anatomy.NormWeights:
        if self._anatomy.why_fixed:
            raise ModelError(self.explain_fixed())
        return anatomy.NormWeights(
            anatomy.find_projections(self.model, self.batch_of_probe().inputs)
        )

    def batch_of_probe(self) -> Batch:
        """A few tokens, to see how the model behaves."""
        return self.batch(self.encode([anatomy.PROBE], min(anatomy.PROBE_TOKENS, self.max_tokens)))


class ModelView(Source[Any]):
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
    def layer_numbers(self) -> tuple[int, ...]:
        return self.model.layer_numbers

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
    if not hasattr(model, "config"):
        raise ModelError(
            f"An object of the type {type(model).__name__} is not a model. Expected a name, a "
            "folder, or a transformers model with its tokenizer; pass one of these."
        )
    if not isinstance(tokenizer, PreTrainedTokenizerBase):
        given = "without its tokenizer" if tokenizer is None else f"with {shorten(tokenizer)}"
        raise ModelError(
            f"A {type(model).__name__} object was given {given}. Expected a transformers model and "
            "its tokenizer; pass tokenizer=... too."
        )
    name = name or model.config.name_or_path or type(model).__name__
    whole = model if model.config.is_encoder_decoder else None
    model = model if whole is None else whole.get_encoder()
    if whole is not None and not isinstance(model, PreTrainedModel):
        raise ModelError(
            f"The encoder of {name} ({type(whole).__name__}) cannot be run alone: it has no "
            f"configuration. Expected an encoder-decoder whose encoder is a "
            "transformers model (BART, Marian, T5); choose another model."
        )
    encoder = Encoder(tokenizer, anatomy.argument_names(model), _count_embeddings(model))
    return LoadedModel(name, model, encoder, revision, whole=whole)


def _count_embeddings(model: PreTrainedModel) -> int:
    """How many tokens the model knows; without a table, any number of them."""
    try:
        return int(getattr(model.get_input_embeddings(), "num_embeddings", MANY))
    except NotImplementedError:
        return MANY


def refuse_offloaded(source: LoadedModel, why: str) -> None:
    """An error for what cannot be done while some weights are in memory or on disk alone."""
    if source.is_offloaded:
        raise ModelError(
            f"{source.name} is larger than the devices it was spread over, so {why}. Expected a "
            "model that fits; give it more memory (--max-memory), or leave this out."
        )
