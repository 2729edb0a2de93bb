"""READ FIRST: the three things you can add to headscope, and what flows between them.

    Corpus -> Example -> Source -> what is observed -> Analysis.measure -> sums by example
                                                                            |
                                  tables <- Analysis.summarize <- Tally <- (+)

A Corpus yields examples. A Source runs a model over a batch of them and shows what it observes,
layer by layer. An Analysis measures that, and turns the totals into tables. To add one, write a
class that follows its protocol and register its name: a line in `registry.py`, or an entry point of
your own package. The engine does the rest: batches, intervals, shards, resuming and files.
`headscope.testing` checks your class against these protocols.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray
    from torch import Tensor

    from headscope.data.attention import LayerAttention
    from headscope.data.encoding import Batch, Encoding
    from headscope.data.example import Example
    from headscope.data.reading import Reading
    from headscope.stats.tally import Tally

    Array = NDArray[np.floating[Any]]

__all__ = [
    "Analysis",
    "Annotation",
    "AttentionKind",
    "AttentionSource",
    "Corpus",
    "CorpusRole",
    "Observation",
    "Source",
    "Watch",
    "layer_numbers",
]


class CorpusRole(StrEnum):
    """How a corpus is read: the name of its option on the command line."""

    TEXT = "text"  # segments of running text; long ones are cut
    TREEBANK = "treebank"  # sentences of words; long ones are left out
    COREF = "coref"  # documents with mentions; read in windows

    @property
    def unit(self) -> str:
        """What its examples are called."""
        return {"treebank": "sentences", "coref": "documents"}.get(self, "examples")


class Annotation(StrEnum):
    """What examples can have, and analyses can need. A plug-in may use its own strings."""

    TEXT = "text"
    WORDS = "words"
    DEPENDENCIES = "dependency trees"
    TAGS = "parts of speech"
    COREFERENCE = "coreference chains"
    PRONOUN_CHOICES = "pronoun choices"
    TARGETS = "target texts"  # text_pair is what a decoder writes when its encoder reads text
    ALIGNMENTS = "gold alignments"  # of the words of text and text_pair


class AttentionKind(StrEnum):
    """Whose attention it is in an encoder-decoder. Other models have one kind, without a name."""

    ENCODER = "encoder"  # among the tokens of the source
    DECODER = "decoder"  # from a token of the target to earlier ones
    CROSS = "cross"  # from tokens of the target to those of the source


class Watch(Enum):
    """What a source emits and an analysis measures, as `headscope.data.attention` defines it."""

    ATTENTION = "attention"  # LayerAttention, first layer first
    ALL_LAYERS = "attention of all layers"  # AttentionRows, once a batch, after the last layer
    MODEL_PAIR = "attention of two models"  # AttentionRows of both, the first model's layers first
    CROSS_ATTENTION = "cross attention"  # LayerAttention of the kind CROSS alone
    GRADIENT = "gradients"  # LayerGradient, last layer first
    CHANGE = "changes"  # LayerChange, first layer first

    @property
    def is_costly(self) -> bool:
        """Whether it costs more than a forward pass, so that a user must ask for it."""
        return self in (Watch.GRADIENT, Watch.CHANGE)

    @property
    def compares_layers(self) -> bool:
        """Whether all layers are measured at once."""
        return self in (Watch.ALL_LAYERS, Watch.MODEL_PAIR)


class Observation(Protocol):
    """What a source shows of one layer of a batch. Numbers are float32 (or float64), never half."""

    @property
    def layer(self) -> int:
        """Its index among the layers that the source shows, from 0."""

    @property
    def batch(self) -> "Batch": ...

    def is_finite(self) -> "Tensor":
        """Which examples have only finite numbers, on the device of the numbers."""


class Corpus(Protocol):
    """Examples, in the same order with the same unique ids each time it is iterated.

    A class that reads files also declares `roles` (CorpusRole) and `suffixes`, by which
    `open_corpus` finds it; one without `suffixes` is opened by its registered name.
    """

    @property
    def name(self) -> str: ...

    @property
    def provides(self) -> frozenset[str]:
        """What all its examples have (Annotation)."""

    def __iter__(self) -> Iterator["Example"]: ...

    def digest(self) -> str:
        """A hash of the content: the same text gives the same digest."""


Shown = TypeVar("Shown", covariant=True)


class Source(Protocol[Shown]):
    """A model that shows one kind of observation."""

    @property
    def emits(self) -> Watch: ...

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
        """Encodings of equal length, on the device of the model."""

    def attend(self, batch: "Batch", observe: Callable[[Shown], None]) -> None:
        """Run the model and show `observe` each layer once, in the order of its `Watch`."""

    def describe(self) -> dict[str, object]:
        """What the manifest says about the model; its "digest" identifies the weights."""


class SlicedSource(Source[Shown], Protocol):
    """A source of attention that can also show it slice by slice. The engine looks for `read`."""

    def read(
        self,
        batch: "Batch",
        readings: Collection["Reading"],
        n_rows: int,
        observe: Callable[[Shown], None],
    ) -> None:
        """As `attend`, with readings of slices of `n_rows` query rows instead of maps."""


class PreparedSource(Source[Shown], Protocol):
    """A source that can be made ready for many batches. The engine looks for `prepared`."""

    def prepared(self) -> AbstractContextManager[None]:
        """Set once what every batch would set and reset; everything is restored afterwards."""


class ChoosingSource(Source[Shown], Protocol):
    """A source that cannot show some examples. The engine looks for `explain_unusable`."""

    def explain_unusable(self, encoding: "Encoding") -> str:
        """Why an example is skipped, which is counted; empty: it can be used."""


def layer_numbers(source: Any) -> list[int]:
    """The model's own numbers of the layers that a source shows, from 0.

    A source that leaves out layers, such as those without attention in a hybrid model, declares
    `layer_numbers`. The `layer` of what it shows is counted without gaps.
    """
    return list(getattr(source, "layer_numbers", range(source.n_layers)))


if TYPE_CHECKING:
    AttentionSource: TypeAlias = Source[LayerAttention]
else:
    AttentionSource = Source  # the module that has LayerAttention loads torch


class Analysis(Protocol):
    """A question about a model. A frozen dataclass: it holds options, never data.

    Fields made with `headscope.options.option` are its options. The command line, `analyze()`, the
    manifest and the check before a merge are derived from them.
    """

    # These four are attributes of the class.
    @property
    def name(self) -> str: ...

    @property
    def watches(self) -> Watch: ...

    @property
    def needs(self) -> frozenset[str]:
        """The annotation that its examples must have (Annotation); empty: any text works."""

    @property
    def tables(self) -> Mapping[str, tuple[str, ...]]:
        """The columns of each table it makes."""

    def measure(self, observed: Any) -> Mapping[str, "Tensor | Callable[[], Tensor]"]:
        """Sums and counts for one layer of a batch; the first axis of each array is the example.

        A value that is the same in every layer, or known only at one, may be returned for one layer
        only. A value may be a function, which is called after the last layer: use this for work on
        the CPU, which would otherwise make the device wait at every layer.
        """

    def summarize(self, tally: "Tally") -> Mapping[str, "pd.DataFrame"]:
        """The tables, by name, made from the totals of these arrays."""


# What an analysis may have beside that. The engine looks for each by its name.


class RankedAnalysis(Analysis, Protocol):
    """An analysis that ranks examples: where does a head do best and worst?"""

    def rank(self, values: Mapping[str, "Array"]) -> Mapping[str, "Array"]:
        """By ranking, a score of each example for each head: `[example, layer, head, ...]`.

        `values` is the result of `measure` for all layers, `[example, layer, ...]` each. NaN marks
        an example without a score.
        """


class ReadingAnalysis(Analysis, Protocol):
    """An analysis of attention that never needs whole maps, which makes it faster.

    If all analyses of a pass are of this kind, maps are read slice by slice while the model runs.
    """

    @property
    def reads(self) -> Collection["Reading"]:
        """What it reads from the maps (`headscope.data.reading`)."""


class FinishedAnalysis(Analysis, Protocol):
    """An analysis that ends its work on a batch for all layers at once, which makes it faster."""

    def finish(self, values: Mapping[str, "Tensor"], batch: "Batch") -> Mapping[str, "Tensor"]:
        """The sums and counts of a batch, `[example, layer, ...]` each.

        `values` is what `measure` returned for all layers, `[example, layer, ...]`. It may then
        return any arrays by example, not only sums.
        """


class CrossAnalysis(Analysis, Protocol):
    """An analysis of attention that can also measure cross attention.

    There queries and keys are different tokens: those of the target (`LayerAttention.batch`) and
    of the source (`LayerAttention.keys`).
    """

    @property
    def measures_cross(self) -> bool: ...


class TextMeans(Analysis, Protocol):
    """An analysis of means over text, in which documents weigh alike (`--weigh`)."""

    @property
    def weighs_documents(self) -> bool: ...


class LayersAnalysis(Analysis, Protocol):
    """An analysis that compares layers (`Watch.compares_layers`)."""

    @property
    def rows(self) -> int:
        """The maximum number of query rows per example that it gets."""

    @property
    def max_heads(self) -> int:
        """The maximum number of heads that it gets, evenly spread over each layer."""


class ChangeAnalysis(Analysis, Protocol):
    """An analysis of changes (`Watch.CHANGE`)."""

    @property
    def heads(self) -> Collection[tuple[int, int]] | None:
        """The heads to alter (layer, head, from 0); None: all."""


class UntrainedAnalysis(Analysis, Protocol):
    """An analysis that also compares with the same model untrained (`--null`)."""

    def add_untrained(
        self,
        tables: Mapping[str, "pd.DataFrame"],
        tally: "Tally",
        untrained: Sequence["Tally"],
    ) -> Mapping[str, "pd.DataFrame"]:
        """Its tables with columns from the totals of untrained models, one tally for each draw."""


class JoinedAnalysis(Analysis, Protocol):
    """An analysis that also summarizes all corpora together."""

    def join_corpora(self, tables: Mapping[str, "pd.DataFrame"]) -> Mapping[str, "pd.DataFrame"]:
        """Its joined tables of all passes, with the summary over all corpora."""


class UnmergeableAnalysis(Analysis, Protocol):
    """An analysis whose sums over different corpora cannot be added."""

    @property
    def not_mergeable(self) -> str:
        """Why, in a sentence."""
