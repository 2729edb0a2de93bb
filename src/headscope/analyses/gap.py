"""A pronoun and two names: does it attend most to the right one, and as often for women as for men?

GAP pairs as many feminine as masculine pronouns with names of the same gender, so the ratio of the
two accuracies says whether a system is biased (1: it is not).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor

from headscope.analyses.accuracy import choose_best, share
from headscope.analyses.antecedent_rules import SYSTEMS
from headscope.analyses.antecedents import (
    CANDIDATES,
    DIRECTIONS,
    Asked,
    build_questions,
    measure_groups,
)
from headscope.analyses.coreference_tables import TABLE_COLUMNS, system_table
from headscope.data.attention import LayerAttention
from headscope.data.example import Example
from headscope.data.table import empty_tables
from headscope.data.tally import Tally, estimate
from headscope.data.words import check_query_pieces

__all__ = ["Gap"]

GENDERS = ["masculine", "feminine"]
GROUPS = ["all", *GENDERS]
BEST_COLUMNS = (
    *("candidates", "system", "layer", "head", "direction", "count", "accuracy", "low", "high"),
    *("heldout_accuracy", "masculine", "feminine", "ratio", "ratio_low", "ratio_high"),
)

Replicates = Float[NDArray[np.float64], " replicate"]


@dataclass(frozen=True)
class Gap:
    """Each head as a judge of pronouns: which of the names around it does a pronoun attend to?

    The names may stand before or after the pronoun. A pronoun counts if at least two names compete
    and one of them is right; of those that refer to neither name nothing can be said.
    """

    query_pieces: str = "mean"

    name: ClassVar[str] = "gap"
    needs: ClassVar[frozenset[str]] = frozenset({"words", "pronoun choices"})
    tables: ClassVar[dict[str, tuple[str, ...]]] = {
        "gap": ("gender", *TABLE_COLUMNS),
        "gap-best": BEST_COLUMNS,
    }

    def __post_init__(self) -> None:
        check_query_pieces(self.query_pieces)

    def measure(self, attention: LayerAttention) -> Mapping[str, Tensor]:
        """Right answers by example, head, direction and candidates, for each gender."""
        batch = attention.batch
        questions = batch.remember(("gap", self), lambda: build_questions(batch, _ask, GROUPS))
        return measure_groups(attention, questions, GROUPS, self.query_pieces)

    def summarize(self, tally: Tally) -> dict[str, pd.DataFrame]:
        """Every head and baseline by gender; the best head and the baselines with their ratio."""
        if not tally:
            return empty_tables(self.tables)
        rows = [_head_row(tally, place) for place in range(len(CANDIDATES))]
        rows += [_rule_row(tally, place) for place in range(len(SYSTEMS))]
        best = pd.DataFrame(rows, columns=list(BEST_COLUMNS))
        return {
            "gap": system_table(tally, "gender", GROUPS),
            "gap-best": best.astype({"layer": "Int64", "head": "Int64"}),
        }


def _ask(example: Example, has_tokens: Bool[NDArray[np.bool_], " word"]) -> Iterator[Asked]:
    mentions = [mention for mention in example.mentions or () if has_tokens[mention.head]]
    names = [mention for mention in mentions if mention.kind != "pronoun"]
    for mention in mentions:
        if mention.kind != "pronoun":
            continue
        head = mention.head
        others = [name for name in names if name.head != head]
        others.sort(key=lambda name: (abs(name.head - head), name.head))
        answers = frozenset(name.head for name in others if name.cluster == mention.cluster)
        if answers and len({name.head for name in others}) > 1:
            gender = [mention.gender] if mention.gender in GENDERS else []
            yield Asked(mention, others, answers, ["all", *gender])


def _head_row(tally: Tally, candidates: int) -> dict[str, object]:
    counts = {group: tally.totals[f"count/{group}"][:, :, 0, 0] for group in GROUPS}
    correct = tally.totals["correct/all"][..., candidates]
    best = choose_best(correct.reshape(*counts["all"].shape, -1), counts["all"])
    layer, head, direction = np.unravel_index(best.place, correct.shape[2:])
    shares = {
        group: share(
            tally.totals[f"correct/{group}"][:, :, layer, head, direction, candidates].sum(axis=0),
            counts[group].sum(axis=0),
        )
        for group in GROUPS
    }
    return {
        "candidates": CANDIDATES[candidates],
        "system": "best head",
        "layer": int(layer) + 1,
        "head": int(head) + 1,
        "direction": DIRECTIONS[direction],
        "count": int(counts["all"][:, 0].sum()),
        "heldout_accuracy": best.heldout[0],
        **_by_gender(shares),
    }


def _rule_row(tally: Tally, system: int) -> dict[str, object]:
    counts = {group: tally.totals[f"count/{group}"][:, :, 0, 0].sum(axis=0) for group in GROUPS}
    shares = {
        group: share(tally.totals[f"baseline/{group}"][:, :, 0, system].sum(axis=0), counts[group])
        for group in GROUPS
    }
    return {
        "candidates": CANDIDATES[0],
        "system": list(SYSTEMS)[system],
        "layer": pd.NA,
        "head": pd.NA,
        "direction": None,
        "count": int(counts["all"][0]),
        "heldout_accuracy": shares["all"][0],  # nothing was chosen
        **_by_gender(shares),
    }


def _by_gender(shares: Mapping[str, Replicates]) -> dict[str, float]:
    whole = estimate(shares["all"])
    ratio = estimate(share(shares["feminine"], shares["masculine"]))
    return {
        "accuracy": float(whole.value),
        "low": float(whole.low),
        "high": float(whole.high),
        **{gender: shares[gender][0] for gender in GENDERS},
        "ratio": float(ratio.value),
        "ratio_low": float(ratio.low),
        "ratio_high": float(ratio.high),
    }
