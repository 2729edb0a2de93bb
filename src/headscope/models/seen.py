"""A model seen in another way than by its attention: what stays the same."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from headscope.data.encoding import Batch, Encoding
from headscope.data.example import Example
from headscope.models.loaded import LoadedModel

__all__ = ["SeenModel"]


class SeenModel(ABC):
    """All of a source of attention but `attend`, by the model behind it."""

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
        """The examples in tokens, truncated to `max_tokens`."""
        return self.model.encode(examples, max_tokens)

    def batch(self, encodings: Sequence[Encoding]) -> Batch:
        """Encodings of equal length, where the model is."""
        return self.model.batch(encodings)

    def describe(self) -> dict[str, object]:
        """What the manifest says of the model."""
        return self.model.describe()
