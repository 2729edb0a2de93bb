"""The trees of a batch as arrays of arcs: from which word to which, and what each counts for.

Universal Dependencies hang a preposition on its noun. The paper's labels are the other way round:
`prep` leads from the preposition to what it modifies, `pobj` from the noun to the preposition. Both
follow from the trees, so these two relations are derived, as arcs of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from headscope.analyses.dependency.tables import (
    ALL,
    ALL_CONTENT,
    DERIVED_POBJ,
    DERIVED_PREP,
    MARKED,
    POSSESSIVES,
)
from headscope.data.encoding import Batch
from headscope.data.example import ROOT, Example
from headscope.data.words import words_with_tokens
from headscope.lazy import Tensor, torch

__all__ = ["Gold", "derive_arcs", "read_gold", "relation_name"]

POSSESSIVE_MARKS = ("'s", "’s", "'", "’")
NO_WORD = -2  # where an example has fewer arcs than the longest
NOMINALS = ("nmod", "obl")  # whose preposition is a `prep` in Stanford's labels


class Gold(NamedTuple):
    """The trees of a batch as arrays: an arc for each word, in order, and then derived ones."""

    dependents: Int[Tensor, "example arc"]
    heads: Int[Tensor, "example arc"]  # ROOT for the root, NO_WORD for padding
    marks: Int[Tensor, "example arc"]  # of a possessor its 's, of other dependents themselves
    relations: list[str]
    is_relation: Float[Tensor, "example arc relation"]


def read_gold(batch: Batch, coarse: bool) -> Gold:
    """The trees of a batch, read once; with `coarse`, relations without their subtypes."""
    return batch.remember(("gold", coarse), partial(_read_trees, batch, coarse))


def _read_trees(batch: Batch, coarse: bool) -> Gold:
    has_tokens = words_with_tokens(batch)
    trees = [encoding.example.tree for encoding in batch.encodings]
    words = [encoding.example.words or () for encoding in batch.encodings]
    derived = [list(derive_arcs(encoding.example)) for encoding in batch.encodings]
    n_words = has_tokens.shape[1]
    shape = len(batch), n_words + max(map(len, derived))
    dependents = np.broadcast_to(np.arange(shape[1]) % n_words, shape).copy()
    heads = np.full(shape, NO_WORD)
    numbers = {ALL: 0}  # of relations; there, even where no word has a token
    members: list[tuple[int, int, int]] = []  # example, arc, relation
    marks = dependents.copy()
    for i, tree in enumerate(trees):
        assert tree is not None  # `needs` saw to it
        is_there = has_tokens[i].tolist()
        arcs = [
            (word, word, head, _count_as(relation, coarse) if head != ROOT else (ALL,))
            for word, (head, relation) in enumerate(zip(tree.heads, tree.relations, strict=True))
        ]
        arcs += [(n_words + n, *ends, (name,)) for n, (*ends, name) in enumerate(derived[i])]
        for arc, word, head, names in arcs:
            dependents[i, arc], heads[i, arc], marks[i, arc] = word, head, word
            if not is_there[word] or (head != ROOT and not is_there[head]):
                continue
            is_possessor = names[-1] in POSSESSIVES and word + 1 < len(words[i])
            if is_possessor and words[i][word + 1] in POSSESSIVE_MARKS and is_there[word + 1]:
                marks[i, arc] = word + 1
                names = (*names, MARKED.format(names[-1]))
            members += [(i, arc, numbers.setdefault(n, len(numbers))) for n in names]
    is_relation = torch.zeros(*shape, len(numbers))  # [example, arc, relation]
    is_relation[tuple(torch.tensor(members, dtype=torch.long).reshape(-1, 3).T)] = 1
    return Gold(
        dependents=torch.from_numpy(dependents).to(batch.device),
        heads=torch.from_numpy(heads).to(batch.device),
        marks=torch.from_numpy(marks).to(batch.device),
        relations=list(numbers),
        is_relation=is_relation.to(batch.device),
    )


def derive_arcs(example: Example) -> Iterator[tuple[int, int, str]]:
    """Dependent, head and label of the arcs that the paper's labels have for prepositions.

    Of several prepositions of a noun the first modifies, and the last has the noun as its object.

    >>> from headscope.data.example import Tree
    >>> tree = Tree((-1, 2, 0), ("root", "case", "obl"))
    >>> list(derive_arcs(Example("", words=("sail", "to", "town"), tree=tree)))
    [(1, 0, 'prep (derived)'), (2, 1, 'pobj (derived)')]
    """
    words, tree = example.words or (), example.tree
    assert tree is not None  # `needs` saw to it
    prepositions: dict[int, list[int]] = {}
    for word, (head, relation) in enumerate(zip(tree.heads, tree.relations, strict=True)):
        if relation.partition(":")[0] == "case" and words[word] not in POSSESSIVE_MARKS:
            prepositions.setdefault(head, []).append(word)
    for noun, of_noun in prepositions.items():
        if tree.relations[noun].partition(":")[0] in NOMINALS:
            yield of_noun[0], tree.heads[noun], DERIVED_PREP
        yield noun, of_noun[-1], DERIVED_POBJ


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
