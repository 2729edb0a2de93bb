"""Section 6 and Figure 6: heads that attend alike."""

import numpy as np
import pandas as pd

from headscope.report.cells import percent
from headscope.report.claims.claim import Claim, Outcome, Tables

__all__ = ["CLAIMS"]

ALPHA = 0.05
SEVERAL = 3
DEALS = 1000
OTHER = "other"
ONE_LAYER = "A model of one layer cannot have it."


def check_layers(tables: Tables) -> Outcome:
    """Heads of a layer are nearer to each other than to heads of other layers."""
    layers = tables["distance-layers"]
    rows = layers[layers["layer"].isna()]
    if rows.empty or pd.isna(rows.iloc[0]["between"]):
        return Outcome(None, "There are no two layers to compare.")
    row = rows.iloc[0]
    if pd.isna(row["within"]):
        return Outcome(None, "Layers have one head each: none has another one in its layer.")
    within, between = (_nats(row, name) for name in ("within", "between"))
    single = layers[layers["layer"].notna() & (layers["p_value"] < ALPHA)]
    chance = "" if pd.isna(row["p_value"]) else f" (p = {row['p_value']:.2g})"
    shows = (
        f"Heads of one layer are {within} apart in the mean, heads of different layers {between}"
        f"{chance}; by themselves, {len(single)} of {int(layers['layer'].notna().sum())} layers "
        "are closer than chance."
    )
    is_sure = not row["p_value"] >= ALPHA
    return Outcome(bool(row["within"] < row["between"]) and is_sure, shows)


def check_clusters(tables: Tables) -> Outcome:
    """Heads with the same behaviour share a cluster more often than any two heads do."""
    layout = tables["layout"]
    sizes = layout["cluster"].value_counts()
    n_clusters = int((sizes > 1).sum())
    known = layout[layout["behaviour"] != OTHER]
    if known["behaviour"].value_counts().max() < 2 or known.empty:
        return Outcome(None, "No two heads have the same known behaviour.")
    clusters, kinds = (pd.factorize(known[name])[0] for name in ("cluster", "behaviour"))
    together = _share_together(clusters, kinds)
    draws = np.random.default_rng(0)
    dealt = [_share_together(clusters, draws.permutation(kinds)) for _ in range(DEALS)]
    p = (1 + sum(share >= together for share in dealt)) / (1 + DEALS)
    shows = (
        f"{n_clusters} clusters have more than one head. Two heads with the same behaviour share "
        f"a cluster in {percent(together)} % of cases, where {percent(float(np.mean(dealt)))} % "
        f"would be chance (p = {p:.2g})."
    )
    return Outcome(n_clusters >= SEVERAL and p < ALPHA, shows)


def _share_together(clusters: np.ndarray, kinds: np.ndarray) -> float:
    """Of all pairs of the same kind, those in the same cluster."""
    rows, columns = np.triu_indices(len(kinds), 1)
    is_alike = kinds[rows] == kinds[columns]
    return float((clusters[rows] == clusters[columns])[is_alike].mean())


def _nats(row: pd.Series, name: str) -> str:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    ends = "" if pd.isna(low) else f" [{low:.3f}-{high:.3f}]"
    return f"{row[name]:.3f} nats{ends}"


CLAIMS = (
    Claim(
        "layers-attend-alike",
        "6",
        "Heads of the same layer tend to attend alike (here: closer than chance, p < 0.05).",
        "seen in Figure 6",
        ("distance-layers",),
        "--text FILE",
        check_layers,
        "heads-map-layers",
        ONE_LAYER,
    ),
    Claim(
        "heads-cluster-by-behaviour",
        "6",
        "There are several clear clusters of heads, often by their behaviour (here: 3 or more, and "
        "heads with the same behaviour share one more often than chance, p < 0.05).",
        "seen in Figure 6",
        ("layout",),
        "--text FILE",
        check_clusters,
        "heads-map",
        ONE_LAYER,
    ),
)
