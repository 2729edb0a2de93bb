"""An encoder-decoder run whole: attention of its encoder, of its decoder, and across.

The encoder reads the text of an example. The decoder reads `text_pair`, shifted by one token: the
row of each token is where the model predicts the next one. One run shows all three kinds.
"""

import inspect
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel

from headscope.contracts import AttentionKind, Watch
from headscope.data.attention import LayerAttention
from headscope.data.encoding import Batch, Encoding
from headscope.data.example import Example
from headscope.errors import ModelError
from headscope.models import anatomy, tap
from headscope.models.encode import special_names
from headscope.models.loaded import LoadedModel, ModelView

__all__ = ["OneKind", "Part", "Seq2SeqModel"]

PROBE = Example("probe", text="a b c d e f g h", text_pair="a b")
ENCODER, DECODER, CROSS = AttentionKind
OUTPUTS = {
    ENCODER: "encoder_attentions",
    DECODER: "decoder_attentions",
    CROSS: "cross_attentions",
}


class Part(NamedTuple):
    """How much attention of one kind there is."""

    n_layers: int
    n_heads: int


@dataclass(frozen=True)
class Seq2SeqModel(ModelView):
    """An encoder-decoder with targets for its decoder; layers are numbered within their kind."""

    emits: ClassVar[Watch] = Watch.ATTENTION
    encoder: LoadedModel

    @property
    def model(self) -> LoadedModel:
        return self.encoder

    @cached_property
    def whole(self) -> PreTrainedModel:
        if self.encoder.whole is None:
            raise ModelError(
                f"{self.name} is not an encoder-decoder. Expected a model such as T5 or BART; "
                "choose one."
            )
        return self.encoder.whole

    @property
    def parts(self) -> Mapping[AttentionKind, Part]:
        """Layers and heads of each kind."""
        return self._probed[2]

    def encode(self, examples: Sequence[Example], max_tokens: int) -> list[Encoding]:
        """Sources with their targets, each truncated to `max_tokens`; no target is an empty one."""
        encoder = self.encoder.encoder
        if examples and all(example.is_drawn for example in examples):  # read and written alike
            drawn = [encoder.encode_drawn(example) for example in examples]
            return [replace(e, target=encoder.shift(e, self._opening_token(e))) for e in drawn]
        texts, pairs = [e.text or "" for e in examples], [e.text_pair or "" for e in examples]
        sources = encoder.encode_side(examples, texts, max_tokens, is_target=False)
        targets = encoder.encode_side(examples, pairs, max_tokens - 1, is_target=True)
        shifted = (encoder.shift(target, self._opening_token(target)) for target in targets)
        return [replace(s, target=t) for s, t in zip(sources, shifted, strict=True)]

    def attend(self, batch: Batch, observe: Callable[[LayerAttention], None]) -> None:
        """Run the model and show every layer's attention as it is computed."""
        how, order, _ = self._probed
        self._run(how, order, batch, observe)

    def describe(self) -> dict[str, object]:
        """What the manifest says of the model; layers and heads are those of the encoder."""
        kinds = {kind.value: part._asdict() for kind, part in self.parts.items()}
        how = "tap" if self._probed[0] is tap.observe_tap else "output_attentions"
        (encoding,) = self.encode([PROBE], self.max_tokens)
        assert encoding.target is not None  # PROBE has one
        opening = special_names(encoding.target)["opening"]
        return {
            **self.encoder.describe(),
            "special_tokens": {**special_names(encoding), "decoder opening": opening},
            "class": type(self.whole).__name__,
            "digest": anatomy.weights_digest(self.whole),
            "attention": kinds,
            "seen_by": how,
        }

    def _run(
        self,
        how: Callable[..., None],
        order: Sequence[AttentionKind] | None,
        batch: Batch,
        observe: Callable[[LayerAttention], None],
    ) -> None:
        """Show each layer; its kind is told by its place in `order`, without one by its shape."""
        n_source, n_target = batch.n_tokens, batch.target.n_tokens
        square, shapes = (n_target, n_target), {ENCODER: (n_source, n_source)}  # query, key
        shapes |= {DECODER: square, CROSS: (n_target, n_source)}
        n_calls, n_layers = 0, Counter[AttentionKind]()

        def show(output: tap.TapOutput) -> None:
            nonlocal n_calls
            shape = tuple(output.weights.shape[-2:])
            if order is None and shape not in shapes.values():
                raise ModelError(f"attention of shape {shape} is none of {[*shapes.values()]}")
            kinds = order[n_calls:] if order else [k for k in shapes if shapes[k] == shape]
            kind = kinds[0]
            if output.weights.ndim != 4 or shape != shapes.get(kind):
                raise ModelError(
                    f"{self.name} returns attention of shape {tuple(output.weights.shape)} for "
                    f"{batch.n_tokens} source and {batch.target.n_tokens} target tokens. Expected "
                    "one weight for each pair of tokens; choose another model."
                )
            is_norm = self.encoder.weights == "norm"
            weights = self._norm_weights.compute(output) if is_norm else output.weights
            observe(
                LayerAttention(
                    n_layers[kind],
                    weights,
                    batch if kind is ENCODER else batch.target,
                    output.visible.to(weights.device),
                    kind=kind,
                    key_batch=batch if kind is CROSS else None,
                    n_layers=1 if order is None else order.count(kind),
                )
            )
            n_calls += 1
            n_layers[kind] += 1

        extra = {"use_cache": False} if "use_cache" in anatomy.argument_names(self.whole) else {}
        with anatomy.eval_mode(self.whole):
            how(self.whole, {**self._inputs(batch), **extra}, show)

    def _inputs(self, batch: Batch) -> dict[str, Tensor]:
        known = anatomy.argument_names(self.whole)
        inputs = {name: value for name, value in batch.inputs.items() if name in known}
        return {**inputs, "decoder_input_ids": batch.target.inputs["input_ids"]}

    def _opening_token(self, written: Encoding) -> int:
        """The first token that the decoder reads: that of its config, or as in mBART, whose own
        function takes none, the last one that it is to write."""
        for parent in type(self.whole).__mro__:
            shift = getattr(sys.modules.get(parent.__module__), "shift_tokens_right", None)
            if callable(shift) and len(inspect.signature(shift).parameters) == 2:
                return int(written.inputs["input_ids"][-1])
        start = getattr(self.whole.config, "decoder_start_token_id", None)
        if start is None:
            raise ModelError(
                f"The config of {self.name} has no decoder_start_token_id, so the first token of "
                f"its decoder is unknown. Expected a token's number; set it in config.json."
            )
        return int(start)

    @cached_property
    def _norm_weights(self) -> anatomy.NormWeights:
        batch = self.batch(self.encode([PROBE], self.max_tokens))
        return anatomy.NormWeights(anatomy.find_projections(self.whole, self._inputs(batch)))

    @cached_property
    def _probed(
        self,
    ) -> tuple[Callable[..., None], tuple[AttentionKind, ...], dict[AttentionKind, Part]]:
        """How attention can be observed, in which order its kinds come, and how much there is."""
        batch = self.batch(self.encode([PROBE], self.max_tokens))
        if batch.n_tokens == batch.target.n_tokens:
            raise ModelError(
                f"The tokenizer of {self.name} returns as many tokens for two words as for eight. "
                "Expected one that splits text into tokens; save the model with its own tokenizer."
            )
        failures = []
        for how in (tap.observe_tap, _observe_outputs):
            layers: list[LayerAttention] = []
            try:
                self._run(how, None, batch, layers.append)
                order = tuple(layer.kind for layer in layers if layer.kind)
                return how, order, _count_parts(layers)
            except Exception as error:  # any model file may fail here in its own way
                failures.append(f"{type(error).__name__}: {error}")
        raise ModelError(
            f"The decoder of {self.name} ({type(self.whole).__name__}) cannot be seen: neither "
            f"through transformers' AttentionInterface ({failures[0]}) nor as output_attentions "
            f"({failures[1]}). Expected softmax attention with the same number of heads in every "
            "layer of a kind; choose another model."
        )


