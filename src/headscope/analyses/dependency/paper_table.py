"""The paper's Table 1, and what its relations are called in Universal Dependencies."""

from collections.abc import Collection

__all__ = ["PAPER_TABLE_1", "UNIVERSAL", "is_universal", "name_in_paper"]

# Clark et al. 2019, Table 1 (BERT-base on WSJ, Stanford labels): head, accuracy, best offset.
PAPER_TABLE_1 = {
    "all": ("7-6", 34.5, 26.3),
    "prep": ("7-4", 66.7, 61.8),
    "pobj": ("9-6", 76.3, 34.6),
    "det": ("8-11", 94.3, 51.7),
    "nn": ("4-10", 70.4, 70.2),
    "nsubj": ("8-2", 58.5, 45.5),
    "amod": ("4-10", 75.6, 68.3),
    "dobj": ("8-10", 86.8, 40.0),
    "advmod": ("7-6", 48.8, 40.2),
    "aux": ("4-10", 81.1, 71.5),
    "poss": ("7-6", 80.5, 47.7),
    "auxpass": ("4-10", 82.5, 40.5),
    "ccomp": ("8-1", 48.8, 12.4),
    "mark": ("8-2", 50.7, 14.5),
    "prt": ("6-7", 99.1, 91.4),
}
# Universal Dependencies' names for the same relations.
UNIVERSAL = {
    "obj": "dobj",
    "aux:pass": "auxpass",
    "compound": "nn",
    "nmod:poss": "poss",
    "compound:prt": "prt",
}
ONLY_UNIVERSAL = {"case", "obj", "obl", "nmod", "nmod:poss", "aux:pass", "compound"}


def is_universal(relations: Collection[str]) -> bool:
    """Whether these are labels of Universal Dependencies, and not of Stanford.

    >>> is_universal(["det", "case", "obj"]), is_universal(["det", "pobj", "dobj"])
    (True, False)
    """
    return not ONLY_UNIVERSAL.isdisjoint(relations)


def name_in_paper(relation: str) -> str:
    """The Stanford label of a relation, as the paper has it."""
    return UNIVERSAL.get(relation, relation)
