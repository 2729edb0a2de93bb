"""The small figures of a comparison: the same axes for all runs, a colour for each."""

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass

import altair as alt
import pandas as pd

from headscope.comparison.answer import LEVEL, name_measure
from headscope.data.table import split_kinds
from headscope.runs.run import Run
from headscope.view.behaviour import behaviour_table
from headscope.view.charts import draw_grid
from headscope.view.figure import Chart, clean_label, clean_labels, mark_data, render, style
from headscope.view.specs import COLOURS, GREY, HOW_TO_READ, Grid

__all__ = [
    "Drawn", "draw", "draw_best", "draw_changes", "draw_kinds", "draw_lines", "kinds_by_depth",
]  # fmt: skip

PANELS_A_ROW, PANEL_WIDTH, PANEL_HEIGHT = 4, 170, 110
SHOWN_GRIDS, SHOWN_BEST = 6, 24


@dataclass(frozen=True)
class Drawn:
    """A figure as an image that a page holds, and how to read it."""

    title: str
    caption: str
    source: str  # of an image


def draw(chart: Chart, title: str, caption: str) -> Drawn:
    """The chart as SVG, which needs no script."""
    svg = render(style(chart, caption), "svg")
    return Drawn(title, caption, f"data:image/svg+xml;base64,{b64encode(svg).decode()}")


def _shades(runs: list[str]) -> alt.Color:
    runs = [str(clean_label(run)) for run in runs]
    colours = [COLOURS[place % len(COLOURS)] for place in range(len(runs))]
    scale = alt.Scale(domain=runs, range=colours)
    legend = alt.Legend(title=None, orient="top", symbolOpacity=1)
    return alt.Color("run:N", scale=scale, legend=legend, sort=runs)


def kinds_by_depth(runs: Mapping[str, Run]) -> pd.DataFrame:
    """The share of every head for every behaviour, by its depth from 0 to 1."""
    parts = []
    for name, run in runs.items():
        found = behaviour_table(next(iter(split_kinds(run.tables).values())))
        if len(found):
            depth = (found["layer"] - 0.5) / found["layer"].max()
            parts.append(found.assign(run=name, depth=depth.astype(float)))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def draw_kinds(runs: Mapping[str, Run]) -> Drawn | None:
    """A panel for each behaviour: heads as dots by depth, for each run a line of layers' means."""
    table = clean_labels(kinds_by_depth(runs))
    if not len(table):
        return None
    across = alt.X("depth:Q", title="depth", scale=alt.Scale(domain=[0, 1]), axis=_few())
    shades = _shades(list(runs))
    dots = alt.Chart().mark_circle(size=12, opacity=0.35)
    line = alt.Chart().mark_line(strokeWidth=1.8)
    chart = alt.layer(
        dots.encode(across, alt.Y("share:Q", title="share"), shades),
        line.encode(across, alt.Y("mean(share):Q", title="share"), shades),
    ).properties(width=PANEL_WIDTH, height=PANEL_HEIGHT)
    return draw(
        _facet(chart, table, "behaviour", ["behaviour", "run", "depth", "share"]),
        "What heads attend to, by depth",
        "A panel for each behaviour, all with the same axes. Each dot is a head; the lines are "
        "means of layers. x: depth, from the first layer (0) to the last (1). y: share of "
        "attention (of broad attention: entropy over that of even attention).",
    )


