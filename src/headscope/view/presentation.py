"""How an analysis is shown: a section of the page and a list of specs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pandas as pd

from headscope.data.example import Example
from headscope.data.table import Tables
from headscope.registry import load_presentations
from headscope.view.judge import Claim
from headscope.view.specs import Figure
from headscope.view.table import TextTable

__all__ = [
    "ALL_HEADS", "ANTECEDENTS", "CROSS", "IMPORTANCE", "LANGUAGE_MODELS", "LEAST_SHARE", "MAP",
    "MORE", "PAIR", "SURFACE", "SYNTAX", "DerivedTables", "MapOptions", "NotableHead",
    "Presentation", "Section", "list_specs",
]  # fmt: skip

LEAST_SHARE = 0.2  # of attention, for a head to be shown for a behaviour

Spec = TypeVar("Spec")


@dataclass(frozen=True)
class Section:
    """A part of the report."""

    id: str
    title: str
    intro: str


SURFACE = Section(
    "surface",
    "Surface patterns",
    "Where attention goes, without regard to grammar: to neighbours, to special tokens, or to "
    "everything (sections 3.1 to 3.3). Click a dot to open the head's card.",
)
LANGUAGE_MODELS = Section(
    "language-models",
    "What heads of language models are known for",
    "Patterns that the literature on language models names: induction, copying, retrieval, sinks, "
    "and how far heads reach. Each is measured beside what chance would give.",
)
IMPORTANCE = Section(
    "does-it-matter",
    "Does it matter?",
    "Attention that can change without effect is a no-op. Gradients and ablation show which "
    "attention the model depends on (section 3.2).",
)
SYNTAX = Section(
    "syntax",
    "Syntax",
    "Single heads as parsers, without training: the most attended word is the prediction. The "
    "baseline is the best fixed offset. Held out: the head is chosen on seven eighths of the "
    "documents and scored on the rest (section 4.2).",
)
ANTECEDENTS = Section(
    "antecedents",
    "Coreference",
    "Which earlier mention does a mention attend to most? Three baselines need no model (section "
    "4.3).",
)
ALL_HEADS = Section(
    "all-heads",
    "All heads together",
    "Small classifiers over the attention of all heads, trained on one treebank and scored on "
    "another: how much syntax all heads hold together (section 5).",
)
MAP = Section(
    "map",
    "Map of heads",
    "Heads that attend alike lie close together. Distances are Jensen-Shannon divergences between "
    "attention distributions (section 6).",
)
CROSS = Section(
    "cross",
    "Cross attention",
    "How the decoder reads the source: in which order, and whether it attends to the words that "
    "it translates.",
)
PAIR = Section(
    "pair",
    "Matched heads",
    "Each head of the first model is matched with the head of the second that attends most like "
    "it, one to one, by the mean Jensen-Shannon divergence (0 identical, 0.69 disjoint).",
)
MORE = Section("more", "More figures", "From other packages.")


@dataclass(frozen=True)
class NotableHead:
    """A head (counted from 0) that is shown on its best and worst examples, and what for."""

    title: str
    ranking: str  # of the analysis
    layer: int
    head: int
    more: tuple[int, ...] = ()  # the further axes of the ranking
    # The pairs of words that it should find in an example, as attention runs; None: about tokens.
    pairs: Callable[[Any, Example], list[tuple[int, int]]] | None = None


@dataclass(frozen=True)
class MapOptions:
    """How tables are derived: a user may set other thresholds and numbers."""

    seed: int = 0
    thresholds: Mapping[str, float] = field(default_factory=dict)
    n_clusters: int | None = None


@dataclass(frozen=True)
class DerivedTables:
    """Tables made from those of all analyses, what the manifest says of them, and in words."""

    tables: dict[str, pd.DataFrame]
    facts: dict[str, Any]
    shown: tuple[TextTable, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Presentation:
    """All that is shown of one analysis: a section of the page and a list of specs.

    Figures and claims that leave them out take `made_by`, `paper` (its section) and `figure`.
    """

    section: Section = MORE
    show: Sequence[Any] = ()
    made_by: str = "--text FILE"
    paper: str = ""
    figure: str | None = None
    notable_heads: Callable[[Tables], list[NotableHead]] = lambda tables: []
    derive: Callable[[Tables, MapOptions], DerivedTables | None] | None = None

    def specs(self, kind: type[Spec]) -> Iterator[Spec]:
        """Its specs of a kind."""
        return (self._complete(spec) for spec in self.show if isinstance(spec, kind))

    def _complete(self, spec: Any) -> Any:
        if isinstance(spec, Figure):
            return replace(spec, made_by=spec.made_by or self.made_by)
        if not isinstance(spec, Claim):
            return spec
        return replace(
            spec,
            section=spec.section or self.paper,
            made_by=spec.made_by or self.made_by,
            figure=self.figure if spec.figure == "" else spec.figure,
        )


def list_specs(kind: type[Spec]) -> list[Spec]:
    """The specs of a kind of all analyses, in the order of the registry."""
    return [spec for shown in load_presentations().values() for spec in shown.specs(kind)]
