"""The pages of comparisons, series and the atlas: static, offline, without scripts.

Figures have the same axes for all runs, and a colour for each run.
"""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import altair as alt
import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from headscope.comparison.answers import (
    LEVEL,
    name_measure,
    split_kinds_by_run,
    write_change,
    write_number,
)
from headscope.comparison.examples import draw_side_by_side
from headscope.data.table import split_kinds
from headscope.runs.run import Run
from headscope.view.behaviour import behaviour_table
from headscope.view.charts import draw_grid
from headscope.view.figure import Chart, clean_label, clean_labels, mark_data, render, style
from headscope.view.numbers import Form, p_value
from headscope.view.specs import COLOURS, GREY, HOW_TO_READ, Grid
from headscope.view.table import Column, TextTable, build_table, rows_of

if TYPE_CHECKING:
    from headscope.comparison.compare import Comparison
    from headscope.comparison.series import Series

__all__ = ["claims_matrix", "render_comparison", "render_page", "render_series"]

PANELS_A_ROW, PANEL = 4, {"width": 170, "height": 110}
SHOWN_GRIDS, SHOWN_BEST = 6, 24
SHOWN_MEASURES, SHOWN_HEADS = 40, 40
SHOWN_BEST_LINES, SHOWN_MEAN_LINES = 12, 24  # of a series
WIDE = 0.4  # an interval that says nothing
CHANGE = Form("+.3g", to=" to ")
FEW_TICKS = alt.Axis(tickCount=3, labelOverlap=True, tickColor=GREY)


