"""Distances between heads in a few lines: layers, clusters, and matches between two models."""

from collections import Counter

import pandas as pd

__all__ = ["cluster_lines", "layer_lines", "match_lines", "match_summary"]

SHOWN_MATCHES, SHOWN_HEADS = 20, 8

Lines = tuple[tuple[str, ...], list[tuple[str, ...]]]


def layer_lines(layers: pd.DataFrame) -> Lines:
    """Header and one row: how far heads of a layer are apart, and heads of different layers."""
    header = ("distance between heads", "within a layer", "between layers", "p")
    rows: list[tuple[str, ...]] = []
    for row in layers[layers["layer"].isna()].to_dict("records"):
        p = "-" if pd.isna(row["p_value"]) else _p_value(row["p_value"])
        within, between = (
            _interval(row[name], row[f"{name}_low"], row[f"{name}_high"])
            for name in ("within", "between")
        )
        rows.append(("nats a row (0 alike, 0.69 apart)", within, between, p))
    return header, rows


def cluster_lines(layout: pd.DataFrame) -> Lines:
    """Header and one row for each cluster, the largest first: its heads and what they are."""
    header = ("cluster", "heads", "behaviours", "members")
    sizes = layout["cluster"].value_counts()
    rows: list[tuple[str, ...]] = []
    for cluster in sorted(sizes.index, key=lambda c: (-sizes[c], c)):
        members = layout[layout["cluster"] == cluster]
        kinds = Counter(members["behaviour"])
        behaviours = ", ".join(f"{count} {name}" for name, count in kinds.most_common())
        names = [f"{r.layer}-{r.head}" for r in members.itertuples()]
        shown = " ".join(names[:SHOWN_HEADS]) + (" ..." if len(names) > SHOWN_HEADS else "")
        rows.append((str(cluster), str(len(members)), behaviours, shown))
    return header, rows


def match_lines(matches: pd.DataFrame) -> Lines:
    """Header and the closest matches, closest first."""
    header = ("head", "match", "divergence (nats a row)", "support", "any other, mean", "")
    closest = matches.sort_values("divergence", kind="stable").head(SHOWN_MATCHES)
    rows: list[tuple[str, ...]] = [
        (
            f"{row['layer_a']}-{row['head_a']}",
            f"{row['layer_b']}-{row['head_b']}",
            _interval(row["divergence"], row["low"], row["high"]),
            "-" if pd.isna(row["support"]) else f"{row['support']:.0%}",
            f"{row['mean_divergence']:.3f}",
            "each other's nearest" if row["is_mutual"] else "",
        )
        for row in closest.to_dict("records")
    ]
    if len(matches) > len(closest):
        rows.append((f"({len(matches) - len(closest)} more", "in the tables)", "", "", "", ""))
    return header, rows


def match_summary(matches: pd.DataFrame) -> list[tuple[str, str]]:
    """How alike matched heads are beside any two, and whether they stand at the same depth."""
    is_same = (matches["layer_a"] == matches["layer_b"]) & (matches["head_a"] == matches["head_b"])
    depth = matches["layer_a"].corr(matches["layer_b"], method="spearman")
    return [
        ("matched heads", str(len(matches))),
        ("mean divergence of matches", f"{matches['divergence'].mean():.3f}"),
        ("mean divergence of any two", f"{matches['mean_divergence'].mean():.3f}"),
        ("each other's nearest", str(int(matches["is_mutual"].sum()))),
        ("at the same place (layer and head)", str(int(is_same.sum()))),
        ("rank correlation of layers", "-" if pd.isna(depth) else f"{depth:.2f}"),
    ]


def _interval(value: float, low: float, high: float) -> str:
    bounds = "" if pd.isna(low) else f" [{low:.3f}-{high:.3f}]"
    return "-" if pd.isna(value) else f"{value:.3f}{bounds}"


def _p_value(p: float) -> str:
    return "<.001" if p < 0.001 else f"{p:.3f}"
