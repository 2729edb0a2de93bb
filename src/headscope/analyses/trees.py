"""Whole parses from attention: maximum spanning trees over words, against trees without a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import nan
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Int
from numpy.typing import NDArray

from headscope.contracts import Analysis, Annotation
from headscope.data.attention import LayerAttention, Readings
from headscope.data.encoding import Batch
from headscope.data.example import ROOT
from headscope.data.reading import DerivedReading, Reading
from headscope.data.table import Tables, head_axes, rows_where, tidy_table
from headscope.data.words import (
    WordReading,
    check_query_pieces,
    query_pieces_option,
    word_weights,
    words_with_tokens,
)
from headscope.lazy import Tensor, torch
from headscope.stats.accuracy import SCORE_COLUMNS, score_columns
from headscope.stats.sums import Sums
from headscope.view.answer import Answer, AnswerMaker, Topic, write_percent
from headscope.view.facts import accuracy_facts
from headscope.view.judge import name_head, top_row
from headscope.view.numbers import SHARE, WHOLE_PERCENT, row_estimate
from headscope.view.presentation import SYNTAX, Presentation

__all__ = ["Trees"]

NO_HEAD = -2  # of a word whose head has no token
# Undirected trees, and directed ones that read the dependent's row or its column.
TREES = ("undirected", "dependent-to-head", "head-to-dependent")
BASELINES = {"adjacent chain": "undirected", "right-branching": "dependent-to-head"}

Count = Callable[[], Tensor]  # counts compiled, on the CPU


class Arcs(NamedTuple):
    """The gold arcs of a batch among the words that have tokens."""

    places: Int[NDArray[np.int64], "example place"]  # word of each place, -1 where there is none
    gold: Int[NDArray[np.int64], "example place"]  # place of the head, or ROOT, or NO_HEAD
    is_scored: Bool[NDArray[np.bool_], "example place"]


@dataclass(frozen=True)
class TreeArcs(DerivedReading):
    """How many gold arcs the tree of each head has, by kind of tree."""

    query_pieces: str

    @property
    def of(self) -> tuple[Reading, ...]:
        return (WordReading(self.query_pieces),)

    def derive(self, layer: LayerAttention) -> Tensor | Count:
        weights = word_weights(layer, self.query_pieces)  # [example, head, word, other]
        count = partial(_count_arcs, weights, _read_arcs(layer.batch))
        return count() if weights.device.type == "cpu" else count  # no device is waited for

    def join(self, layers: Sequence[Tensor | Count]) -> Tensor:
        counts = [count() if callable(count) else count for count in layers]
        return torch.stack(counts, dim=1)  # [example, layer, head, tree]


@dataclass(frozen=True)
class Trees(Analysis):
    """Arcs found by the maximum spanning tree over word attention, punctuation left out.

    Undirected trees sum both directions (UUAS); directed ones hang on the gold root and read the
    dependent's row or its column (UAS).
    """

    query_pieces: str = query_pieces_option()

    name = "trees"
    needs = frozenset({Annotation.WORDS, Annotation.DEPENDENCIES})
    sums = {
        "heads": "layer head tree", "arcs": "", **dict.fromkeys(BASELINES, ""),
    }  # fmt: skip
    labels = {"tree": list(TREES)}
    tables = {"trees": ("system", "layer", "head", "tree", *SCORE_COLUMNS)}

    def __post_init__(self) -> None:
        check_query_pieces(self.query_pieces)

    @property
    def reads(self) -> tuple[TreeArcs, ...]:
        return (TreeArcs(self.query_pieces),)

    def measure(self, seen: Readings) -> Mapping[str, Tensor]:
        """Arcs found by head and by the baselines, and the number of arcs."""
        baselines = _measure_baselines(_read_arcs(seen.batch)).items()
        once = {name: count.to(seen.batch.device) for name, count in baselines}
        return {"heads": seen[self.reads[0]], **once}

    def summarize(self, sums: Sums) -> Mapping[str, pd.DataFrame]:
        """Every head, then the baselines."""
        heads = sums.values("heads")  # [bucket, layer, head, tree]
        axes = {"system": ["head"], **head_axes(*heads.shape[1:3]), "tree": list(TREES)}
        rows = [tidy_table(axes, score_columns(heads, sums.values("arcs")))]
        for system, tree in BASELINES.items():
            axes = {"system": [system], "layer": [pd.NA], "head": [pd.NA], "tree": [tree]}
            rows.append(tidy_table(axes, score_columns(sums.values(system), sums.values("arcs"))))
        table = pd.concat(rows, ignore_index=True)
        return {self.name: table.astype({"layer": "Int64", "head": "Int64"})}


def _count_arcs(weights: Tensor, arcs: Arcs) -> Tensor:
    from headscope.kernels.spanning_tree import count_arcs  # numba: when it is used

    return torch.from_numpy(count_arcs(weights.cpu().numpy(), *arcs))  # [example, head, tree]


def _read_arcs(batch: Batch) -> Arcs:
    """The gold arcs of a batch, read once."""
    return batch.remember("arcs", lambda: _find_arcs(batch))


def _find_arcs(batch: Batch) -> Arcs:
    has_tokens = words_with_tokens(batch)
    shape = has_tokens.shape
    arcs = Arcs(np.full(shape, -1), np.full(shape, NO_HEAD), np.zeros(shape, bool))
    for i, encoding in enumerate(batch.encodings):
        tree = encoding.example.tree
        assert tree is not None  # `needs` saw to it
        words = np.flatnonzero(has_tokens[i])
        if ROOT not in [tree.heads[word] for word in words]:
            continue  # the root word has no token: no tree can hang on it
        place_of = {int(word): position for position, word in enumerate(words)}
        arcs.places[i, : len(words)] = words
        for word, position in place_of.items():
            arcs.gold[i, position] = ({ROOT: ROOT} | place_of).get(tree.heads[word], NO_HEAD)
            is_punctuation = tree.relations[word].partition(":")[0] == "punct"
            arcs.is_scored[i, position] = tree.heads[word] in place_of and not is_punctuation
    return arcs


def _measure_baselines(arcs: Arcs) -> dict[str, Tensor]:
    """Trees that need no model: each word tied to its neighbour, or hung on the next word."""
    position = np.arange(arcs.gold.shape[1])
    is_next = (arcs.gold == position + 1) & arcs.is_scored
    is_previous = (arcs.gold == position - 1) & arcs.is_scored
    hits = {
        "arcs": arcs.is_scored,
        "adjacent chain": is_next | is_previous,
        "right-branching": is_next,
    }
    return {name: torch.from_numpy(mask.sum(axis=1).astype(float)) for name, mask in hits.items()}


def answer_trees(tables: Tables) -> list[Answer]:
    """The head with the best whole trees, beside a chain of neighbours."""
    rows = rows_where(tables["trees"], tree="undirected")
    rows = rows[rows["accuracy"].notna()]
    heads, chain = (rows_where(rows, system=system) for system in ("head", "adjacent chain"))
    if heads.empty:
        return []
    row = top_row(heads, "accuracy")
    name, share = name_head(row), nan
    text = (
        f"Of all heads, {name} gives the best trees: {WHOLE_PERCENT.row(row, 'accuracy')} of the "
        "arcs are right (without direction; chosen on the same sentences)"
    )
    if len(chain):
        share = float(chain["accuracy"].iloc[0])
        text += f"; linking each word to its neighbour gets {write_percent(share)}"
    detail = f"{SHARE.row(row, 'accuracy')} of {row['count']} arcs, without direction."
    accuracy = row_estimate(row, "accuracy")
    return [Answer(f"{text}.", 0.4, detail, (name,), "", Topic.SUMMARY, accuracy, share)]


PRESENTATION = Presentation(SYNTAX, [
    AnswerMaker(("trees",), answer_trees),
    accuracy_facts(
        "whole trees, without direction", "trees", {}, system="head", tree="undirected"
    ),
])  # fmt: skip
