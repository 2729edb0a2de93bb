"""The trees of a batch as arrays: what each word's head is, and which relations it counts for."""

from __future__ import annotations

from functools import cache, partial
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from headscope.analyses.dependency.tables import ALL, ALL_CONTENT, MARKED, POSSESSIVES
from headscope.data.encoding import Batch
from headscope.data.example import ROOT
from headscope.data.words import words_with_tokens
from headscope.lazy import Tensor, torch

__all__ = ["Gold", "read_gold", "relation_name"]

POSSESSIVE_MARKS = ("'s", "’s", "'", "’")
NO_WORD = -2  # where an example has fewer words than the longest


class Gold(NamedTuple):
    """The trees of a batch as arrays."""

    heads: Int[Tensor, "example word"]  # ROOT for the root, NO_WORD for padding
    marks: Int[Tensor, "example word"]  # of a possessor its 's, of other words themselves
    relations: list[str]
    is_relation: Float[Tensor, "example word relation"]


def read_gold(batch: Batch, coarse: bool) -> Gold:
    """The trees of a batch, read once; with `coarse`, relations without their subtypes."""
    return batch.remember(("gold", coarse), partial(_read_trees, batch, coarse))


def _read_trees(batch: Batch, coarse: bool) -> Gold:
    has_tokens = words_with_tokens(batch)
    heads = np.full(has_tokens.shape, NO_WORD)
    marks = np.broadcast_to(np.arange(has_tokens.shape[1]), has_tokens.shape).copy()
    numbers = {ALL: 0}  # of relations; there, even where no word has a token
    members: list[tuple[int, int, int]] = []  # example, word, relation
    for i, encoding in enumerate(batch.encodings):
        words, tree = encoding.example.words or (), encoding.example.tree
        assert tree is not None  # `needs` saw to it
        heads[i, : len(words)] = tree.heads
        is_there = has_tokens[i].tolist()
        for word, (head, relation) in enumerate(zip(tree.heads, tree.relations, strict=True)):
            if not is_there[word] or (head != ROOT and not is_there[head]):
                continue
            names = _count_as(relation, coarse) if head != ROOT else (ALL,)
            is_possessor = names[-1] in POSSESSIVES and word + 1 < len(words)
            if is_possessor and words[word + 1] in POSSESSIVE_MARKS and is_there[word + 1]:
                marks[i, word] = word + 1
                names = (*names, MARKED.format(names[-1]))
            members += [(i, word, numbers.setdefault(n, len(numbers))) for n in names]
    is_relation = torch.zeros(*has_tokens.shape, len(numbers))  # [example, word, relation]
    is_relation[tuple(torch.tensor(members, dtype=torch.long).reshape(-1, 3).T)] = 1
    return Gold(
        heads=torch.from_numpy(heads).to(batch.device),
        marks=torch.from_numpy(marks).to(batch.device),
        relations=list(numbers),
        is_relation=is_relation.to(batch.device),
    )


def relation_name(relation: str, coarse: bool) -> str:
    """The relation as it is counted: whole, or without its subtype.

    >>> relation_name("nsubj:pass", coarse=True)
    'nsubj'
    """
    return relation.partition(":")[0] if coarse else relation


@cache
def _count_as(relation: str, coarse: bool) -> tuple[str, ...]:
    """What a word with this relation to another counts for; its own relation last."""
    is_content = relation_name(relation, coarse=True) != "punct"
    return (ALL, *[ALL_CONTENT] * is_content, relation_name(relation, coarse))
