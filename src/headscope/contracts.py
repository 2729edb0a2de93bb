"""READ FIRST: the three things you can add to headscope, and what flows between them.

    Corpus -> Example -> Source -> Readings of all layers -> Analysis.measure -> sums by example
                                                                                  |
                       tables <- Estimates <- Analysis.summarize <- labelled Sums <- (+)

A Corpus yields examples. A Source runs a model over a batch of them and shows every layer. An
Analysis names what is read off each layer, measures the readings of all layers once a batch, and
turns the sums into tables. To add a source or an analysis, derive a class and register its name: a
line in `registry.py`, or an entry point of your own package. A corpus need only have the same
parts. The engine does the rest: batches, intervals, shards, resuming and files.
`headscope.testing` checks your class.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from jaxtyping import Bool
    from numpy.typing import NDArray
    from torch import Tensor

    from headscope.data.attention import LayerAttention
    from headscope.data.encoding import Batch, Encoding
    from headscope.data.example import Example
    from headscope.data.reading import AnyReading, Reading
    from headscope.stats.estimates import Summary
    from headscope.stats.sums import Sums

    TablesOf = Callable[["Analysis"], Mapping[str, pd.DataFrame]]
    Array = NDArray[np.floating[Any]]

__all__ = [
    "Analysis", "Annotation", "AttentionKind", "AttentionSource", "Corpus", "CorpusRole",
    "Observation", "Source", "Watch",
]  # fmt: skip


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
    REPEATS = "repeated random tokens"  # the second half of the words is the first once more
    NEEDLES = "facts hidden in a text"  # `corpora.needles` has what its words are


class AttentionKind(StrEnum):
    """Whose attention it is in an encoder-decoder. Other models have one kind, without a name."""

    ENCODER = "encoder"  # among the tokens of the source
    DECODER = "decoder"  # from a token of the target to earlier ones
    CROSS = "cross"  # from tokens of the target to those of the source


class Watch(Enum):
    """What a source emits and an analysis measures, as `headscope.data.attention` defines it."""

    ATTENTION = "attention"  # LayerAttention, first layer first
    MODEL_PAIR = "attention of two models"  # LayerAttention of both, the first model's layers first
    CROSS_ATTENTION = "cross attention"  # LayerAttention of the kind CROSS alone
    GRADIENT = "gradients"  # LayerGradient, last layer first
    CHANGE = "changes"  # LayerChange, first layer first
    COPYING = "head-outputs"  # LayerCopying, first layer first
    HEAD_SETS = "head-sets"  # HeadSetLosses, once: predictions without sets of heads

    @property
    def is_costly(self) -> bool:
        """Whether it costs more than a forward pass, so that a user must ask for it."""
        return self in (Watch.GRADIENT, Watch.CHANGE, Watch.HEAD_SETS, Watch.COPYING)


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

    if TYPE_CHECKING:  # attributes or properties; none here, as dataclasses take them for defaults

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

    # What follows has a default: derive from this class, and change what you need.

    @property
    def layer_numbers(self) -> Sequence[int]:
        """The model's own numbers of the layers that are shown, from 0.

        Other than 0, 1, 2 ... in a source that leaves out layers, such as those without attention
        in a hybrid model. The `layer` of what it shows is counted without gaps.
        """
        return range(self.n_layers)

    def read(
        self,
        batch: "Batch",
        readings: Collection["Reading"],
        n_rows: int,
        observe: Callable[[Shown], None],
    ) -> None:
        """As `attend`; a faster source gives readings of slices of `n_rows` rows, and no maps."""
        self.attend(batch, observe)

    def prepared(self) -> AbstractContextManager[None]:
        """Set once what every batch would set and reset; everything is restored afterwards."""
        return nullcontext()

    def explain_unusable(self, encoding: "Encoding") -> str:
        """Why an example is skipped, which is counted; empty: it can be used."""
        return ""


if TYPE_CHECKING:
    AttentionSource: TypeAlias = Source[LayerAttention]
else:
    AttentionSource = Source  # the module that has LayerAttention loads torch


@dataclass(frozen=True)
class Analysis(ABC):
    """A question about a model. With options it is a frozen dataclass: it never holds data.

    Fields made with `headscope.options.option` are its options. The command line, `analyze()`, the
    manifest and the check before a merge are derived from them. A field `seed` gets the run's.
    """

    name: ClassVar[str]
    tables: ClassVar[Mapping[str, tuple[str, ...]]]  # the columns of each table it makes
    sums: ClassVar[Mapping[str, str]]  # the axes of each sum after the example (`stats.sums`)
    watches: ClassVar[Watch] = Watch.ATTENTION
    needs: ClassVar[frozenset[str]] = frozenset()  # what its examples must have (Annotation)
    measures_cross: ClassVar[bool] = False  # also cross attention: keys are those of the source
    weighs_documents: ClassVar[bool] = False  # means over text in which documents weigh alike
    compares_layers: ClassVar[bool] = False  # needs two layers; it has fields rows and max_heads
    not_mergeable: ClassVar[str] = ""  # why its sums over different corpora cannot be added
    on_request: ClassVar[bool] = False  # runs only when a user asks for it
    predicts: ClassVar[bool] = False  # reads what a language model predicts, where there is one

    @property
    def reads(self) -> "tuple[AnyReading, ...]":
        """What it reads from the maps while the model runs (`headscope.data.reading`)."""
        return ()

    @property
    def labels(self) -> Mapping[str, Sequence[Any]]:
        """The labels of the axes of its sums, but for layer, head and open axes."""
        return {}

    @abstractmethod
    def measure(self, seen: Any) -> Mapping[str, "Tensor | Mapping[str, Tensor]"]:
        """The sums and counts of each example of a batch, by the names and axes of `sums`.

        `seen` is `Readings` of all layers; `Gradients` or `Changes` if it watches these. Of a sum
        with an open axis there is an array for each label.
        """

    def make_corpus(self, text: "Corpus | None") -> "Corpus | None":
        """What it reads where no corpus has what it needs: made up, or made from the user's text.

        None: it cannot be made.
        """
        return None

    def altered_heads(self) -> Collection[tuple[int, int]] | None:
        """The heads to alter for `Watch.CHANGE` (layer, head, from 0); None: all."""
        return None

    def choose_head_sets(self, tables_of: "TablesOf") -> "Bool[np.ndarray, 'set layer head']":
        """For `Watch.HEAD_SETS`: sets of heads, each switched off at once; none in the first.

        `tables_of` gives the tables of another analysis over the same examples.
        """
        raise NotImplementedError(f"{self.name} chooses no sets of heads.")

    @abstractmethod
    def summarize(self, sums: "Sums") -> Mapping[str, "Summary"]:
        """The tables, by name: estimates made from the sums, or data frames. Never of no sums."""

    def rank(self, values: Mapping[str, "Array"]) -> Mapping[str, "Array"]:
        """By ranking, a score of each example for each head: `[example, layer, head, ...]`.

        `values` is what `measure` returned, by name (and label: "correct/nsubj"). NaN marks an
        example without a score. The best and worst examples of heads are shown.
        """
        return {}

    def join_corpora(self, tables: Mapping[str, "pd.DataFrame"]) -> Mapping[str, "pd.DataFrame"]:
        """Its joined tables of all passes, with a summary over all corpora."""
        return tables
