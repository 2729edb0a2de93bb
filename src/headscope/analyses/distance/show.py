"""How distances between heads are shown: the map of heads, section 6 of the paper, cards."""

from math import inf, log
from typing import Any

import numpy as np
import pandas as pd

from headscope.data.table import Tables
from headscope.view.answer import Answer, AnswerMaker, Topic
from headscope.view.facts import FactMaker, Facts, Part, by_head
from headscope.view.judge import Claim, Outcome, judge
from headscope.view.numbers import NATS, SHARE, Form, p_value, row_estimate
from headscope.view.presentation import MAP, DerivedTables, MapOptions, Presentation
from headscope.view.specs import OTHER, Figure, PrintedTable
from headscope.view.table import Column, TextTable, build_table

__all__ = ["PRESENTATION"]

ALPHA = 0.05
SEVERAL = 3
LEAST_LAYERS = 3
DEALS = 1000
ONE_LAYER = "A model with one layer does not have it."
WITH_UNIT = Form(".3f", unit=" nats")


def derive(tables: Tables, options: MapOptions) -> DerivedTables | None:
    """The map of heads: the tables `layout` and `dendrogram`; None without distances."""
    if not len(tables.get("distance", ())):
        return None
    # Only here: clustering takes a while to load, and only a new map needs it.
    from headscope.analyses.distance.layout import derive_layout

    return derive_layout(tables, options)


def check_layers(tables: Tables) -> Outcome:
    """Heads of a layer are nearer to each other than to heads of other layers."""
    layers = tables["distance-layers"]
    rows = layers[layers["layer"].isna()].to_dict("records")
    if not rows or pd.isna(rows[0]["between"]):
        return Outcome("not measured", "There are no two layers to compare.")
    row = rows[0]
    if pd.isna(row["within"]):
        none = "Each layer has one head: there are no pairs within a layer."
        return Outcome("not measured", none)
    single = layers[layers["layer"].notna() & (layers["p_value"] < ALPHA)]
    chance = "" if pd.isna(row["p_value"]) else f" (p = {row['p_value']:.2g})"
    shows = (
        f"On average, heads of one layer are {WITH_UNIT.row(row, 'within')} apart, heads of "
        f"different layers {WITH_UNIT.row(row, 'between')}{chance}; tested one by one, "
        f"{len(single)} of {int(layers['layer'].notna().sum())} layers are closer than chance."
    )
    more = row_estimate(row, "difference")
    outcome = judge(more, 0.0, shows, NATS)
    if outcome.verdict == "holds" and not row["p_value"] < ALPHA:
        return Outcome("undecided", f"{shows} Heads assigned to layers at random may be as close.")
    return outcome


def check_ends(tables: Tables) -> Outcome:
    """Heads of the first and of the last layer are closer than heads of any two layers."""
    n_layers = tables["distance-layers"]["layer"].nunique()
    if n_layers < LEAST_LAYERS:
        few = f"The model has {n_layers} layers: too few to compare the first with the last."
        return Outcome("not measured", few)
    row = tables["distance-ends"].iloc[0]
    shows = (
        f"On average, heads of the first and of the last layer are {WITH_UNIT.row(row, 'ends')} "
        f"apart, heads of any two layers {WITH_UNIT.number(row['between'])}."
    )
    more = row_estimate(row, "difference")
    return judge(more, 0.0, shows, NATS, is_above=False)


