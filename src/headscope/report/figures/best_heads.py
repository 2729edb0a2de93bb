"""The best head of each relation, and of each type of mention, beside what needs no model."""

import altair as alt
import pandas as pd

from headscope.report.figures.best_bars import BestBars
from headscope.report.figures.figure import Drawing, Figure, Tables

__all__ = ["COREFERENCE_BEST", "DEPENDENCY_BEST"]

SHOWN = 25  # relations of a treebank
OFFSET = {"baseline_accuracy": "best fixed offset"}
RULES = {"nearest": "nearest mention", "head_match": "same head word", "rule_based": "rules"}
FURTHER = [alt.Tooltip("direction:N"), alt.Tooltip("count:Q", format=",")]


def draw_dependency_best(tables: Tables) -> Drawing:
    """The most frequent relations; a panel for each treebank."""
    best = tables["dependency-best"]
    panel = "treebank" if "treebank" in best else ""
    parts = [part for _, part in best.groupby(panel, sort=False)] if panel else [best]
    bars = BestBars(
        label="relation",
        value="accuracy",
        title="accuracy",
        bar="best head",
        ticks=OFFSET,
        held_out="heldout_accuracy",
        panel=panel,
        said=[*FURTHER, alt.Tooltip("offset:Q", format="+d")],
        carried=["direction", "count", "offset"],
    )
    return bars.draw(pd.concat([_most_frequent(part) for part in parts]))


def draw_coreference_best(tables: Tables) -> Drawing:
    """Each type of mention; a panel for each corpus, window and set of candidates."""
    best = tables["coreference-best"]
    bars = BestBars(
        label="mention_type",
        value="accuracy",
        title="antecedents found",
        bar="best head",
        ticks=RULES,
        held_out="heldout_accuracy",
        panel="panel",
        said=FURTHER,
        carried=["direction", "count"],
    )
    return bars.draw(best.assign(panel=_name_panels(best)))


def _most_frequent(best: pd.DataFrame) -> pd.DataFrame:
    """The relations with most words; those over all words are the most frequent, so come first."""
    return best.sort_values("count", ascending=False, kind="stable").head(SHOWN)


def _name_panels(best: pd.DataFrame) -> "pd.Series[str]":
    called = best["candidates"].map({"mentions": "of earlier mentions", "words": "of all words"})
    if "window" in best:
        called = called + ", " + best["window"].astype(str) + " tokens"
    return best["corpus"].astype(str) + ": " + called if "corpus" in best else called


DEPENDENCY_BEST = Figure(
    name="dependency-best",
    title="The best head of each syntactic relation",
    caption=(
        "One line for each relation, the most frequent first. The bar is the best head (named at "
        "the right): how often the word it attends to most is the right one, with its 95 % "
        "interval. The diamond is the same with the head chosen on other sentences. The tick is "
        "what the best fixed distance gets, which needs no model."
    ),
    needs=("dependency-best",),
    made_by="--treebank FILE",
    draw_tables=draw_dependency_best,
    paper="Table 1",
)

COREFERENCE_BEST = Figure(
    name="coreference-best",
    title="Heads that find antecedents",
    caption=(
        "One line for each type of mention. The bar is the best head (named at the right): how "
        "often a mention attends most to a right antecedent, of the earlier mentions or of all "
        "words, with its 95 % interval. The diamond is the same with the head chosen on other "
        "documents. Ticks are rules that need no model; they choose among mentions."
    ),
    needs=("coreference-best",),
    made_by="--coref FILE",
    draw_tables=draw_coreference_best,
    paper="Table 2",
)
