"""Which heads look back, ahead, at special tokens, or broadly: a run in a few lines."""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

__all__ = ["BEHAVIOURS", "Behaviour", "behaviour_table", "summary_lines"]

SHOWN_HEADS = 5
BROAD = 3.8 / 4.852  # the paper's 3.8 nats, as a share of uniform attention over its 128 tokens


@dataclass(frozen=True)
class Behaviour:
    """A kind of head: the rows of a table it shows in, and the share above which it counts."""

    name: str
    table: str
    rows: Mapping[str, str]
    threshold: float


# The thresholds of the paper's figure 6.
BEHAVIOURS = [
    Behaviour("previous token", "position", {"target": "previous"}, 0.5),
    Behaviour("next token", "position", {"target": "next"}, 0.5),
    Behaviour("same token", "position", {"target": "self"}, 0.5),
    Behaviour(
        "opening token (cls)",
        "special-tokens",
        {"source": "all", "target": "cls"},
        0.6,
    ),
    Behaviour("closing tokens (sep)", "special-tokens", {"source": "all", "target": "sep"}, 0.6),
    Behaviour(
        "period and comma",
        "special-tokens",
        {"source": "all", "target": "punctuation"},
        0.6,
    ),
    Behaviour("everything, broadly", "entropy", {"rows": "all"}, BROAD),
]

COLUMNS = ["behaviour", "layer", "head", "share", "low", "high", "threshold", "holds"]


def behaviour_table(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Every head's share of every behaviour that was measured, highest first.

    A share is a mean attention weight; of broad attention, entropy over that of uniform attention.
    """
    parts = [_measure(b, tables[b.table]) for b in BEHAVIOURS if b.table in tables]
    parts = [part for part in parts if len(part)]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=COLUMNS)


def summary_lines(behaviours: pd.DataFrame) -> list[tuple[str, str, str]]:
    """For each behaviour: its name, how many heads show it, and the strongest ones."""
    lines = []
    for name, heads in behaviours.groupby("behaviour", sort=False):
        chosen = heads[heads["holds"]]
        shown = [_describe(row) for row in chosen.head(SHOWN_HEADS).itertuples()]
        if len(chosen) > SHOWN_HEADS:
            shown.append("...")
        if not shown:
            shown = [f"none; highest {_describe(next(heads.itertuples()))}"]
        count = f"{len(chosen)} of {len(heads)} (> {heads['threshold'].iloc[0]:.0%})"
        lines.append((str(name), count, ", ".join(shown)))
    return lines


def _measure(behaviour: Behaviour, table: pd.DataFrame) -> pd.DataFrame:
    for column, label in behaviour.rows.items():
        table = table[table[column] == label]
    if "nats" in table:
        scale = table["uniform"].where(table["uniform"] > 0)  # one visible key: no breadth
        shares = {"share": table["nats"] / scale} | {c: table[c] / scale for c in ("low", "high")}
    else:
        shares = {"share": table["weight"], "low": table["low"], "high": table["high"]}
    found = table[["layer", "head"]].assign(
        behaviour=behaviour.name, threshold=behaviour.threshold, **shares
    )
    found = found.assign(holds=found["share"] > behaviour.threshold)
    return found[COLUMNS].sort_values("share", ascending=False)


def _describe(row: object) -> str:
    layer, head, share, low, high = (
        getattr(row, name) for name in ("layer", "head", "share", "low", "high")
    )
    interval = "" if pd.isna(low) else f" [{100 * low:.0f}-{100 * high:.0f}]"
    return f"{layer}-{head} {share:.0%}{interval}"