def check_clusters(tables: Tables) -> Outcome:
    """Heads with the same behaviour share a cluster more often than any two heads do."""
    layout = tables["layout"]
    n_clusters = int((layout["cluster"].value_counts() > 1).sum())
    known = layout[layout["behaviour"] != OTHER.name]
    if known["behaviour"].value_counts().max() < 2 or known.empty:
        return Outcome("not measured", "No two heads have the same known behaviour.")
    clusters, kinds = (pd.factorize(known[name])[0] for name in ("cluster", "behaviour"))
    draws = np.random.default_rng(0)
    deals = np.stack([kinds, *(draws.permutation(kinds) for _ in range(DEALS))])  # [deal, head]
    together, *dealt = _share_together(clusters, deals).tolist()
    p = (1 + sum(share >= together for share in dealt)) / (1 + DEALS)
    shows = (
        f"{n_clusters} clusters have more than one head. Two heads with the same behaviour share "
        f"a cluster in {SHARE.number(together)} of cases, where "
        f"{SHARE.number(float(np.mean(dealt)))} would be chance (p = {p:.2g})."
    )
    if n_clusters < SEVERAL or together <= np.mean(dealt):
        return Outcome("does not hold", shows)
    return Outcome("holds" if p < ALPHA else "undecided", shows)


def _share_together(clusters: np.ndarray, deals: np.ndarray) -> np.ndarray:
    """Of all pairs of the same kind, those in the same cluster, for each way to deal the kinds."""
    shape = (len(deals), deals.max() + 1, clusters.max() + 1)
    places = np.ravel_multi_index((np.arange(len(deals))[:, None], deals, clusters), shape)
    both = np.bincount(places.ravel(), minlength=np.prod(shape))  # heads of a kind and a cluster
    shares: np.ndarray = _count_pairs(both.reshape(len(deals), -1)) / _count_pairs(
        np.bincount(deals[0])
    )
    return shares


