"""Whole parses from attention: maximum spanning trees over words, against trees without a model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Int
from numpy.typing import NDArray
from torch import Tensor

from headscope.data.attention import LayerAttention
from headscope.data.encoding import Batch
from headscope.data.replicates import fold_of
from headscope.data.table import empty_tables, head_axes, tidy_table
from headscope.data.tally import Tally
from headscope.data.tree import ROOT
from headscope.data.words import pool_words, word_weights
from headscope.kernels.tree_scores import SCORES, count_arcs

__all__ = ["Trees"]

NO_HEAD = -2  # of a word whose head has no token
HEADS, COMBINED = "head", "best heads combined"
BASELINES = {"adjacent chain": "undirected", "right-branching": "dependent-to-head"}
COMBINED_TREES = ["undirected", "dependent-to-head"]  # heads are turned so that rows are dependents
COLUMNS = ("system", "layer", "head", "tree", "correct", "count", "accuracy", "low", "high")

Head = tuple[int, int, int]  # layer, head, direction
Array = NDArray[np.floating[Any]]


class Arcs(NamedTuple):
    """The gold arcs of a batch among the words that have tokens."""

    places: Int[NDArray[np.int64], "example place"]  # word of each place, -1 where there is none
    gold: Int[NDArray[np.int64], "example place"]  # place of the head, or ROOT, or NO_HEAD
    is_scored: Bool[NDArray[np.bool_], "example place"]


@dataclass(frozen=True)
class Trees:
    """Arcs found by the maximum spanning tree over word attention, punctuation left out.

    Undirected trees sum both directions (UUAS); directed ones hang on the gold root and read the
    dependent's row or its column (UAS). With `combine`, which names heads for each fold, the words'
    attention is summed over those heads and only that combination is measured.
    """

    query_pieces: str = "mean"
    combine: Sequence[Sequence[Head]] = ()

    name: ClassVar[str] = "trees"
    needs: ClassVar[frozenset[str]] = frozenset({"words", "dependencies"})
    tables: ClassVar[dict[str, tuple[str, ...]]] = {"trees": COLUMNS}

    def measure(self, attention: LayerAttention) -> Mapping[str, Tensor]:
        """Arcs found by example and head; the baselines and the number of arcs once."""
        arcs = attention.batch.remember("arcs", lambda: _read_arcs(attention.batch))
        weights = word_weights(attention, self.query_pieces).cpu().numpy()
        values = _measure_baselines(arcs) if attention.layer == 0 else {}
        if not self.combine:
            return values | {HEADS: torch.from_numpy(count_arcs(weights, *arcs))}
        total = attention.batch.remember("combined", lambda: np.zeros_like(weights[:, :1]))
        last = max(layer for heads in self.combine for layer, _, _ in heads)
        self._add_heads(total, weights, attention)
        if attention.layer == last:
            found = count_arcs(total, *arcs)[:, 0, : len(COMBINED_TREES)]  # [example, tree]
            values[COMBINED] = torch.from_numpy(found)
        return values

    def summarize(self, tally: Tally) -> dict[str, pd.DataFrame]:
        """Every head, the combination and the baselines, as far as they were measured."""
        if not tally:
            return empty_tables(self.tables)
        rows = [_head_table(tally)] if HEADS in tally.totals else []
        if COMBINED in tally.totals:
            rows.append(_plain_table(tally, COMBINED, COMBINED_TREES))
        else:
            rows += [_plain_table(tally, name, [tree]) for name, tree in BASELINES.items()]
        table = pd.concat(rows, ignore_index=True)
        table = table.astype({"layer": "Int64", "head": "Int64"})
        return {"trees": table[list(COLUMNS)]}

    def _add_heads(self, total: Array, weights: Array, attention: LayerAttention) -> None:
        """Add the chosen heads of this layer, each turned so that rows are dependents."""
        for i, encoding in enumerate(attention.batch.encodings):
            heads = self.combine[1 - fold_of(encoding.example.key)]  # chosen on the other fold
            for layer, head, direction in heads:
                if layer == attention.layer:
                    total[i, 0] += weights[i, head].T if direction else weights[i, head]


def _read_arcs(batch: Batch) -> Arcs:
    has_tokens = pool_words(batch).has_tokens.cpu().numpy()
    shape = has_tokens.shape
    arcs = Arcs(np.full(shape, -1), np.full(shape, NO_HEAD), np.zeros(shape, bool))
    for i, encoding in enumerate(batch.encodings):
        tree = encoding.example.tree
        assert tree is not None  # `needs` saw to it
        words = np.flatnonzero(has_tokens[i])
        if ROOT not in [tree.heads[word] for word in words]:
            continue  # the root word has no token: no tree can hang on it
        place_of = {int(word): place for place, word in enumerate(words)}
        arcs.places[i, : len(words)] = words
        for word, place in place_of.items():
            arcs.gold[i, place] = ({ROOT: ROOT} | place_of).get(tree.heads[word], NO_HEAD)
            is_punctuation = tree.relations[word].partition(":")[0] == "punct"
            arcs.is_scored[i, place] = tree.heads[word] in place_of and not is_punctuation
    return arcs


def _measure_baselines(arcs: Arcs) -> dict[str, Tensor]:
    """Trees that need no model: each word tied to its neighbour, or hung on the next word."""
    place = np.arange(arcs.gold.shape[1])
    is_next = (arcs.gold == place + 1) & arcs.is_scored
    is_previous = (arcs.gold == place - 1) & arcs.is_scored
    found = {
        "arcs": arcs.is_scored,
        "adjacent chain": is_next | is_previous,
        "right-branching": is_next,
    }
    return {name: torch.from_numpy(mask.sum(axis=1).astype(float)) for name, mask in found.items()}


def _head_table(tally: Tally) -> pd.DataFrame:
    n_layers, n_heads = tally.totals[HEADS].shape[2:4]
    axes = {"system": [HEADS], **head_axes(n_layers, n_heads), "tree": list(SCORES)}
    return tidy_table(axes, _scores(tally, HEADS))


def _plain_table(tally: Tally, system: str, trees: list[str]) -> pd.DataFrame:
    return tidy_table(
        {"system": [system], "layer": [pd.NA], "head": [pd.NA], "tree": trees},
        _scores(tally, system),
    )


def _scores(tally: Tally, system: str) -> dict[str, object]:
    accuracy = tally.ratio(system, "arcs")
    return {
        "correct": tally.totals[system][:, 0].sum(axis=0).astype(int),
        "count": int(tally.totals["arcs"][:, 0].sum()),
        "accuracy": accuracy.value,
        "low": accuracy.low,
        "high": accuracy.high,
    }