def render_page(template: str, **values: Any) -> str:
    """A page of this room, in the style of the report."""
    return _templates().get_template(template).render(**values)


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("headscope.comparison"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    css = files("headscope.view").joinpath("templates/report.css").read_text()
    environment.globals |= {"css": Markup(css), "version": version("headscope")}
    return environment


def render_comparison(comparison: "Comparison") -> str:
    """compare.html: the answer, then figures with common axes, then tables."""
    tables, runs = comparison.tables, list(comparison.runs)
    kinds, best = tables["kinds"], tables["best"]
    figures = [_draw_kinds(comparison.runs), _draw_best(best, runs)]
    figures += [_draw_changes(tables["heads"], run) for run in runs[1:]]
    common, alone, none = split_kinds_by_run(kinds) if len(kinds) else ([], {}, [])
    by_run = [(f"{run} alone", of_run) for run, of_run in alone.items()]
    heads_by_kind = {
        (row.kind, row.run): f"{row.heads} ({row.layer}-{row.head} {100 * row.share:.0f} %)"
        for row in rows_of(kinds)
    }
    best_by_row = {
        (row.table, row.of, row.run): f"{row.layer}-{row.head} {100 * row.value:.1f} %"
        for row in rows_of(best)
    }
    note = "Number of heads above the threshold, and the strongest head (even if it is below)."
    return render_page(
        "compare.html.j2",
        title=" and ".join(runs) if len(runs) == 2 else f"{len(runs)} runs",
        runs=[(name, _describe(run)) for name, run in comparison.runs.items()],
        answers=comparison.answers,
        notes=comparison.notes,
        left_out=comparison.left_out,
        figures=[figure for figure in figures if figure],
        side_by_side=draw_side_by_side(comparison.runs),
        claims=claims_matrix(tables["claims"], runs),
        has=[("all of them", common), *by_run, ("none", none)],
        tables=[
            _by_run(heads_by_kind, ("heads for",), runs, "Kinds of heads", note),
            _by_run(best_by_row, ("table", "of"), runs, "Best heads, held out"),
            _measures(tables["measures"]),
            _heads(tables["heads"]),
        ],
    )


def _describe(run: Run) -> str:
    model = run.manifest["model"]
    corpora = dict.fromkeys(entry["corpus"] for entry in run.manifest.get("passes", {}).values())
    digest = str(model.get("digest", ""))[:12]
    return f"{model['name']} (weights {digest}) on {', '.join(corpora)}; {run.folder}"


def claims_matrix(claims: pd.DataFrame, runs: Sequence[str]) -> list[dict[str, Any]]:
    """Claims with the verdicts of all runs, without those that no run could judge."""
    rows = []
    for (section, says), part in claims.groupby(["section", "says"], sort=False):
        by_run = part.set_index("run")
        verdicts = [(by_run.loc[run, "verdict"], by_run.loc[run, "shows"]) for run in runs]
        if any(verdict != "not measured" for verdict, _ in verdicts):
            rows.append({"section": section, "says": says, "verdicts": verdicts})
    return rows


# Tables.


def _by_run(
    cells: Mapping[tuple[Any, ...], str],
    columns: Sequence[str],
    runs: Sequence[str],
    title: str,
    note: str = "",
) -> TextTable:
    """A column for each run; cells are given by the labels of their row, and the run."""
    rows = [
        (*map(str, row), *(cells.get((*row, run), "-") for run in runs))
        for row in dict.fromkeys(key[:-1] for key in cells)
    ]
    return TextTable((*columns, *runs), tuple(rows), title, note)


def _text(title: str, column: str) -> Column:
    return Column(title, lambda row: str(row[column]))


def _number(title: str, column: str) -> Column:
    return Column(title, lambda row: write_number(row, row[column]))


DIFFERENCE = (
    Column("difference [95 % interval]", write_change),
    Column("p (Holm)", lambda row: p_value(row["p_value"])),
    Column("", lambda row: "" if row["is_paired"] else "not paired"),
)


def _measures(measures: pd.DataFrame) -> TextTable:
    """The differences that remain, largest first against their interval."""
    sure = measures[measures["p_value"] < LEVEL]
    order = (sure["difference"] / (sure["difference_high"] - sure["difference_low"])).abs()
    shown = sure.loc[order.sort_values(ascending=False).index[:SHOWN_MEASURES]]
    columns = (
        *(Column("measure", name_measure), _text("statistic", "statistic"), _text("run", "run")),
        *(_number("value", "value"), *DIFFERENCE),
    )
    note = (
        f"{len(shown)} of {len(sure)} significant differences from the first run (after "
        f"correction), most significant first. All are in tables/measures.csv."
    )
    return build_table(shown.to_dict("records"), columns, "Measures that differ", note)


def _heads(heads: pd.DataFrame) -> TextTable:
    sure = heads[heads["p_value"] < LEVEL]
    shown = sure.loc[sure["difference"].abs().sort_values(ascending=False).index[:SHOWN_HEADS]]
    columns = (
        Column("head", lambda row: f"{row['layer']}-{row['head']}"),
        *(_text("run", "run"), Column("measure", name_measure)),
        *(_number("first run", "first_value"), _number("this run", "value"), *DIFFERENCE),
    )
    note = (
        f"{len(shown)} of {len(sure)} significant differences between heads at the same place "
        f"(after correction over the heads of a measure). All are in tables/heads.csv."
        if len(heads)
        else "The models have different shapes, so heads cannot be compared one by one."
    )
    return build_table(shown.to_dict("records"), columns, "Heads that differ", note)


# Figures.


@dataclass(frozen=True)
class Drawn:
    """A figure as an image that a page holds, and how to read it."""

    title: str
    caption: str
    source: str  # of an image


def _draw(chart: Chart, title: str, caption: str) -> Drawn:
    """The chart as SVG, which needs no script."""
    svg = render(style(chart, caption), "svg")
    return Drawn(title, caption, f"data:image/svg+xml;base64,{b64encode(svg).decode()}")


def _shades(runs: Sequence[str]) -> alt.Color:
    names = [str(clean_label(run)) for run in runs]
    colours = [COLOURS[number % len(COLOURS)] for number in range(len(names))]
    scale = alt.Scale(domain=names, range=colours)
    legend = alt.Legend(title=None, orient="top", symbolOpacity=1)
    return alt.Color("run:N", scale=scale, legend=legend, sort=names)


def _draw_kinds(runs: Mapping[str, Run]) -> Drawn | None:
    """A panel for each behaviour: heads as dots by depth, for each run a line of layers' means."""
    parts = []
    for name, run in runs.items():
        shares = behaviour_table(next(iter(split_kinds(run.tables).values())))
        if len(shares):
            depth = (shares["layer"] - 0.5) / shares["layer"].max()
            parts.append(shares.assign(run=name, depth=depth.astype(float)))
    if not parts:
        return None
    table = clean_labels(pd.concat(parts, ignore_index=True))
    across = alt.X("depth:Q", title="depth", scale=alt.Scale(domain=[0, 1]), axis=FEW_TICKS)
    shades = _shades(list(runs))
    dots = alt.Chart().mark_circle(size=12, opacity=0.35)
    line = alt.Chart().mark_line(strokeWidth=1.8)
    chart = alt.layer(
        dots.encode(across, alt.Y("share:Q", title="share"), shades),
        line.encode(across, alt.Y("mean(share):Q", title="share"), shades),
    ).properties(**PANEL)
    return _draw(
        _facet(chart, table, "behaviour", ["behaviour", "run", "depth", "share"]),
        "What heads attend to, by depth",
        "A panel for each behaviour, all with the same axes. Each dot is a head; the lines are "
        "means of layers. x: depth, from the first layer (0) to the last (1). y: share of "
        "attention (of broad attention: entropy over that of even attention).",
    )


def _draw_best(best: pd.DataFrame, runs: Sequence[str]) -> Drawn | None:
    """The best head of each question in each run, held out."""
    if not len(best):
        return None
    table = clean_labels(best)
    if table["table"].nunique() > 1:
        table = table.assign(of=table["table"] + ": " + table["of"])
    high = table.groupby("of")["value"].max().sort_values(ascending=False)
    order = list(high.index[:SHOWN_BEST])
    table = table[table["of"].isin(order)]
    rows = alt.Y("of:N", sort=order, title=None, axis=alt.Axis(labelLimit=400))
    inside = alt.YOffset("run:N", sort=[str(clean_label(run)) for run in runs])
    base = alt.Chart(mark_data(table, ["of", "run", "value", "low", "high"]))
    low, across = (alt.X(f"{end}:Q", title="accuracy, held out") for end in ("low", "value"))
    ends = base.mark_rule().encode(low, alt.X2("high:Q"), rows, inside, _shades(runs))
    dots = base.mark_circle(size=36, opacity=1).encode(across, rows, inside, _shades(runs))
    return _draw(
        alt.layer(ends, dots).properties(width=560, height=alt.Step(9)),
        "Best heads",
        f"The best head of each question in each run, scored on documents not used to choose it, "
        f"with 95 % intervals. The {len(order)} questions with the highest scores.",
    )


def _draw_changes(heads: pd.DataFrame, run: str) -> Drawn | None:
    """Grids of heads: the measures in which heads at the same place differ most."""
    of_run = heads[heads["run"] == run]
    is_share = of_run["value"].between(0, 1) & of_run["first_value"].between(0, 1)
    sure = of_run[(of_run["p_value"] < LEVEL) & is_share]
    if not len(sure):
        return None
    sure = sure.assign(panel=[name_measure(row) for row in sure.to_dict("records")])
    size = sure.groupby("panel")["difference"].agg(lambda d: d.abs().max())
    chosen = list(size.sort_values(ascending=False).index[:SHOWN_GRIDS])
    kept = sure[sure["panel"].isin(chosen)][["table", "measure", "of", "panel"]].drop_duplicates()
    shown = of_run.merge(kept, on=["table", "measure", "of"])
    shown = shown[shown["difference"].notna()]
    shown = shown.rename(columns={"difference_low": "low", "difference_high": "high"})
    panels = {str(name): str(name) for name in map(clean_label, chosen)}
    grid = Grid(
        name="", title="", caption="", column="difference", axis="difference", diverging=True,
        panel="panel", words=panels,
    )  # fmt: skip
    return _draw(
        draw_grid(grid, clean_labels(shown)),
        f"Heads of {run} that differ most",
        f"{HOW_TO_READ} Red: more than the head at the same place of the first run; blue: less. "
        f"The {len(chosen)} measures with the largest significant differences (after correction).",
    )


def _draw_lines(
    table: pd.DataFrame, title: str, caption: str, share_scale: bool = True
) -> Drawn | None:
    """A panel for each value of `panel`: `value` (and `low`, `high`) over `step`."""
    if not len(table):
        return None
    ends = {name: table[name].fillna(table["value"]) for name in ("low", "high")}
    table = clean_labels(table).assign(**ends)
    across = alt.X("step:Q", title="step", scale=alt.Scale(type="symlog"), axis=FEW_TICKS)
    up = alt.Y("value:Q", title=None, scale=alt.Scale(zero=share_scale))
    band = alt.Chart().mark_area(opacity=0.25, color=COLOURS[0])
    line = alt.Chart().mark_line(strokeWidth=1.8, color=COLOURS[0], point={"size": 14})
    chart = alt.layer(
        band.encode(across, alt.Y("low:Q", title=None), alt.Y2("high:Q")), line.encode(across, up)
    ).properties(**PANEL)
    drawn = _facet(chart, table, "panel", ["panel", "step", "value", "low", "high"])
    return _draw(drawn if share_scale else drawn.resolve_scale(y="independent"), title, caption)


def _facet(chart: Chart, table: pd.DataFrame, panel: str, columns: list[str]) -> Chart:
    order = list(dict.fromkeys(table[panel]))
    return chart.properties(data=mark_data(table, columns)).facet(
        facet=alt.Facet(f"{panel}:N", title=None, sort=order),
        columns=min(PANELS_A_ROW, len(order)),
        spacing=16,
    )


# A series of checkpoints.


def render_series(series: "Series") -> str:
    """compare.html of a series."""
    tables = series.tables
    steps = [str(step) for step in series.runs]
    onsets = build_table(
        tables["onsets"].to_dict("records"),
        (
            *(_text("what", "what"), _text("", "kind")),
            Column("first at step", lambda row: _step(row["first_step"])),
            Column("from then on, from step", lambda row: _step(row["from_step"])),
        ),
        "When it begins",
        "The step where a claim first holds or a kind of head first appears, and the step from "
        "which this is true at every later checkpoint.",
    )
    checkpoints = build_table(
        tables["checkpoints"].to_dict("records"),
        (
            Column("step", lambda row: _step(row["step"])),
            Column("weights", lambda row: str(row["weights"])[:12]),
            _text("run", "folder"),
        ),
        "Checkpoints",
        "Checkpoints with the same hash have the same weights.",
    )
    return render_page(
        "series.html.j2",
        n_runs=len(series.runs),
        steps=steps,
        answers=series.answers,
        notes=series.notes,
        left_out=series.left_out,
        figures=[figure for figure in _draw_series(tables) if figure],
        claims=claims_matrix(tables["claims"].assign(run=tables["claims"]["step"].map(str)), steps),
        tables=[onsets, checkpoints],
    )


def _draw_series(tables: Mapping[str, pd.DataFrame]) -> list[Drawn | None]:
    kinds, best, series = (tables[name] for name in ("kinds", "best", "series"))
    last = best[best["step"] == best["step"].max()].sort_values("value", ascending=False)
    shown = last[last["high"] - last["low"] < WIDE]["of"].head(SHOWN_BEST_LINES)
    of_best = best[best["of"].isin(shown)]
    means = series[series["statistic"] == "mean"]
    means = means.assign(panel=means["table"] + " " + means["measure"] + " " + means["of"])
    scale = means.groupby("panel")["value"].agg(lambda v: v.std() / (v.abs().max() or 1))
    moving = list(scale.sort_values(ascending=False).index[:SHOWN_MEAN_LINES])
    return [
        _draw_lines(
            kinds.assign(panel=kinds["kind"], value=kinds["share"]),
            "The strongest head of each kind",
            "x: training step. y: share of the head that does it most at that step, with its 95 % "
            "interval. All panels have the same axes.",
        ),
        _draw_lines(
            of_best.assign(panel=of_best["of"]),
            "Best heads",
            "x: training step. y: held-out accuracy of the best head at that step, with its 95 % "
            f"interval, for the {len(shown)} questions with the highest accuracy at the end.",
        ),
        _draw_lines(
            means[means["panel"].isin(moving)],
            "Means over heads",
            f"The {len(moving)} measures with the largest relative change, as means over all "
            "heads. Each panel has its own axis. All are in tables/series.csv.",
            share_scale=False,
        ),
    ]


def _step(step: Any) -> str:
    return "-" if pd.isna(step) else f"{int(str(step)):,}"