@dataclass(frozen=True)
class OneKind(ModelView):
    """One kind of attention of an encoder-decoder, as a source of its own."""

    emits: ClassVar[Watch] = Watch.ATTENTION
    whole: Seq2SeqModel
    kind: AttentionKind

    @property
    def model(self) -> LoadedModel:
        return self.whole.encoder

    @property
    def n_layers(self) -> int:
        return self.whole.parts[self.kind].n_layers

    @property
    def n_heads(self) -> int:
        return self.whole.parts[self.kind].n_heads

    @property
    def layer_numbers(self) -> tuple[int, ...]:
        return tuple(range(self.n_layers))

    def encode(self, examples: Sequence[Example], max_tokens: int) -> list[Encoding]:
        return self.whole.encode(examples, max_tokens)

    def attend(self, batch: Batch, observe: Callable[[LayerAttention], None]) -> None:
        """Run the model and show the layers of this kind."""
        self.whole.attend(batch, lambda layer: observe(layer) if layer.kind is self.kind else None)


def _count_parts(layers: Sequence[LayerAttention]) -> dict[AttentionKind, Part]:
    """Layers and heads of each kind, if there are all, and every row is a distribution."""
    parts: dict[AttentionKind, Part] = {}
    for kind in AttentionKind:
        of_kind = [layer.weights for layer in layers if layer.kind is kind]
        heads = {weights.shape[1] for weights in of_kind}
        if len(heads) != 1:
            raise ModelError(
                f"{len(of_kind)} layers of {kind} attention have {sorted(heads)} heads"
            )
        parts[kind] = Part(len(of_kind), heads.pop())
    error = max(float((layer.weights.sum(-1) - 1).abs().max()) for layer in layers)
    if error > anatomy.ROUNDING:
        raise ModelError(f"the sum of a row of weights differs from 1 by {error:.3g}")
    return parts


def _observe_outputs(
    model: PreTrainedModel, inputs: Mapping[str, Any], observe: Callable[[tap.TapOutput], None]
) -> None:
    with tap.using_attention(model, "eager"), torch.inference_mode():
        outputs = model(**inputs, output_attentions=True, return_dict=True)
    for kind, name in OUTPUTS.items():
        for weights in outputs.get(name) or ():
            causal = torch.ones_like(weights[:1, :1], dtype=torch.bool).tril()
            visible = tap.visible_keys(causal if kind is DECODER else None, weights)
            observe(tap.TapOutput(tap.at_least_float32(weights), visible))
