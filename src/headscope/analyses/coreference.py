"""Heads as coreference resolvers: does a mention attend most to its antecedent? (paper, 4.3)"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
from jaxtyping import Bool
from numpy.typing import NDArray
from torch import Tensor

from headscope.analyses.accuracy import rank_groups
from headscope.analyses.antecedents import Asked, build_questions, measure_groups
from headscope.analyses.coreference_tables import (
    BEST_COLUMNS,
    TABLE_COLUMNS,
    best_table,
    system_table,
)
from headscope.data.attention import LayerAttention
from headscope.data.example import Example
from headscope.data.mention import KINDS
from headscope.data.ranking import Values
from headscope.data.table import empty_tables
from headscope.data.tally import Tally
from headscope.data.words import check_query_pieces

__all__ = ["Coreference"]

TYPES = ["all", *KINDS]
DISTANCES = {"1-4": 4, "5-9": 9, "10-19": 19, "20-49": 49, "50+": None}  # words apart, at most
GROUPS = [*TYPES, *DISTANCES]


@dataclass(frozen=True)
class Coreference:
    """Each head as a resolver without training: the most attended head word of an earlier mention.

    A mention counts if one of its cluster comes before it; it is right to choose any of those. All
    is between head words: `mentions` lets the head words of earlier mentions compete, `words` every
    other word. mention-to-antecedent reads the mention's row, antecedent-to-mention its column.
    Mentions of what is mentioned once compete only with `singletons`.
    """

    singletons: bool = False
    query_pieces: str = "mean"

    name: ClassVar[str] = "coreference"
    needs: ClassVar[frozenset[str]] = frozenset({"words", "coreference"})
    tables: ClassVar[dict[str, tuple[str, ...]]] = {
        "coreference": ("mention_type", *TABLE_COLUMNS),
        "coreference-best": ("mention_type", *BEST_COLUMNS),
        "coreference-distance": ("distance", *TABLE_COLUMNS),
        "coreference-distance-best": ("distance", *BEST_COLUMNS),
    }

    def __post_init__(self) -> None:
        check_query_pieces(self.query_pieces)

    def measure(self, attention: LayerAttention) -> Mapping[str, Tensor]:
        """Right answers by example, head, direction and candidates, for each group; counts once."""
        batch = attention.batch
        questions = batch.remember(
            ("questions", self), lambda: build_questions(batch, self.ask, GROUPS)
        )
        return measure_groups(attention, questions, GROUPS, self.query_pieces)

    def rank(self, values: Mapping[str, Values]) -> dict[str, Values]:
        """Mentions resolved minus those missed, by type, head, direction and candidates."""
        return rank_groups(values, TYPES)

    def summarize(self, tally: Tally) -> dict[str, pd.DataFrame]:
        """Every head and baseline, and the best of them, by type of mention and by distance."""
        if not tally:
            return empty_tables(self.tables)
        return {
            "coreference": system_table(tally, "mention_type", TYPES),
            "coreference-best": best_table(tally, "mention_type", TYPES),
            "coreference-distance": system_table(tally, "distance", list(DISTANCES)),
            "coreference-distance-best": best_table(tally, "distance", list(DISTANCES)),
        }

    def ask(
        self, example: Example, has_tokens: Bool[NDArray[np.bool_], " word"]
    ) -> Iterator[Asked]:
        """Every mention that has an antecedent, what competes, and what is right."""
        mentions = [
            mention
            for mention in example.mentions or ()
            if has_tokens[mention.head] and (self.singletons or not mention.is_singleton)
        ]
        mentions.sort(key=lambda mention: (-mention.head, mention.start))  # last first
        for place, mention in enumerate(mentions):
            before = [other for other in mentions[place + 1 :] if other.head < mention.head]
            answers = frozenset(m.head for m in before if m.cluster == mention.cluster)
            if answers:
                distance = _name_distance(mention.head - max(answers))
                yield Asked(mention, before, answers, ["all", mention.kind, distance])


def _name_distance(n_words: int) -> str:
    """The group of a distance in words.

    >>> _name_distance(7)
    '5-9'
    """
    return next(name for name, most in DISTANCES.items() if most is None or n_words <= most)
