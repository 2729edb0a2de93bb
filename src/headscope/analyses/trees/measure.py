"""Whole parses from attention: maximum spanning trees over words, against trees without a model."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Int
from numpy.typing import NDArray
from torch import Tensor

from headscope.contracts import Analysis, Annotation
from headscope.data.attention import LayerAttention
from headscope.data.encoding import Batch
from headscope.data.reading import Reading
from headscope.data.table import empty_tables, head_axes, tidy_table
from headscope.data.tree import ROOT
from headscope.data.words import (
    WordReading,
    check_query_pieces,
    query_pieces_option,
    word_weights,
    words_with_tokens,
)
from headscope.kernels.tree_scores import SCORES, count_arcs
from headscope.stats.accuracy import SCORE_COLUMNS, score_columns
from headscope.stats.tally import Tally

__all__ = ["Trees"]

NO_HEAD = -2  # of a word whose head has no token
HEADS = "head"
BASELINES = {"adjacent chain": "undirected", "right-branching": "dependent-to-head"}
COLUMNS = ("system", "layer", "head", "tree", *SCORE_COLUMNS)

Count = Callable[[], Tensor]


class Arcs(NamedTuple):
    """The gold arcs of a batch among the words that have tokens."""

    places: Int[NDArray[np.int64], "example place"]  # word of each place, -1 where there is none
    gold: Int[NDArray[np.int64], "example place"]  # place of the head, or ROOT, or NO_HEAD
    is_scored: Bool[NDArray[np.bool_], "example place"]


@dataclass(frozen=True)
class Trees(Analysis):
    """Arcs found by the maximum spanning tree over word attention, punctuation left out.

    Undirected trees sum both directions (UUAS); directed ones hang on the gold root and read the
    dependent's row or its column (UAS).
    """

    query_pieces: str = query_pieces_option()

    name: ClassVar[str] = "trees"
    needs: ClassVar[frozenset[str]] = frozenset({Annotation.WORDS, Annotation.DEPENDENCIES})
    tables: ClassVar[dict[str, tuple[str, ...]]] = {"trees": COLUMNS}

    def __post_init__(self) -> None:
        check_query_pieces(self.query_pieces)

    @property
    def reads(self) -> tuple[Reading, ...]:
        return (WordReading(self.query_pieces),)

    def measure(self, attention: LayerAttention) -> Mapping[str, Tensor | Count]:
        """Arcs found by example and head; the baselines and the number of arcs once."""
        arcs = attention.batch.remember("arcs", lambda: _read_arcs(attention.batch))
        weights = word_weights(attention, self.query_pieces)  # [example, head, word, other]
        values: dict[str, Tensor | Count] = {}
        if attention.layer == 0:
            baselines = _measure_baselines(arcs).items()
            values |= {name: found.to(weights.device) for name, found in baselines}
        return values | {HEADS: _count(weights, arcs)}

    def summarize(self, tally: Tally) -> dict[str, pd.DataFrame]:
        """Every head, then the baselines."""
        if not tally:
            return empty_tables(self.tables)
        no_head = {"layer": [pd.NA], "head": [pd.NA]}
        axes = {**head_axes(*tally.totals[HEADS].shape[1:3]), "tree": list(SCORES)}
        rows = [_system_table(tally, HEADS, axes)]
        for system, tree in BASELINES.items():
            rows.append(_system_table(tally, system, {**no_head, "tree": [tree]}))
        table = pd.concat(rows, ignore_index=True)
        return {"trees": table.astype({"layer": "Int64", "head": "Int64"})}


def _count(weights: Tensor, arcs: Arcs) -> Tensor | Count:
    """Arcs found by each head; compiled code counts on the CPU, so a device is not waited for."""

    def count() -> Tensor:
        return torch.from_numpy(count_arcs(weights.cpu().numpy(), *arcs))

    return count() if weights.device.type == "cpu" else count


def _read_arcs(batch: Batch) -> Arcs:
    has_tokens = words_with_tokens(batch)
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


def _system_table(tally: Tally, system: str, axes: Mapping[str, Sequence[Any]]) -> pd.DataFrame:
    scores = score_columns(tally.totals[system], tally.totals["arcs"])
    return tidy_table({"system": [system], **axes}, scores)