def _count_pairs(sizes: np.ndarray) -> np.ndarray:
    counts: np.ndarray = (sizes * (sizes - 1) // 2).sum(axis=-1)
    return counts


def nearest_facts(tables: Tables) -> Facts:
    """Which heads attend most like it."""

    def phrase(row: Any) -> Part:
        other = f"{row.other_layer}-{row.other_head}"
        bar = 1 - row.divergence / log(2)  # from disjoint to identical
        return Part(other, "", bar, note=WITH_UNIT.row(row, "divergence"), head=other)

    return by_head(tables["distance-nearest"], "nearest heads", phrase)


def mean_facts(tables: Tables) -> Facts:
    """How far it is from the heads of its layer, and from others."""

    def phrase(row: Any) -> str:
        within = "" if pd.isna(row.within) else f"{row.within:.3f} nats to heads of its layer, "
        return f"{within}{row.between:.3f} to those of other layers"

    table = tables["distance-heads"]
    return by_head(table[table["between"].notna()], "mean distance", phrase)


def cluster_facts(tables: Tables) -> Facts:
    """Which cluster it is in."""
    layout = tables["layout"]
    others = layout.groupby("cluster")["head"].transform("size") - 1

    def phrase(row: Any) -> str:
        company = f"with {row.others} others" if row.others > 1 else "with 1 other"
        return f"number {row.cluster}, {company if row.others else 'alone'}"

    return by_head(layout.assign(others=others), "cluster", phrase)


def answer_layers(tables: Tables) -> list[Answer]:
    """Whether heads of a layer attend alike."""
    layers = tables["distance-layers"]
    rows = layers[layers["layer"].isna() & layers["within"].notna() & layers["between"].notna()]
    if rows.empty:
        return []
    row = rows.iloc[0]
    more = row_estimate(row, "difference")
    p_value = row["p_value"]  # one-sided: how often heads of random layers are as close
    is_alike, is_apart = p_value < ALPHA and more.low > 0, p_value > 1 - ALPHA and more.high < 0
    if not is_alike and not is_apart:
        return []
    do = "attend more alike" if is_alike else "attend less alike"
    text = (
        f"Heads of the same layer {do} than heads of different layers (mean divergence "
        f"{NATS.row(row, 'within')} against {NATS.row(row, 'between')} nats; the maximum is 0.69)."
    )
    detail = f"Difference {NATS.estimate(more)} nats."
    figure = "heads-map-layers"
    return [Answer(text, 0.45, detail, (), figure, Topic.SUMMARY, more, 0.0, inf)]


LAYERS = (
    Column(
        "distance between heads",
        lambda row: "mean Jensen-Shannon divergence (0 identical, 0.69 disjoint)",
    ),
    Column("within a layer", lambda row: NATS.row(row, "within")),
    Column("between layers", lambda row: NATS.row(row, "between")),
    Column("p", lambda row: p_value(row["p_value"])),
)


def read_layers(layers: pd.DataFrame, min_count: int) -> list[TextTable]:
    """How far heads of a layer are apart, and heads of different layers, over all layers."""
    return [build_table(layers[layers["layer"].isna()].to_dict("records"), LAYERS)]


CHARTS = "headscope.analyses.distance.charts"
PRESENTATION = Presentation(MAP, paper="6", figure="heads-map-layers", derive=derive, show=[
    Figure(
        name="heads-map", needs=("layout",), draw_tables=f"{CHARTS}:draw_map", in_line=2,
        title="The map of heads", paper="Figure 6",
        caption="Each point is a head. Heads that attend alike are close together (two dimensions "
        "show some distances only roughly). Colour and shape: what the head attends to, by the "
        "paper's thresholds. Heads that find a syntactic relation are labelled with it.",
    ),
    Figure(
        name="heads-map-layers", needs=("layout",), draw_tables=f"{CHARTS}:draw_map_by_layer",
        in_line=2, title="The map of heads by layer", paper="Figure 6",
        caption="The same map, coloured by layer from the first (dark) to the last (bright). Each "
        "point is a head; heads that attend alike are close together.",
    ),
    Figure(
        name="distance-matrix", needs=("distance", "layout"), draw_tables=f"{CHARTS}:draw_matrix",
        in_line=2, title="How alike each pair of heads attends",
        caption="Rows and columns: heads, in the order of the dendrogram, which puts similar heads "
        "next to each other. Each cell is a pair of heads. The darker, the more alike they attend "
        "(Jensen-Shannon divergence: 0 nats identical, 0.69 disjoint). Dark squares along the "
        "diagonal are groups of similar heads.",
    ),
    Figure(
        name="dendrogram", needs=("dendrogram", "layout"),
        draw_tables="headscope.analyses.distance.dendrogram:draw_dendrogram",
        title="Which heads belong together",
        caption="Each point at the bottom is a head. Two heads or groups that join at a lower "
        "height attend more alike. The height is the mean divergence between the two groups, in "
        "nats. Colours: what the heads attend to, as in the map of heads. Many heads are cut into "
        "groups (clusters, and parts of large ones): click a group to see its heads below.",
    ),
    Claim(
        "layers-attend-alike", check_layers, needs=("distance-layers",), unless=ONE_LAYER,
        says="Heads of the same layer tend to attend alike (here: closer than heads of different "
        "layers, and than heads assigned to layers at random, p < 0.05).",
        paper='"Heads within the same layer are often fairly close to each other"',
    ),
    Claim(
        "first-and-last-layer-attend-alike", check_ends, unless=ONE_LAYER,
        needs=("distance-ends", "distance-layers"),
        says="The first and the last layer attend alike (here: their heads are closer to each "
        "other than heads of two layers are on average).",
        paper="not in the paper's text: a question raised by Figure 6",
    ),
    Claim(
        "heads-cluster-by-behaviour", check_clusters, needs=("layout",), figure="heads-map",
        unless=ONE_LAYER,
        says="There are several clear clusters of heads, often by their behaviour (here: 3 or "
        "more, and heads with the same behaviour share one more often than chance, p < 0.05).",
        paper='"there are several clear clusters of heads that behave similarly, often '
        'corresponding to behaviors we have already discussed in this paper"',
    ),
    AnswerMaker(("distance-layers",), answer_layers),
    FactMaker(("distance-nearest",), nearest_facts),
    FactMaker(("distance-heads",), mean_facts),
    FactMaker(("layout",), cluster_facts),
    PrintedTable("distance-layers", read_layers),
])  # fmt: skip
