"""READ FIRST: the three things one can add to headscope.

A Corpus yields examples, an AttentionSource turns a batch of them into attention one layer at a
time, and an Analysis measures it. To add one, write a class that fits and register its name: a
line in `registry.py`, or an entry point of your own package. The engine does the rest: batches,
bootstrap replicates, folds, shards, resuming and files.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray
    from torch import Tensor

    from headscope.data.attention import LayerAttention
    from headscope.data.encoding import Batch, Encoding
    from headscope.data.example import Example
    from headscope.data.rows import AttentionRows
    from headscope.data.tally import Tally

    Array = NDArray[np.floating[Any]]

__all__ = ["Analysis", "AttentionSource", "Corpus", "LayersAnalysis", "RankedAnalysis"]


class Corpus(Protocol):
    """Examples, in the same order with the same unique ids each time it is iterated."""

    @property
    def name(self) -> str: ...

    @property
    def provides(self) -> frozenset[str]:
        """What its examples have: "text", "words", "dependencies", "coreference"."""

    def __iter__(self) -> Iterator["Example"]: ...

    def digest(self) -> str:
        """A hash of the content: the same text gives the same digest."""


class AttentionSource(Protocol):
    """A model whose attention can be seen."""

    @property
    def name(self) -> str: ...

    @property
    def n_layers(self) -> int: ...

    @property
    def n_heads(self) -> int: ...

    @property
    def max_tokens(self) -> int:
        """The longest input the model takes."""

    def encode(self, examples: Sequence["Example"], max_tokens: int) -> list["Encoding"]:
        """The examples in tokens, truncated to `max_tokens`."""

    def batch(self, encodings: Sequence["Encoding"]) -> "Batch":
        """Encodings of equal length, where the model is."""

    def attend(self, batch: "Batch", observe: Callable[["LayerAttention"], None]) -> None:
        """Run the model and show `observe` every layer's attention in turn, first layer first."""

    def describe(self) -> dict[str, object]:
        """What the manifest says of the model; its "digest" names the weights."""


class Analysis(Protocol):
    """A question about attention. It holds options, never data."""

    name: ClassVar[str]
    needs: ClassVar[frozenset[str]]  # what of an example it reads; empty: any text will do
    tables: ClassVar[Mapping[str, tuple[str, ...]]]  # the columns of each table it gives

    def measure(self, attention: "LayerAttention") -> Mapping[str, "Tensor"]:
        """Sums and counts for one layer of a batch; the first axis of each array is the example.

        What is the same in every layer, or known at one alone, may be returned for that one alone.
        """

    def summarize(self, tally: "Tally") -> Mapping[str, "pd.DataFrame"]:
        """The tables, by name, that the totals of these arrays amount to."""


class RankedAnalysis(Analysis, Protocol):
    """An analysis that can say which examples show a head at its best and at its worst."""

    def rank(self, values: Mapping[str, "Array"]) -> Mapping[str, "Array"]:
        """By role, a score of each example for each head: `[example, layer, head, ...]`.

        `values` is what `measure` gave for all layers, `[example, layer, ...]` each. NaN is for an
        example that has nothing to show.
        """


class LayersAnalysis(Protocol):
    """An analysis that compares layers; it serves wherever an Analysis does.

    It gets the same query rows of all layers at once, at most `rows` of each example.
    """

    name: ClassVar[str]
    needs: ClassVar[frozenset[str]]
    tables: ClassVar[Mapping[str, tuple[str, ...]]]

    @property
    def rows(self) -> int: ...

    def measure_layers(self, attention: "AttentionRows") -> Mapping[str, "Tensor"]:
        """Sums and counts for a batch; the first axis of each array is the example."""

    def summarize(self, tally: "Tally") -> Mapping[str, "pd.DataFrame"]:
        """The tables, by name, that the totals `[fold, replicate, 1, ...]` amount to."""
