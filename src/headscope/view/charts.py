"""The charts of figures that are specs: dots by layer, grids of heads, bars of best scores."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import altair as alt
import pandas as pd

from headscope.data.table import Tables
from headscope.view.figure import (
    DIVERGING,
    HEAD,
    INTERVAL,
    SEQUENTIAL,
    TEXT,
    Chart,
    calculate,
    mark_data,
    name_and_interval,
    number,
)
from headscope.view.numbers import bounds, is_agreed
from headscope.view.specs import COLOURS, GREY, Bars, Dots, Grid, Hover

__all__ = ["draw_grid", "draw_spec", "layer_axis"]

PERCENT = ".1%"


def draw_spec(figure: Dots | Grid | Bars, tables: Tables) -> Chart:
    """The chart of a figure whose tables are there."""
    if isinstance(figure, Bars):
        return draw_bars(figure, figure.rows(tables))
    rows = with_interval(figure.choose_rows(tables), figure.column)
    if callable(figure.axis):
        figure = replace(figure, axis=figure.axis(tables))
    if isinstance(figure, Dots):
        return draw_dots(figure, rows)
    if callable(figure.diverging):
        figure = replace(figure, diverging=figure.diverging(tables))
    if not figure.own_scales:
        return draw_grid(figure, rows)
    grids = [draw_grid(figure, panel) for _, panel in rows.groupby(figure.panel, sort=False)]
    return alt.hconcat(*grids, spacing=24).resolve_scale(color="independent")


def with_interval(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """The rows with the bounds of this number as `low` and `high`, if it has any."""
    low, high = bounds(rows, column)
    return rows.assign(low=rows[low], high=rows[high]) if low in rows else rows


def order_of(values: Iterable[str], words: Sequence[str]) -> list[str]:
    """The values in the order of the words; others follow as they come."""
    present = dict.fromkeys(values)
    return [*(word for word in words if word in present), *(v for v in present if v not in words)]


def _tooltips(lines: Sequence[Hover]) -> list[alt.Tooltip]:
    return [
        number(line.column, line.title or line.column, line.form)
        if line.form
        else alt.Tooltip(f"{line.column}:N", title=line.title or line.column)
        for line in lines
    ]


# Dots.

DOTS_A_ROW = 4
WIDTH, SPACING = 960, 22  # pixels: of a row of panels, and between them
DODGE = 0.14  # of a layer, between dots of different colours
NAME_WIDTH, NAME_HEIGHT = 0.12, 0.06  # of a panel: names nearer to each other would overlap
NAMED, OUTLYING = 3, 2.5  # heads of a panel, and standard deviations above its mean
MANY_LAYERS = 13  # from here on every fourth layer has its number


def draw_dots(figure: Dots, table: pd.DataFrame) -> Chart:
    """A dot for each head and a line through the layers' means."""
    words = figure.words
    table = table.assign(split=table[figure.split].map(lambda value: words.get(value, value)))
    order = order_of(table["split"], list(words.values()))
    places = table["split"].map({name: place for place, name in enumerate(order)})
    table = table.assign(beside=table["layer"] + DODGE * (places - (len(order) - 1) / 2))
    table = table.assign(label=_name_outliers(table, figure.column))
    columns = ["layer", "head", "split", figure.column, "low", "high", figure.dashed, "label"]
    columns += ["beside"] if figure.by_colour else []
    layers = sorted(set(table["layer"].astype(int).tolist()))
    in_row = len(order) if len(order) <= DOTS_A_ROW else 3
    width, height = (520, 260) if figure.by_colour else (WIDTH // in_row - SPACING, 180)
    marks = _dot_layers(figure, order, layers, any(table["label"]))
    chart = alt.layer(*marks, data=mark_data(table, columns), width=width, height=height)
    chart = name_and_interval(chart)
    if figure.by_colour:
        return chart
    panels = chart.facet(
        facet=alt.Facet("split:N", title=None, sort=order), columns=in_row, spacing=SPACING
    )
    # An axis of layers under each panel: a shared one would stand under empty places too.
    scale = {"scale": {"y": "independent"}} if figure.own_scales else {}
    panels.resolve = alt.Resolve(axis={"x": "independent"}, **scale)
    return panels


def _dot_layers(figure: Dots, order: list[str], layers: list[int], has_names: bool) -> list[Chart]:
    across = layer_axis(layers[-1])
    beside = layer_axis(layers[-1], "beside") if figure.by_colour else across
    up = alt.Y(f"{figure.column}:Q", title=figure.axis)
    legend = alt.Legend(title=None, symbolType="circle", symbolOpacity=1)
    shades = alt.Color(
        "split:N",
        sort=order,
        title=figure.split,  # read aloud with each dot
        scale=alt.Scale(domain=order),
        legend=legend if figure.by_colour else None,
    )
    split = alt.Tooltip("split:N", title=figure.split)
    tooltip = [HEAD, split, number(figure.column, figure.axis), INTERVAL]
    dots = alt.Chart().mark_circle(size=34, cursor="pointer", opacity=0.55)
    middle = alt.Y(f"mean({figure.column}):Q", title=figure.axis)
    if len(layers) > 1:
        means = alt.Chart().mark_line(strokeWidth=2.2)
    else:  # nothing to connect
        means = alt.Chart().mark_tick(orient="horizontal", size=24, thickness=2.2, opacity=1)
    # In panels with own scales, none is left without data.
    named = alt.Chart() if figure.own_scales else alt.Chart().transform_filter("datum.label")
    names = named.mark_text(align="left", dx=5, fontSize=10, color=TEXT, aria=False)
    return [
        *(_dashed_line(figure, across, layers[0]) if figure.dashed else []),
        means.encode(across, middle, shades),
        dots.encode(beside, up, shades, tooltip=tooltip),  # on top, where they can be clicked
        *[names.encode(beside, up, alt.Text("label:N"))] * has_names,
    ]


def _dashed_line(figure: Dots, across: alt.X, lowest: int) -> list[Chart]:
    height = alt.Y(f"mean({figure.dashed}):Q", title=figure.axis)
    line = alt.Chart().mark_line(strokeDash=[5, 3], color=GREY, strokeWidth=1.5)
    first = alt.Chart().transform_filter(f"datum.layer == {lowest}")
    name = first.mark_text(align="left", dx=-8, dy=-7, fontSize=10, color=TEXT)
    called = alt.TextValue(figure.dashed_title)
    return [line.encode(across, height), name.encode(across, height, called)]


def _name_outliers(table: pd.DataFrame, column: str) -> list[str]:
    """The names of the highest heads of each panel that stand out from its mean; "" of others, and
    of those whose name would lie on that of a higher one."""
    of_panel = table.groupby("split", sort=False)[column]
    line = of_panel.transform("mean") + OUTLYING * of_panel.transform("std")
    is_named = (of_panel.rank(ascending=False, method="first") <= NAMED) & (table[column] > line)
    width, height = NAME_WIDTH * table["layer"].max(), NAME_HEIGHT * table[column].max()
    named: list[Any] = []
    for row in table[is_named].sort_values(column, ascending=False).itertuples():
        up = getattr(row, column)
        is_free = all(
            other.split != row.split
            or abs(other.layer - row.layer) > width
            or abs(getattr(other, column) - up) > height
            for other in named
        )
        named += [row] * is_free
    names = {row.Index: f"{row.layer:.0f}-{row.head:.0f}" for row in named}
    return [names.get(index, "") for index in table.index]


def layer_axis(n_layers: int, field: str = "layer") -> alt.X:
    """Layers from the first to the last, with room at both ends and whole numbers."""
    step = 1 if n_layers < MANY_LAYERS else 4
    shown = [layer for layer in range(1, n_layers + 1) if layer == 1 or layer % step == 0]
    return alt.X(
        f"{field}:Q",
        title="layer",
        scale=alt.Scale(domain=[0.5, n_layers + 0.5], nice=False),
        axis=alt.Axis(values=shown, format="d"),
    )


# Grids.

LARGEST_CELL, SMALLEST_CELL, GRID_WIDTH = 22, 11, 260
GRIDS_A_ROW = 3


def draw_grid(figure: Grid, table: pd.DataFrame) -> Chart:
    """A cell for each head; heads that were not measured stay empty."""
    if figure.words:
        table = table.assign(**{figure.panel: table[figure.panel].map(figure.words)})
    carried = [line.column for line in figure.hover]
    columns = ["layer", "head", figure.column, "low", "high", figure.panel, *carried]
    n_layers, n_heads = int(table["layer"].max()), int(table["head"].max())
    cell = max(SMALLEST_CELL, min(LARGEST_CELL, GRID_WIDTH // n_heads))
    chart = _cells(figure, table, n_layers, n_heads).properties(
        width=cell * n_heads, height=cell * n_layers, data=mark_data(table, columns)
    )
    chart = name_and_interval(chart)
    if figure.panel not in table:
        return chart
    order = order_of(table[figure.panel], list(figure.words.values()))
    return chart.facet(
        facet=alt.Facet(f"{figure.panel}:N", title=None, sort=order),
        columns=min(GRIDS_A_ROW, len(order)),
        spacing=24,
    )


def _cells(figure: Grid, table: pd.DataFrame, n_layers: int, n_heads: int) -> Chart:
    tooltip = [HEAD, *_tooltips(figure.hover), number(figure.column, figure.axis)]
    tooltip += [INTERVAL] if "low" in table else []
    legend = alt.Legend(orient="bottom", gradientLength=150, tickCount=4)
    most = alt.Undefined if figure.most is None else [0, figure.most]
    scale = alt.Scale(scheme=SEQUENTIAL, nice=False, zero=True, domain=most)
    if figure.diverging:
        furthest = float(table[figure.column].abs().max()) or 1.0
        domain = [-furthest, furthest]
        scale = alt.Scale(scheme=DIVERGING, reverse=True, domain=domain, domainMid=0, nice=False)
    cells = alt.Chart().mark_rect(cursor="pointer", stroke=GREY, strokeWidth=0.2)
    return cells.encode(
        _heads_axis(alt.X, "head", n_heads),
        _heads_axis(alt.Y, "layer", n_layers),
        alt.Color(f"{figure.column}:Q", title=figure.axis, scale=scale, legend=legend),
        tooltip=tooltip,
    )


def _heads_axis(channel: Any, field: str, n: int) -> Any:
    axis = alt.Axis(labelAngle=0, labelOverlap=True, ticks=False, domain=False, titlePadding=8)
    scale = alt.Scale(domain=list(range(1, n + 1)))
    return channel(f"{field}:O", title=field, scale=scale, axis=axis)


# Bars.

BAR, ON_ALL = "#A6CEEB", COLOURS[0]
TICKS = (COLOURS[1], COLOURS[2], COLOURS[3])
STEP = 19  # pixels, from bar to bar
TICK_SHAPE = "M-0.15,-1L0.15,-1L0.15,1L-0.15,1Z"  # upright, as an SVG path
ALL = "on all data, as in the paper"


def draw_bars(figure: Bars, table: pd.DataFrame) -> Chart:
    """A line for each label, in the table's order; panels where the column of panels is there."""
    table = with_interval(table, figure.column)
    panel = figure.panel if figure.panel in table else ""
    columns = [figure.label, figure.column, "low", "high", figure.on_all, panel, *figure.ticks]
    if figure.has_heads:
        columns += ["layer", "head", "agreed"]
        table = table.assign(agreed=is_agreed(table))
    n_lines = table.groupby(panel)[figure.label].size().max() if panel else len(table)
    data = mark_data(table, [*columns, *(line.column for line in figure.hover)])
    compared = ({figure.on_all: ALL} if figure.on_all else {}) | dict(figure.ticks)
    layers = _bar_layers(figure, compared)
    chart = alt.layer(*layers, data=data, width=330, height=STEP * int(n_lines))
    # What bars are compared with, as text: a missing number would be said as 0.
    words = {
        f"said_{name}": f"isValid(datum.{name}) ? format(datum.{name}, '{PERCENT}') : '-'"
        for name in compared
    }
    chart = calculate(name_and_interval(chart, PERCENT), **words)
    if not panel:
        return chart
    order = list(dict.fromkeys(table[panel]))
    panels = chart.facet(
        facet=alt.Facet(f"{panel}:N", title=None, sort=order), columns=2, spacing=24
    )
    scales = {"y": "independent"}
    panels.resolve = alt.Resolve(scale=scales, axis={**scales, "x": "independent"})
    return panels


def _bar_layers(figure: Bars, compared: dict[str, str]) -> list[Chart]:
    axis = alt.Axis(ticks=False, domain=False, labelPadding=6)
    down = alt.Y(f"{figure.label}:N", sort=None, title=None, axis=axis)
    base = alt.Chart()
    bar = base.mark_bar(height=11, cursor="pointer" if figure.has_heads else "default")
    tick = base.mark_tick(thickness=2.6, size=15, opacity=1)
    diamond = base.mark_point(shape="diamond", filled=True, size=42, opacity=1)
    interval = (
        base.transform_filter("isValid(datum.low)")
        .mark_rule(color=GREY, strokeWidth=1.2)  # of the bar, so not in the diamond's colour
        .encode(_share_axis(figure, "low"), down, x2="high:Q")
    )
    names = [figure.bar, *compared.values()]
    colours = [BAR, *[ON_ALL] * bool(figure.on_all), *TICKS[: len(figure.ticks)]]
    legend = alt.Legend(orient="bottom", title=None, symbolOpacity=1, symbolStrokeWidth=0)
    scale = alt.Scale(domain=names, range=colours)
    colour = alt.Color("series:N", scale=scale, legend=legend)
    tooltip = [
        alt.Tooltip(f"{figure.label}:N", title=figure.label.replace("_", " ")),
        *([HEAD] if figure.has_heads else []),
        *_tooltips(figure.hover),
        number(figure.column, figure.axis, PERCENT),
        INTERVAL,
        *(alt.Tooltip(f"said_{name}:N", title=called) for name, called in compared.items()),
    ]

    def mark(chart: Chart, column: str, series: str) -> Chart:
        chart = chart.transform_calculate(series=f"'{series}'")  # our own words: no quotes
        return chart.encode(_share_axis(figure, column), down, colour, tooltip=tooltip)

    # In the legend each series has the form of its mark. These points are never drawn.
    shapes = ["square", *["diamond"] * bool(figure.on_all), *[TICK_SHAPE] * len(figure.ticks)]
    forms = alt.Shape("series:N", scale=alt.Scale(domain=names, range=shapes), legend=legend)
    keys = base.transform_filter("false").mark_point(filled=True).encode(colour, forms)
    layers = [mark(bar, figure.column, figure.bar), interval, keys]
    layers += [mark(tick, column, series) for column, series in figure.ticks.items()]
    layers += [mark(diamond, figure.on_all, ALL)] if figure.on_all else []
    if figure.has_heads:  # named in a column of their own
        text = base.mark_text(align="left", dx=8, fontSize=10.5, color=TEXT)
        called = "datum.agreed ? datum.name : '(' + datum.name + ')'"
        text = text.transform_calculate(called=called)
        layers.append(text.encode(down, x=alt.value("width"), text="called:N"))
    return layers


def _share_axis(figure: Bars, column: str) -> alt.X:
    axis = alt.Axis(
        format="%", tickCount=5, grid=True, gridColor=GREY, gridOpacity=0.25, labelFlush=False
    )
    return alt.X(f"{column}:Q", title=figure.axis, scale=alt.Scale(domain=[0, 1]), axis=axis)
