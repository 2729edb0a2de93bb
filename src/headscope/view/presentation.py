"""How an analysis is shown: one record in its `show.py`, found through the registry."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from headscope.data.example import Example
from headscope.data.table import Tables
from headscope.registry import load_presentations
from headscope.view.answer import AnswerMaker
from headscope.view.behaviour import Behaviour, Labels, behaviour_table
from headscope.view.card import FactMaker
from headscope.view.claim import Claim, PairClaim
from headscope.view.figure import Figure
from headscope.view.table import TextTable

__all__ = [
    "ALL_HEADS",
    "ANTECEDENTS",
    "CROSS",
    "IMPORTANCE",
    "LEAST_SHARE",
    "MAP",
    "MORE",
    "PAIR",
    "SURFACE",
    "SYNTAX",
    "DerivedTables",
    "MapOptions",
    "NotableHead",
    "PageTable",
    "Presentation",
    "PrintedTable",
    "Section",
    "find_notable_heads",
]

LEAST_SHARE = 0.2  # of attention, for a head to be shown for a behaviour


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
IMPORTANCE = Section(
    "importance",
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
class PrintedTable:
    """A table of the run that the terminal prints; without `read` only as CSV and JSON.

    `read` is told the least number of words that a row must stand for.
    """

    name: str
    read: Callable[[pd.DataFrame, int], list[TextTable]] | None = None


@dataclass(frozen=True)
class PageTable:
    """A table of the paper for this model, on the page; one for every corpus."""

    title: str
    made_by: str  # what to add to `headscope analyze MODEL` to have it; "": nothing would
    build: Callable[[Tables], list[TextTable]]


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
    """All that is shown of one analysis; every part may be absent."""

    section: Section = MORE
    figures: tuple[Figure, ...] = ()
    claims: tuple[Claim, ...] = ()
    pair_claims: tuple[PairClaim, ...] = ()  # about two models, judged where runs are compared
    answers: tuple[AnswerMaker, ...] = ()  # sentences for the answer in short
    facts: tuple[FactMaker, ...] = ()  # what the card of a head says
    printed: tuple[PrintedTable, ...] = ()
    page_tables: tuple[PageTable, ...] = ()
    behaviours: tuple[Behaviour, ...] = ()
    labels: tuple[Labels, ...] = ()
    notable_heads: Callable[[Tables], list[NotableHead]] = lambda tables: []
    derive: Callable[[Tables, MapOptions], DerivedTables | None] | None = None


def find_notable_heads(analysis: str, tables: Tables) -> list[NotableHead]:
    """The heads worth showing for an analysis, by its tables: the strongest of each behaviour that
    gives it a share worth seeing, then those of its own choice."""
    shown: Presentation | None = load_presentations().get(analysis)
    if shown is None:
        return []
    measured = behaviour_table(tables)
    found = []
    for behaviour in shown.behaviours:
        is_strong = (measured["behaviour"] == behaviour.name) & (measured["share"] > LEAST_SHARE)
        if behaviour.ranking and is_strong.any():
            layer, head = measured[is_strong][["layer", "head"]].iloc[0].astype(int)
            found.append(NotableHead(behaviour.name, behaviour.ranking, layer - 1, head - 1))
    return [*found, *shown.notable_heads(tables)]
