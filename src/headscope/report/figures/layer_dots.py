"""The paper's plot of heads: layers across, a measure up, a dot for each head, a line of means."""

from collections.abc import Sequence

import altair as alt
import pandas as pd

from headscope.report.figures.figure import name_heads

__all__ = ["dots_per_layer"]


def dots_per_layer(
    table: pd.DataFrame,
    value: str,
    title: str,
    panel: str | None = None,
    panels: Sequence[str] | None = None,
) -> alt.TopLevelMixin:
    """A dot for each head and a line through the layers' means; a panel for each `panel` value."""
    shown = name_heads(table)
    across = alt.X("layer:Q", title="layer", axis=alt.Axis(tickMinStep=1, format="d"))
    up = alt.Y(f"{value}:Q", title=title)
    said = [
        alt.Tooltip("name:N", title="head"),
        *([alt.Tooltip(f"{panel}:N")] if panel else []),
        alt.Tooltip(f"{value}:Q", title=title, format=".3f"),
        *[alt.Tooltip(f"{end}:Q", format=".3f") for end in ("low", "high")],
    ]
    base = alt.Chart(shown)
    dots = base.mark_circle(size=35, opacity=0.7, cursor="pointer").encode(across, up, tooltip=said)
    means = base.mark_line(strokeWidth=2).encode(across, alt.Y(f"mean({value}):Q", title=title))
    chart = alt.layer(means, dots).properties(width=220, height=180)
    if panel is None:
        return chart
    order = list(panels) if panels else list(dict.fromkeys(shown[panel]))
    return chart.facet(column=alt.Column(f"{panel}:N", title=None, sort=order))
