"""Does attention matter? Gradients and ablation in a few lines."""

import pandas as pd

__all__ = ["ablation_lines", "gradient_lines"]

Lines = tuple[tuple[str, ...], list[tuple[str, ...]]]

SHOWN_HEADS = 5


def gradient_lines(table: pd.DataFrame) -> Lines:
    """For each class of tokens the mean gradient over the heads of each third of the layers."""
    n_layers = int(table["layer"].max())
    third = ((table["layer"] - 1) * 3 // n_layers).rename("third")
    means = table.groupby(["target", third], sort=False)["gradient"].mean().unstack()
    parts = {0: "lower layers", 1: "middle layers", 2: "upper layers"}
    there = [part for part in parts if part in means]
    header = ("the loss depends on attention to", *(parts[part] for part in there))
    lines = [
        (str(target), *(_number(row[part]) for part in there)) for target, row in means.iterrows()
    ]
    return header, lines


def ablation_lines(table: pd.DataFrame) -> Lines:
    """For each way to alter a head the mean change, and the heads that change most."""
    measured = "loss" if table["effect"].iloc[0] == "loss" else "hidden states (1 - cosine)"
    header = ("a head altered", f"mean change of the {measured}", "most by (95 % interval)")
    lines: list[tuple[str, ...]] = []
    for mode, rows in table.groupby("mode", sort=False):
        most = rows.sort_values("change", ascending=False).head(SHOWN_HEADS)
        heads = ", ".join(_head(row) for row in most.itertuples())
        lines.append((str(mode), _number(rows["change"].mean()), heads))
    return header, lines


def _head(row: object) -> str:
    layer, head, change, low, high = (
        getattr(row, name) for name in ("layer", "head", "change", "low", "high")
    )
    interval = "" if pd.isna(low) else f" [{_number(low)} to {_number(high)}]"
    return f"{layer}-{head} {_number(change)}{interval}"


def _number(value: float) -> str:
    return "-" if pd.isna(value) else f"{value:.2g}"
