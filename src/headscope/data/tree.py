"""A dependency tree over the words of a sentence."""

from dataclasses import dataclass

__all__ = ["ROOT", "Tree"]

ROOT = -1  # the head of the root word


@dataclass(frozen=True)
class Tree:
    """Each word's head (a zero-based index, or ROOT) and its relation to it. One root, no cycle."""

    heads: tuple[int, ...]
    relations: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.heads) != len(self.relations):
            raise ValueError("a tree has one relation for every head")
        if problem := find_problem(self.heads):
            raise ValueError(f"word {problem[0] + 1} {problem[1]}")


def find_problem(heads: tuple[int, ...]) -> tuple[int, str] | None:
    """The first word that breaks the tree, and how; None for a tree.

    >>> find_problem((1, ROOT, 1)) is None
    True
    >>> find_problem((1, 0))
    (0, 'is part of a cycle')
    """
    roots = [word for word, head in enumerate(heads) if head == ROOT]
    if len(roots) > 1:
        return roots[1], f"is a second root, after word {roots[0] + 1}"
    for word, head in enumerate(heads):
        if not ROOT <= head < len(heads):
            return word, f"has head {head + 1}, outside the sentence of {len(heads)} words"
    is_grounded = [head == ROOT for head in heads]
    for word in range(len(heads)):
        path, here = set[int](), word
        while not is_grounded[here]:
            if here in path:
                return here, "is part of a cycle"
            path.add(here)
            here = heads[here]
        for passed in path:
            is_grounded[passed] = True
    return None
