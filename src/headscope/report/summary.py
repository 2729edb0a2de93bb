"""Which heads look back, ahead, at special tokens, or broadly: a run in a few lines."""

import pandas as pd

from headscope.analyses.behaviours import BEHAVIOURS, Behaviour, behaviour_table

__all__ = ["BEHAVIOURS", "Behaviour", "behaviour_table", "summary_lines"]

SHOWN_HEADS = 5


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


def _describe(row: object) -> str:
    layer, head, share, low, high = (
        getattr(row, name) for name in ("layer", "head", "share", "low", "high")
    )
    interval = "" if pd.isna(low) else f" [{100 * low:.0f}-{100 * high:.0f}]"
    return f"{layer}-{head} {share:.0%}{interval}"
