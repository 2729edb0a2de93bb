"""READ FIRST: the three things one can add to headscope, and what flows between them.

    Corpus -> Example -> Source -> what is observed -> Analysis.measure -> sums by example
                                                                            |
                                  tables <- Analysis.summarize <- Tally <- (+)

A Corpus yields examples. A Source runs a model over a batch of them and shows what it observes,
layer by layer. An Analysis measures that, and turns the totals into tables. To add one, write a
class that fits and register its name: a line in `registry.py`, or an entry point of your own
package. The engine does the rest: batches, intervals, shards, resuming and files.
`headscope.testing` checks your class against what is said here.
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
    """What a corpus is read as: the option of the command line that names it."""

    TEXT = "text"  # segments of running text; long ones are cut
    TREEBANK = "treebank"  # sentences of words; long ones are left out
    COREF = "coref"  # documents with mentions; read in windows


class Annotation(StrEnum):
    """What examples can have, and analyses can need. A plug-in may use strings of its own."""

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
        """Its place among the layers that the source shows, from 0."""

    @property
    def batch(self) -> "Batch": ...

    def is_finite(self) -> "Tensor":
        """Which examples have no number that is NaN or infinite, on the numbers' own device."""


class Corpus(Protocol):
    """Examples, in the same order with the same unique ids each time it is iterated.

    A class that reads files also declares `roles` (CorpusRole) and `suffixes`, by which
    `open_corpus` finds it; one without `suffixes` is a corpus by its registered name.
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
        """Encodings of equal length, where the model is."""

    def attend(self, batch: "Batch", observe: Callable[[Shown], None]) -> None:
        """Run the model and show `observe` each layer once, in the order of its `Watch`."""

    def describe(self) -> dict[str, object]:
        """What the manifest says of the model; its "digest" names the weights."""


class SlicedSource(Source[Shown], Protocol):
    """A source of attention that can also show it slice by slice. The engine looks for `read`."""

    def read(
        self,
        batch: "Batch",
        readings: Collection["Reading"],
        n_rows: int,
        observe: Callable[[Shown], None],
    ) -> None:
        """As `attend`, with what is read off slices of `n_rows` query rows in the maps' place."""


class PreparedSource(Source[Shown], Protocol):
    """A source that can be made ready for many batches. The engine looks for `prepared`."""

    def prepared(self) -> AbstractContextManager[None]:
        """What every batch would set and take back is set once; all is as it was afterwards."""


def layer_numbers(source: Any) -> list[int]:
    """The numbers of the layers that a source shows, from 0, as people know them.

    A source that leaves layers out, such as those of a hybrid that have no attention, declares
    them as `layer_numbers`. `layer` of what it shows counts on without gaps.
    """
    return list(getattr(source, "layer_numbers", range(source.n_layers)))


if TYPE_CHECKING:
    AttentionSource: TypeAlias = Source[LayerAttention]
else:
    AttentionSource = Source  # the module that has LayerAttention loads torch


class Analysis(Protocol):
    """A question about a model. A frozen dataclass: it holds options, never data.

    Fields made with `headscope.options.option` are its options: the command line, `analyze()`, the
    manifest and the check whether two runs may be merged are derived from them.
    """

    # These four are attributes of the class.
    @property
    def name(self) -> str: ...

    @property
    def watches(self) -> Watch: ...

    @property
    def needs(self) -> frozenset[str]:
        """What of an example it reads (Annotation); empty: any text will do."""

    @property
    def tables(self) -> Mapping[str, tuple[str, ...]]:
        """The columns of each table it gives."""

    def measure(self, observed: Any) -> Mapping[str, "Tensor | Callable[[], Tensor]"]:
        """Sums and counts for one layer of a batch; the first axis of each array is the example.

        What is the same in every layer, or known at one alone, may be returned for that one alone.
        A function is called after the last layer: for what must be computed on the host, which
        would make a device wait at every layer.
        """

    def summarize(self, tally: "Tally") -> Mapping[str, "pd.DataFrame"]:
        """The tables, by name, that the totals of these arrays amount to."""


# What an analysis may have beside that. The engine looks for each by its name.


class RankedAnalysis(Analysis, Protocol):
    """One that can say which examples show a head at its best and at its worst."""

    def rank(self, values: Mapping[str, "Array"]) -> Mapping[str, "Array"]:
        """By ranking, a score of each example for each head: `[example, layer, head, ...]`.

        `values` is what `measure` gave for all layers, `[example, layer, ...]` each. NaN is for an
        example that has nothing to show.
        """


class ReadingAnalysis(Analysis, Protocol):
    """One that watches attention and never asks for whole maps: it is the cheaper for it.

    If all analyses of a pass are such, the maps are read slice by slice while the model runs.
    """

    @property
    def reads(self) -> Collection["Reading"]:
        """What it reads off the maps (`headscope.data.reading`)."""


class CrossAnalysis(Analysis, Protocol):
    """One that watches attention and can measure cross attention too.

    There queries and keys are different tokens: those of the target (`LayerAttention.batch`) and
    of the source (`LayerAttention.keys`).
    """

    @property
    def measures_cross(self) -> bool: ...


class LayersAnalysis(Analysis, Protocol):
    """One that compares layers (`Watch.compares_layers`)."""

    @property
    def rows(self) -> int:
        """The most query rows of an example that it is shown."""

    @property
    def max_heads(self) -> int:
        """The most heads that it is shown, of larger models evenly spread ones of each layer."""


class ChangeAnalysis(Analysis, Protocol):
    """One that watches changes (`Watch.CHANGE`)."""

    @property
    def heads(self) -> Collection[tuple[int, int]] | None:
        """The heads to alter (layer, head, from 0); None: all."""


class UntrainedAnalysis(Analysis, Protocol):
    """One that puts the same model without its training beside the model (`--null`)."""

    def add_untrained(
        self,
        tables: Mapping[str, "pd.DataFrame"],
        tally: "Tally",
        untrained: Sequence["Tally"],
    ) -> Mapping[str, "pd.DataFrame"]:
        """Its tables with what the totals of untrained models say, one tally for each draw."""


class JoinedAnalysis(Analysis, Protocol):
    """One that has something to say about all corpora together."""

    def join_corpora(self, tables: Mapping[str, "pd.DataFrame"]) -> Mapping[str, "pd.DataFrame"]:
        """Its tables of all passes, joined, with what follows from them together."""


class RepeatedAnalysis(Analysis, Protocol):
    """One that reads its corpus a second time, knowing what the first reading gave."""

    @property
    def repeats_after(self) -> frozenset[str]:
        """The analyses whose totals it wants to know; empty: it does not repeat."""

    def repeat(self, tallies: Mapping[str, "Tally"]) -> Analysis:
        """The analysis of the second reading."""

    def add_repeat(
        self, tables: Mapping[str, "pd.DataFrame"], repeated: Mapping[str, "pd.DataFrame"]
    ) -> Mapping[str, "pd.DataFrame"]:
        """Its tables with those of the second reading."""


class UnmergeableAnalysis(Analysis, Protocol):
    """One whose sums over different corpora do not add."""

    @property
    def not_mergeable(self) -> str:
        """Why, in a sentence."""