def draw_best(best: pd.DataFrame, runs: list[str]) -> Drawn | None:
    """The best head of each question in each run, held out."""
    if not len(best):
        return None
    best = clean_labels(best)
    several = best["table"].nunique() > 1
    of = (best["table"] + ": " + best["of"]) if several else best["of"]
    table = best.assign(of=of)
    high = table.groupby("of")["value"].max().sort_values(ascending=False)
    table = table[table["of"].isin(high.index[:SHOWN_BEST])]
    order = list(high.index[:SHOWN_BEST])
    rows = alt.Y("of:N", sort=order, title=None, axis=alt.Axis(labelLimit=400))
    runs = [str(clean_label(run)) for run in runs]
    inside = alt.YOffset("run:N", sort=runs)
    base = alt.Chart(mark_data(table, ["of", "run", "value", "low", "high"]))
    across = alt.X("value:Q", title="accuracy, held out")
    ends = base.mark_rule().encode(
        alt.X("low:Q", title="accuracy, held out"), alt.X2("high:Q"), rows, inside, _shades(runs)
    )
    dots = base.mark_circle(size=36, opacity=1).encode(across, rows, inside, _shades(runs))
    return draw(
        alt.layer(ends, dots).properties(width=560, height=alt.Step(9)),
        "Best heads",
        f"The best head of each question in each run, scored on documents not used to choose it, "
        f"with 95 % intervals. The {len(order)} questions with the highest scores.",
    )


def draw_changes(heads: pd.DataFrame, run: str) -> Drawn | None:
    """Grids of heads: the measures in which heads at the same place differ most."""
    own = heads[(heads["run"] == run) & (heads["p_value"] < LEVEL)]
    own = own[own["value"].between(0, 1) & own["first_value"].between(0, 1)]
    if not len(own):
        return None
    named = own.assign(panel=[name_measure(row) for _, row in own.iterrows()])
    size = named.groupby("panel")["difference"].agg(lambda d: d.abs().max())
    chosen = list(size.sort_values(ascending=False).index[:SHOWN_GRIDS])
    kept = named[named["panel"].isin(chosen)][["table", "measure", "of", "panel"]].drop_duplicates()
    shown = heads[heads["run"] == run].merge(kept, on=["table", "measure", "of"])
    shown = shown[shown["difference"].notna()]
    shown = shown.rename(columns={"difference_low": "low", "difference_high": "high"})
    panels = {str(name): str(name) for name in map(clean_label, chosen)}
    grid = Grid(
        name="", title="", caption="", column="difference", axis="difference", diverging=True,
        panel="panel", words=panels,
    )  # fmt: skip
    return draw(
        draw_grid(grid, clean_labels(shown)),
        f"Heads of {run} that differ most",
        f"{HOW_TO_READ} Red: more than the head at the same place of the first run; blue: less. "
        f"The {len(chosen)} measures with the largest significant differences (after correction).",
    )


def draw_lines(
    table: pd.DataFrame, title: str, caption: str, share_scale: bool = True
) -> Drawn | None:
    """A panel for each line of `panel`: `value` (and `low`, `high`) over `step`."""
    if not len(table):
        return None
    table = clean_labels(table).assign(
        low=table["low"].fillna(table["value"]), high=table["high"].fillna(table["value"])
    )
    across = alt.X("step:Q", title="step", scale=alt.Scale(type="symlog"), axis=_few())
    up = alt.Y("value:Q", title=None, scale=alt.Scale(zero=share_scale))
    band = alt.Chart().mark_area(opacity=0.25, color=COLOURS[0])
    line = alt.Chart().mark_line(strokeWidth=1.8, color=COLOURS[0], point={"size": 14})
    chart = alt.layer(
        band.encode(across, alt.Y("low:Q", title=None), alt.Y2("high:Q")), line.encode(across, up)
    ).properties(width=PANEL_WIDTH, height=PANEL_HEIGHT)
    drawn = _facet(chart, table, "panel", ["panel", "step", "value", "low", "high"])
    drawn = drawn if share_scale else drawn.resolve_scale(y="independent")
    return draw(drawn, title, caption)


def _facet(chart: Chart, table: pd.DataFrame, panel: str, columns: list[str]) -> Chart:
    order = list(dict.fromkeys(table[panel]))
    return chart.properties(data=mark_data(table, columns)).facet(
        facet=alt.Facet(f"{panel}:N", title=None, sort=order),
        columns=min(PANELS_A_ROW, len(order)),
        spacing=16,
    )


def _few() -> alt.Axis:
    return alt.Axis(tickCount=3, labelOverlap=True, tickColor=GREY)
