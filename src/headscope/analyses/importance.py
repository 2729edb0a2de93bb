"""Would the loss change if a head were weaker? Gradients of head masks (Michel et al. 2019)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from headscope.contracts import Analysis, Watch
from headscope.data.attention import Gradients
from headscope.data.table import Tables
from headscope.lazy import Tensor, torch
from headscope.stats.estimates import AT_LEAST_0, Estimates, Number
from headscope.stats.sums import Sums
from headscope.view.answer import Answer, AnswerMaker, Topic, name_heads
from headscope.view.facts import head_facts
from headscope.view.numbers import SMALL, Form
from headscope.view.presentation import IMPORTANCE, DerivedTables, MapOptions, Presentation
from headscope.view.specs import HOW_TO_READ, Grid, PrintedTable
from headscope.view.table import Column, build_table

__all__ = ["Importance"]

HEAD = ["layer", "head"]
REMOVED = "zero"  # the mode of ablation that a mask of 0 stands for
SHOWN_HEADS = 5


@dataclass(frozen=True)
class Importance(Analysis):
    """Mean |d loss / d mask| of each head, where the mask is a factor of its output, at 1.

    One backward pass serves all heads. It says how the loss begins to change as a head gets weaker;
    ablation says what its whole absence does. A head may have a small gradient and still matter.
    """

    name = "importance"
    watches = Watch.GRADIENT
    weighs_documents = True
    sums = {"importance": "layer head", "examples": ""}
    tables = {"importance": ("layer", "head", "importance", "low", "high")}

    def measure(self, seen: Gradients) -> Mapping[str, Tensor]:
        """The size of each head's gradient in each example."""
        return {
            "importance": seen.masks.abs(),
            "examples": torch.ones_like(seen.masks[:, 0, 0]),
        }

    def summarize(self, sums: Sums) -> Mapping[str, Estimates]:
        """Mean over examples, by head."""
        importance = sums.mean("importance", "examples")
        return {self.name: Estimates({"importance": Number(importance, AT_LEAST_0)})}


def derive(tables: Tables, options: MapOptions) -> DerivedTables | None:
    """Beside each other what both say of each head, and how well their ranks agree."""
    if not all(len(tables.get(name, ())) for name in ("importance", "ablation")):
        return None
    removed = tables["ablation"][tables["ablation"]["mode"] == REMOVED]
    if not (removed["effect"] == "loss").all():
        return None
    both = tables["importance"][[*HEAD, "importance"]].merge(removed[[*HEAD, "change"]], on=HEAD)
    both = both.rename(columns={"change": "ablation"})
    correlation = float(both["importance"].corr(both["ablation"].abs(), method="spearman"))
    agreement = pd.DataFrame([{"rank_correlation": correlation, "heads": len(both)}])
    made = {"importance-ablation": both, "importance-agreement": agreement}
    note = (
        f"Rank correlation of head-mask gradients with the size of the change by ablation, over "
        f"{len(both)} heads: {RANKS.number(correlation)}"
    )
    return DerivedTables(made, {"importance": {"rank_correlation": correlation}}, (), (note,))


RANKS = Form(".2f")
COLUMNS = (
    Column("most important by gradient", lambda row: f"{row['layer']}-{row['head']}"),
    Column("gradient of its mask", lambda row: SMALL.row(row, "importance")),
)


def answer_agreement(tables: Tables) -> list[Answer]:
    """Whether gradients and ablation rank heads alike."""
    row = tables["importance-agreement"].iloc[0]
    text = (
        f"Gradients of head masks and ablation rank the {row['heads']:,.0f} heads with a "
        f"correlation of {RANKS.number(row['rank_correlation'])}."
    )
    top = tables["importance"].nlargest(1, "importance")
    detail = f"Most important by gradient: {name_heads(top)[0]}."
    return [Answer(text, 0.6, detail, (), "heads-importance", Topic.SUMMARY)]


PRESENTATION = Presentation(
    IMPORTANCE, made_by="--text FILE --also importance", figure="heads-importance", derive=derive,
    show=[
        Grid(
            name="heads-importance", needs=("importance",), column="importance",
            axis="size of the gradient", title="Gradients of head masks",
            caption=f"{HOW_TO_READ} The darker, the more the loss changes as the head gets weaker.",
        ),
        AnswerMaker(("importance-agreement", "importance"), answer_agreement),
        head_facts(
            "gradient of its mask", "importance", "importance", form=SMALL, bar="largest"
        ),
        PrintedTable(
            "importance",
            lambda table, min_count: [
                build_table(
                    table.nlargest(SHOWN_HEADS, "importance").to_dict("records"), COLUMNS
                )
            ],
        ),
    ],
)  # fmt: skip
