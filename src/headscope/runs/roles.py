"""What heads are shown for: the strongest head of each behaviour, relation and task."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from headscope.analyses.antecedents import CANDIDATES
from headscope.analyses.antecedents import DIRECTIONS as MENTION_DIRECTIONS
from headscope.analyses.behaviours import BEHAVIOURS, behaviour_table
from headscope.analyses.coreference import Coreference
from headscope.analyses.dependency import Dependency, relation_name
from headscope.analyses.dependency_tables import DIRECTIONS
from headscope.contracts import Analysis
from headscope.data.example import Example

__all__ = ["Role", "choose_roles", "gold_pairs"]

LEAST_SHARE = 0.2  # of attention, for a head to be shown for a behaviour
MOST_RELATIONS = 10
LEAST_WORDS = 20  # of a relation
ALPHA = 0.05


@dataclass(frozen=True)
class Role:
    """A head (counted from 0) and what it is shown for: a role of a ranked analysis."""

    title: str
    analysis: str
    name: str
    layer: int
    head: int
    more: tuple[int, ...] = ()  # the further axes of the ranking: direction, candidates

    @property
    def place(self) -> tuple[int, ...]:
        """Where a ranking holds it."""
        return (self.layer, self.head, *self.more)

    @property
    def is_of_words(self) -> bool:
        """Whether it is about words, or about tokens as they are."""
        return bool(self.more)


def choose_roles(tables: Mapping[str, pd.DataFrame], place: str = "") -> list[Role]:
    """The heads worth showing, by the tables of one pass; `place` is added to what they are for."""
    roles = [*_behaviours(tables), *_relations(tables), *_antecedents(tables)]
    return [replace(role, title=role.title + place) for role in roles]


def gold_pairs(role: Role, analysis: Analysis, example: Example) -> list[tuple[int, int]]:
    """The pairs of words (from, to) that the role is about, as attention would run."""
    pairs: list[tuple[int, int]] = []
    if isinstance(analysis, Dependency) and example.tree is not None:
        named = zip(example.tree.heads, example.tree.relations, strict=True)
        of_role = [
            (word, head)
            for word, (head, relation) in enumerate(named)
            if relation_name(relation, analysis.coarse) == role.name
        ]
        pairs = of_role
    if isinstance(analysis, Coreference):
        asked = analysis.ask(example, np.ones(len(example.words or ()), bool))
        pairs = sorted((question.mention.head, max(question.answers)) for question in asked)
    is_turned = role.more[:1] == (1,)
    return [(end, start) for start, end in pairs] if is_turned else pairs


def _behaviours(tables: Mapping[str, pd.DataFrame]) -> list[Role]:
    """The strongest head of each behaviour, if it gives it a share worth seeing."""
    table = behaviour_table(tables)
    roles = []
    for behaviour in BEHAVIOURS:
        heads = table[(table["behaviour"] == behaviour.name) & (table["share"] > LEAST_SHARE)]
        if len(heads):
            layer, head = heads[["layer", "head"]].iloc[0].astype(int)
            name = behaviour.rows.get("target", "broad")
            roles.append(Role(behaviour.name, behaviour.table, name, layer - 1, head - 1))
    return roles


def _relations(tables: Mapping[str, pd.DataFrame]) -> list[Role]:
    """The best head of each frequent relation that a head finds better than any offset."""
    best = tables.get("dependency-best")
    if best is None or best.empty:
        return []
    is_found = (best["p_value"] < ALPHA) & (best["heldout_difference"] > 0)
    is_shown = is_found & (best["count"] >= LEAST_WORDS) & ~best["relation"].str.startswith("all")
    is_shown &= ~best["relation"].str.contains("(no 's rule)", regex=False)
    is_shown &= ~best["relation"].str.startswith("punct")  # which says little of a head
    shown = best[is_shown].sort_values("count", ascending=False).head(MOST_RELATIONS)
    return [
        Role(
            f"{row['relation']}, {str(row['direction']).replace('-', ' ')}",
            "dependency",
            str(row["relation"]),
            int(row["layer"]) - 1,
            int(row["head"]) - 1,
            (DIRECTIONS.index(str(row["direction"])),),
        )
        for row in shown.to_dict("records")
    ]


def _antecedents(tables: Mapping[str, pd.DataFrame]) -> list[Role]:
    """The best head for antecedents of all mentions."""
    best = tables.get("coreference-best")
    if best is None or best.empty:
        return []
    shown = best[(best["mention_type"] == "all") & (best["candidates"] == CANDIDATES[0])]
    return [
        Role(
            f"coreference, {str(row['direction']).replace('-', ' ')}",
            "coreference",
            "all",
            int(row["layer"]) - 1,
            int(row["head"]) - 1,
            (MENTION_DIRECTIONS.index(str(row["direction"])), 0),
        )
        for row in shown.to_dict("records")
        if row["count"] > 0
    ]
