"""The main measures as grids of heads: position, special tokens, breadth, relations, ablation."""

from collections.abc import Callable

import altair as alt
import pandas as pd

from headscope.report.figures.ablation import EFFECTS, MODES
from headscope.report.figures.figure import Drawing, Figure, Tables
from headscope.report.figures.heads_grid import HeadsGrid
from headscope.report.figures.marks import number

__all__ = [
    "HEADS_ABLATION",
    "HEADS_ENTROPY",
    "HEADS_NEXT",
    "HEADS_PREVIOUS",
    "HEADS_RELATIONS",
    "HEADS_SEP",
]

MIN_COUNT = 50  # words of a relation: of fewer, some head finds most by chance
SHARE = "share of attention"
HOW_TO_READ = "Every cell is a head: its layer down, its number across."


def _grid_of(
    name: str, select: Callable[[Tables], pd.DataFrame], to: str, drawn: str, table: str
) -> Figure:
    """A figure of the attention that heads give to one thing."""

    def draw(tables: Tables) -> Drawing:
        return HeadsGrid("weight", SHARE).draw(select(tables))

    def has_content(tables: Tables) -> bool:
        return bool((select(tables)["weight"] > 0).any())

    return Figure(
        name=name,
        title=f"Heads that attend to {to}",
        caption=f"{HOW_TO_READ} The darker, the more of its attention goes to {to}.",
        needs=(table,),
        made_by="--text FILE",
        draw_tables=draw,
        has_content=has_content,
        content=drawn,
    )


def _to_neighbour(target: str) -> Callable[[Tables], pd.DataFrame]:
    return lambda tables: tables["position"][tables["position"]["target"] == target]


def _to_sep(tables: Tables) -> pd.DataFrame:
    table = tables["special-tokens"]
    return table[(table["source"] == "all") & (table["target"] == "sep")]


def draw_entropy_grid(tables: Tables) -> Drawing:
    """The entropy over all rows."""
    table = tables["entropy"]
    grid = HeadsGrid(
        "nats", "entropy (nats)", said=[number("uniform", "even attention")], carried=["uniform"]
    )
    return grid.draw(table[table["rows"] == "all"])


def draw_relations_grid(tables: Tables) -> Drawing:
    """The relation that a head finds best, above the offsets; a panel for each treebank."""
    best = best_relations(tables)
    said = [
        alt.Tooltip("relation:N"),
        alt.Tooltip("direction:N"),
        number("accuracy", "accuracy"),
        number("baseline_accuracy", "best fixed offset"),
        alt.Tooltip("count:Q", title="words"),
    ]
    grid = HeadsGrid(
        "gain",
        "accuracy above the best fixed offset",
        diverging=True,
        panel="treebank" if "treebank" in best else "",
        panel_order=list(dict.fromkeys(tables["dependency-best"].get("treebank", ()))),
        said=said,
        carried=["relation", "direction", "accuracy", "baseline_accuracy", "count"],
    )
    return grid.draw(best)


def best_relations(tables: Tables) -> pd.DataFrame:
    """Of every head the relation (and direction) in which it is furthest above the best offset."""
    table, best = tables["dependency"], tables["dependency-best"]
    keys = [name for name in ("treebank", "relation") if name in best]
    is_single = ~best["relation"].str.startswith("all") & (best["count"] >= MIN_COUNT)
    single = best[is_single if is_single.any() else best["count"] > 0]
    joined = table.merge(single[[*keys, "baseline_accuracy"]], on=keys)
    joined = joined.assign(gain=joined["accuracy"] - joined["baseline_accuracy"])
    per_head = [*keys[:-1], "layer", "head"]
    furthest = joined.sort_values("gain", ascending=False, kind="stable")
    return furthest.drop_duplicates(per_head).sort_values(per_head)


def draw_ablation_grid(tables: Tables) -> Drawing:
    """The change in each mode, each with its own colours."""
    table = tables["ablation"]
    effect = str(table["effect"].iloc[0])
    called = table.assign(mode=table["mode"].map(lambda mode: MODES.get(mode, mode)))
    has_sign = effect == "loss"  # hidden states can only differ
    grid = HeadsGrid("change", EFFECTS.get(effect, effect), diverging=has_sign, panel="mode")
    modes = dict.fromkeys(called["mode"])
    grids = [grid.draw(called[called["mode"] == mode]) for mode in modes]
    return alt.hconcat(*grids, spacing=24).resolve_scale(color="independent")


HEADS_PREVIOUS = _grid_of(
    "heads-previous",
    _to_neighbour("previous"),
    "the previous token",
    "attention to previous tokens",
    "position",
)
HEADS_NEXT = _grid_of(
    "heads-next",
    _to_neighbour("next"),
    "the next token",
    "attention to next tokens (a decoder has none)",
    "position",
)
HEADS_SEP = _grid_of(
    "heads-sep",
    _to_sep,
    "closing tokens ([SEP])",
    "attention to closing tokens (a decoder's input has none)",
    "special-tokens",
)
HEADS_ENTROPY = Figure(
    name="heads-entropy",
    title="How broadly each head attends",
    caption=f"{HOW_TO_READ} The darker, the broader its attention (entropy, in nats).",
    needs=("entropy",),
    made_by="--text FILE",
    draw_tables=draw_entropy_grid,
)
HEADS_RELATIONS = Figure(
    name="heads-relations",
    title="Heads that know a syntactic relation",
    caption=(
        f"{HOW_TO_READ} Red: for some relation the word it attends to most is the right one more "
        "often than the word at any fixed distance; blue: for none. Shown is the relation where "
        f"the head is furthest above, of those with at least {MIN_COUNT} words."
    ),
    needs=("dependency", "dependency-best"),
    made_by="--treebank FILE",
    draw_tables=draw_relations_grid,
)
HEADS_ABLATION = Figure(
    name="heads-ablation",
    title="What each head is worth",
    caption=(
        f"{HOW_TO_READ} A change of the loss when the head is altered is red where the loss is "
        "higher (the model is worse), blue where it is lower; a change of the hidden states is "
        "the darker, the larger. One panel for each way to alter the head, each with its own "
        "scale."
    ),
    needs=("ablation",),
    made_by="--text FILE --also ablation",
    draw_tables=draw_ablation_grid,
)
