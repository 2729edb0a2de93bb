"""Probes beside the paper's Table 3, and a picture of which heads the parse is made of."""

from collections.abc import Iterator

import pandas as pd

__all__ = ["PAPER_TABLE_3", "draw_weights", "probe_lines", "relation_lines"]

# Clark et al. 2019, Table 3 (BERT-base on WSJ): UAS without punctuation.
PAPER_TABLE_3 = {
    "right-branching": 26,
    "distances-and-words": 58,
    "random-init-attention-and-words": 30,
    "attention-only": 61,
    "attention-and-words": 77,
}

HEADER = ("probe", "UAS %", "with punct", "UUAS", "MST UAS", "sentences", "parameters", "paper")
SHOWN = "attention-and-words", "attention-only"  # whose relations are printed, the first there is
CELL, GAP, LABEL = 14, 34, 46
KINDS = ("dependent-to-head", "head-to-dependent", "opening", "closing")
POSITIVE, NEGATIVE = "#b2182b", "#2166ac"


def probe_lines(table: pd.DataFrame) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Header and rows: every probe's scores, with the paper's UAS last."""
    lines = []
    for row in table.to_dict("records"):
        interval = (
            "" if pd.isna(row["low"]) else f" [{_percent(row['low'])}-{_percent(row['high'])}]"
        )
        lines.append(
            (
                str(row["probe"]),
                f"{_percent(row['uas'])}{interval}",
                *(_percent(row[name]) for name in ("uas_with_punctuation", "uuas", "mst_uas")),
                f"{row['sentences']:,}",
                f"{row['parameters']:,}",
                str(PAPER_TABLE_3.get(row["probe"], "")),
            )
        )
    return HEADER, lines


def relation_lines(
    table: pd.DataFrame, min_count: int
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """The relations of the strongest probe beside their best single heads, most frequent first."""
    name = next((probe for probe in SHOWN if probe in set(table["probe"])), None)
    shown = table[(table["probe"] == name) & (table["count"] >= min_count)]
    header = ("relation", "count", f"{name} %", "best head", "its %", "gain")
    lines: list[tuple[str, ...]] = []
    for row in shown.to_dict("records"):
        has_head = not pd.isna(row["gain"])
        arrow = " (h>d)" if row["best_direction"] == "head-to-dependent" else ""
        head = f"{row['best_layer']}-{row['best_head']}{arrow}" if has_head else ""
        of_head = (_percent(row["best_head_accuracy"]), f"{100 * row['gain']:+.1f}")
        lines.append(
            (
                str(row["relation"]),
                str(row["count"]),
                _percent(row["accuracy"]),
                head,
                *(of_head if has_head else ("", "")),
            )
        )
    return header, lines


def draw_weights(table: pd.DataFrame, probe: str = "attention-only") -> str:
    """The weights of a probe as SVG: a grid of heads for each direction, red for, blue against."""
    weights = table[(table["probe"] == probe) & table["layer"].notna()]
    n_layers, n_heads = int(weights["layer"].max()), int(weights["head"].max())
    strongest = {kind: _strongest(weights, kind) for kind in KINDS}
    width = LABEL + len(KINDS) * (n_heads * CELL + GAP)
    height = 2 * LABEL + n_layers * CELL
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="11">',
        f"<title>Weights of the {probe} probe, by layer (down) and head (across)</title>",
    ]
    for place, kind in enumerate(KINDS):
        left = LABEL + place * (n_heads * CELL + GAP)
        parts.append(f'<text x="{left}" y="20">{kind}</text>')
        parts.append(f'<text x="{left}" y="33">full colour is {strongest[kind]:.1f}</text>')
        parts += _draw_grid(weights[weights["direction"] == kind], left, strongest[kind])
    parts += [
        f'<text x="{LABEL - 8}" y="{LABEL + (layer + 0.75) * CELL}" text-anchor="end">'
        f"{layer + 1}</text>"
        for layer in range(n_layers)
    ]
    parts.append(
        f'<text x="{LABEL}" y="{height - 14}">layer (down), head (across); red raises a '
        "candidate's score, blue lowers it; opening and closing speak for ROOT</text></svg>"
    )
    return "\n".join(parts) + "\n"


def _strongest(weights: pd.DataFrame, kind: str) -> float:
    """The largest weight of a grid's scale: one for words, one for ROOT, which has larger ones."""
    of_words = KINDS[:2]
    alike = of_words if kind in of_words else KINDS[2:]
    return float(weights[weights["direction"].isin(alike)]["weight"].abs().max()) or 1.0


def _draw_grid(weights: pd.DataFrame, left: int, strongest: float) -> Iterator[str]:
    for row in weights.to_dict("records"):
        x = left + (int(row["head"]) - 1) * CELL
        y = LABEL + (int(row["layer"]) - 1) * CELL
        weight = float(row["weight"])
        colour = POSITIVE if weight > 0 else NEGATIVE
        yield (
            f'<rect x="{x}" y="{y}" width="{CELL - 1}" height="{CELL - 1}" fill="{colour}" '
            f'fill-opacity="{abs(weight) / strongest:.3f}" stroke="#ddd" stroke-width="0.5">'
            f"<title>{row['layer']}-{row['head']}: {weight:.2f}</title></rect>"
        )


def _percent(share: float) -> str:
    return "" if pd.isna(share) else f"{100 * share:.1f}"
