"""Two models that read the same text at once: the layers of one, then those of the other."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from headscope.contracts import Watch
from headscope.data.attention import LayerAttention
from headscope.data.encoding import Batch, Encoding
from headscope.data.example import Example
from headscope.errors import ModelError
from headscope.models.loaded import LoadedModel

__all__ = ["ModelPair"]

FIRST, SECOND = "first.", "second."  # before the names of each model's inputs


@dataclass(frozen=True)
class ModelPair:
    """Two models with one tokenizer as one source of attention."""

    emits: ClassVar[Watch] = Watch.MODEL_PAIR
    first: LoadedModel
    second: LoadedModel

    def __post_init__(self) -> None:
        self._refuse_other_tokens()

    def _refuse_other_tokens(self) -> None:
        one, other = (model.encoder.tokenizer.get_vocab() for model in (self.first, self.second))
        if one != other:
            n_shared = len(one.items() & other.items())
            raise ModelError(
                f"{self.first.name} and {self.second.name} have different tokenizers "
                f"({len(one)} and {len(other)} tokens, {n_shared} of them the same), so their "
                "attention is over different tokens. Expected two models with one vocabulary; "
                "compare words instead (`pair_models`)."
            )

    @property
    def name(self) -> str:
        return f"{self.first.name} and {self.second.name}"

    @property
    def n_layers(self) -> int:
        return self.first.n_layers + self.second.n_layers

    @property
    def n_heads(self) -> int:
        """The most heads that a layer of either has."""
        return max(self.first.n_heads, self.second.n_heads)

    @property
    def max_tokens(self) -> int:
        return min(self.first.max_tokens, self.second.max_tokens)

    def encode(self, examples: Sequence[Example], max_tokens: int) -> list[Encoding]:
        """The examples in tokens, with the inputs of both models."""
        both = (model.encode(examples, max_tokens) for model in (self.first, self.second))
        return [_join(one, other) for one, other in zip(*both, strict=True)]

    def batch(self, encodings: Sequence[Encoding]) -> Batch:
        """Encodings of equal length, where the models are."""
        return Batch(tuple(encodings), self.first.device)

    def attend(self, batch: Batch, observe: Callable[[LayerAttention], None]) -> None:
        """Run both and show their layers, numbered on from one model to the other."""
        n_before = 0

        def show(attention: LayerAttention) -> None:
            layer = n_before + attention.layer
            # rows of both are compared, so both have the key that a learned sink is
            observe(replace(attention, layer=layer, batch=batch, has_sink=self._has_sink))

        self.first.attend(_part(self.first, batch, FIRST), show)
        n_before = self.first.n_layers
        self.second.attend(_part(self.second, batch, SECOND), show)

    @property
    def _has_sink(self) -> bool:
        return self.first.has_sink or self.second.has_sink

    def describe(self) -> dict[str, object]:
        """What the manifest says of both."""
        first, second = self.first.describe(), self.second.describe()
        digest = f"{first['digest']}+{second['digest']}"
        return {"name": self.name, "digest": digest, "first": first, "second": second}


def _join(one: Encoding, other: Encoding) -> Encoding:
    if one.surfaces != other.surfaces:
        raise ModelError(
            f"The two models cut example {one.example.id!r} into different tokens ({len(one)} and "
            f"{len(other)}). Expected models whose tokenizers agree; choose another pair."
        )
    inputs = {FIRST + name: values for name, values in one.inputs.items()}
    inputs |= {SECOND + name: values for name, values in other.inputs.items()}
    return replace(one, inputs=inputs)


def _part(model: LoadedModel, batch: Batch, prefix: str) -> Batch:
    """The batch with the inputs of one model alone."""

    def keep_own(encoding: Encoding) -> Encoding:
        own = {n: values for n, values in encoding.inputs.items() if n.startswith(prefix)}
        return replace(encoding, inputs={n.removeprefix(prefix): v for n, v in own.items()})

    return model.batch([keep_own(encoding) for encoding in batch.encodings])
