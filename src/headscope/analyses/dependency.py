"""Heads as dependency parsers: does a word attend most to its syntactic head? (paper, 4.2)"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headscope.analyses.accuracy import rank_groups
from headscope.analyses.dependency_tables import (
    BEST_COLUMNS,
    SCORE_COLUMNS,
    best_table,
    offset_table,
    relations_of,
    score_table,
)
from headscope.data.attention import LayerAttention
from headscope.data.encoding import Batch
from headscope.data.ranking import Values
from headscope.data.table import empty_tables
from headscope.data.tally import Tally
from headscope.data.tree import ROOT, Tree
from headscope.data.words import check_query_pieces, pool_words, word_weights

__all__ = ["ALL", "ALL_CONTENT", "Dependency", "relation_name"]

OFFSETS = [offset for offset in range(-10, 11) if offset != 0]
ALL, ALL_CONTENT = "all", "all (no punct or root)"
POSSESSIVE, POSSESSIVE_PLAIN = "poss", "poss (no 's rule)"
POSSESSIVE_MARKS = ("'s", "’s", "'")
NO_WORD = -2  # where an example has fewer words than the longest


class Gold(NamedTuple):
    """The trees of a batch as arrays."""

    heads: Int[Tensor, "example word"]  # ROOT for the root, NO_WORD for padding
    marks: Int[Tensor, "example word"]  # of a possessor its 's, of other words themselves
    relations: list[str]
    is_relation: Float[Tensor, "example word relation"]


@dataclass(frozen=True)
class Dependency:
    """Each head as a parser without training: a word's most attended other word is its prediction.

    dependent-to-head reads the dependent's row, head-to-dependent its column. Every relation is
    scored, `all` words as the paper's code counts them (the root is always missed), and all but
    punctuation and root. For Stanford's `poss` the prediction of a following 's counts too. Words
    that the tokenizer drops cannot attend; arcs from or to them are left out.
    """

    coarse: bool = False
    query_pieces: str = "mean"

    name: ClassVar[str] = "dependency"
    needs: ClassVar[frozenset[str]] = frozenset({"words", "dependencies"})
    tables: ClassVar[dict[str, tuple[str, ...]]] = {
        "dependency": ("relation", "direction", "layer", "head", *SCORE_COLUMNS),
        "dependency-offset": ("relation", "offset", *SCORE_COLUMNS),
        "dependency-best": BEST_COLUMNS,
    }

    def __post_init__(self) -> None:
        check_query_pieces(self.query_pieces)

    def measure(self, attention: LayerAttention) -> Mapping[str, Tensor]:
        """Arcs found by example, head and direction, for each relation; counts and offsets once."""
        batch = attention.batch
        gold = batch.remember(("gold", self), lambda: self._read_trees(batch))
        found = predict_words(attention, self.query_pieces)  # [example, head, direction, word]
        heads, marks = gold.heads[:, None, None, :], gold.marks[:, None, None, :].expand_as(found)
        is_found = found == heads
        values = _by_relation("correct", is_found, gold)
        if POSSESSIVE in gold.relations:
            is_found_with_mark = is_found | (found.gather(-1, marks) == heads)
            values[f"correct/{POSSESSIVE_PLAIN}"] = values[f"correct/{POSSESSIVE}"]
            values[f"correct/{POSSESSIVE}"] = _by_relation("correct", is_found_with_mark, gold)[
                f"correct/{POSSESSIVE}"
            ]
        if attention.layer == 0:
            values |= batch.remember(("baseline", self), lambda: _measure_offsets(gold))
        return values

    def rank(self, values: Mapping[str, Values]) -> dict[str, Values]:
        """Arcs found minus arcs missed, by relation, head and direction."""
        names = [name.partition("/")[2] for name in values if name.startswith("correct/")]
        return rank_groups(values, [name for name in names if name not in (ALL, ALL_CONTENT)])

    def summarize(self, tally: Tally) -> dict[str, pd.DataFrame]:
        """Every head on every relation, the offsets, and the best of both."""
        if not relations_of(tally):
            return empty_tables(self.tables)
        return {
            "dependency": score_table(tally),
            "dependency-offset": offset_table(tally, OFFSETS),
            "dependency-best": best_table(tally, OFFSETS),
        }

    def _read_trees(self, batch: Batch) -> Gold:
        has_tokens = pool_words(batch).has_tokens.cpu().numpy()
        heads = np.full(has_tokens.shape, NO_WORD)
        marks = np.broadcast_to(np.arange(has_tokens.shape[1]), has_tokens.shape).copy()
        members: dict[str, Bool[np.ndarray, "example word"]] = {
            ALL: np.zeros(has_tokens.shape, bool)  # there, even where no word has a token
        }
        for i, encoding in enumerate(batch.encodings):
            words, tree = encoding.example.words or (), encoding.example.tree
            assert tree is not None  # `needs` saw to it
            heads[i, : len(words)] = tree.heads
            for word, names in enumerate(_relations_of(tree, self.coarse)):
                head = tree.heads[word]
                if not has_tokens[i, word] or (head != ROOT and not has_tokens[i, head]):
                    continue
                for name in names:
                    members.setdefault(name, np.zeros(has_tokens.shape, bool))[i, word] = True
                if POSSESSIVE in names and words[word + 1 : word + 2] and has_tokens[i, word + 1]:
                    marks[i, word] = word + (words[word + 1] in POSSESSIVE_MARKS)
        is_relation = np.stack(list(members.values()), axis=-1)  # [example, word, relation]
        return Gold(
            heads=torch.from_numpy(heads).to(batch.device),
            marks=torch.from_numpy(marks).to(batch.device),
            relations=list(members),
            is_relation=torch.from_numpy(is_relation).float().to(batch.device),
        )


def relation_name(relation: str, coarse: bool) -> str:
    """The relation as it is counted: whole, or without its subtype.

    >>> relation_name("nsubj:pass", coarse=True)
    'nsubj'
    """
    return relation.partition(":")[0] if coarse else relation


def predict_words(
    attention: LayerAttention, query_pieces: str = "mean"
) -> Int[Tensor, "example head direction word"]:
    """The most attended other word of each row, and of each column; ties go to the first."""
    batch = attention.batch
    is_no_pair = batch.remember("no pair", lambda: _find_no_pairs(batch))
    scores = word_weights(attention, query_pieces).masked_fill(is_no_pair, -1.0)
    turned = scores.transpose(-1, -2).contiguous()  # torch finds maxima fastest along rows
    return torch.stack([scores.argmax(-1), turned.argmax(-1)], dim=2)


def _find_no_pairs(batch: Batch) -> Bool[Tensor, "example 1 word other"]:
    """Where there is no choice: a word itself, and words without tokens."""
    has_tokens = pool_words(batch).has_tokens
    itself = torch.eye(has_tokens.shape[1], dtype=torch.bool, device=batch.device)
    return (~(has_tokens[:, :, None] & has_tokens[:, None, :]) | itself)[:, None]


def _relations_of(tree: Tree, coarse: bool) -> list[list[str]]:
    """What each word counts for."""
    names = []
    for head, relation in zip(tree.heads, tree.relations, strict=True):
        own = relation_name(relation, coarse)
        is_content = head != ROOT and relation_name(relation, True) != "punct"
        names.append([ALL, *[ALL_CONTENT] * is_content, *[own] * (head != ROOT)])
    return names


def _by_relation(kind: str, is_found: Bool[Tensor, "..."], gold: Gold) -> dict[str, Tensor]:
    """How many words of each relation are found: `is_found[example, ..., word]`."""
    n_examples, *middle, n_words = is_found.shape
    flat = is_found.reshape(n_examples, -1, n_words).to(gold.is_relation.dtype)
    found = (flat @ gold.is_relation).reshape(n_examples, *middle, -1)  # [..., relation]
    return {f"{kind}/{name}": found[..., i] for i, name in enumerate(gold.relations)}


def _measure_offsets(gold: Gold) -> dict[str, Tensor]:
    """What does not depend on attention: how many words there are, and what each offset finds."""
    place = torch.arange(gold.heads.shape[1], device=gold.heads.device)
    offsets = torch.tensor(OFFSETS, device=gold.heads.device)[:, None]
    heads = gold.heads[:, None, :]
    is_found = place + offsets == heads  # [example, offset, word]
    values = _by_relation("offset", is_found & (heads >= 0), gold)
    values |= _by_relation("count", torch.ones_like(gold.heads, dtype=torch.bool)[:, None], gold)
    if POSSESSIVE in gold.relations:
        with_mark = is_found | (gold.marks[:, None, :] + offsets == heads)
        values[f"offset/{POSSESSIVE_PLAIN}"] = values[f"offset/{POSSESSIVE}"]
        values[f"count/{POSSESSIVE_PLAIN}"] = values[f"count/{POSSESSIVE}"]
        values[f"offset/{POSSESSIVE}"] = _by_relation("offset", with_mark, gold)[
            f"offset/{POSSESSIVE}"
        ]
    return values
