"""The pictures of distances between heads: the map and the matrix."""

import zlib
from base64 import b64encode

import altair as alt
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headscope.analyses.distance.tables import ordered_matrix
from headscope.data.table import Tables
from headscope.view.behaviour import find_kind, list_kinds
from headscope.view.figure import (
    HEAD,
    SEQUENTIAL,
    TEXT,
    Chart,
    mark_data,
    name_and_interval,
    number,
)
from headscope.view.presentation import list_specs
from headscope.view.specs import GREY, Kind, Labels

__all__ = [
    "SAID", "add_kinds", "draw_by_layer", "draw_layers", "draw_map", "draw_map_by_layer",
    "draw_matrix",
]  # fmt: skip

Matrix = NDArray[np.float64]

SAID = [HEAD, alt.Tooltip("behaviours:N", title="attends to"), alt.Tooltip("cluster:Q")]

# The map: heads as points, near each other where they attend alike (the paper's Figure 6).

MAP_SIDE, MARGIN = 440, 0.04
MOST_NAMES = 30


def draw_map(tables: Tables) -> Chart:
    """Coloured and shaped by what the heads do; labels such as relations are named."""
    layout = tables["layout"]
    heads, present = add_kinds(layout)
    names = [kind.name for kind in present]
    colours = alt.Scale(domain=names, range=[kind.colour for kind in present])
    shapes = alt.Scale(domain=names, range=[kind.shape for kind in present])
    legend = alt.Legend(orient="bottom", columns=2, title=None, symbolOpacity=1, symbolSize=90)
    points = _points(layout).encode(
        alt.Color("kind:N", scale=colours, legend=legend),
        alt.Shape("kind:N", scale=shapes, legend=legend),
        tooltip=SAID,
    )
    labelled = [labels.kind.name for labels in list_specs(Labels) if labels.name is None]
    named = (
        alt.Chart()
        .transform_filter(alt.FieldOneOfPredicate(field="kind", oneOf=labelled))
        .mark_text(align="left", dx=7, fontSize=10, color=TEXT, limit=110)
        .encode(*_plane(layout), text="behaviour:N")
    )
    layers = [points, named] if heads["kind"].isin(labelled).sum() <= MOST_NAMES else [points]
    columns = ["layer", "head", "x", "y", "kind", "behaviour", "behaviours", "cluster"]
    return _square(alt.layer(*layers), heads, columns)


def draw_map_by_layer(tables: Tables) -> Chart:
    """Coloured by layer."""
    layout = tables["layout"]
    points = _points(layout).encode(
        alt.Color(
            "layer:Q",
            # Neither end, which a dark or a white page would hide.
            scale=alt.Scale(scheme=alt.SchemeParams("viridis", extent=[0.2, 0.95]), nice=False),
            legend=alt.Legend(orient="bottom", tickMinStep=1, format="d", gradientLength=140),
        ),
        tooltip=SAID,
    )
    return _square(alt.layer(points), layout, ["layer", "head", "x", "y", "behaviours", "cluster"])


def add_kinds(layout: pd.DataFrame) -> tuple[pd.DataFrame, list[Kind]]:
    """The heads with the kind of what they do, and which kinds there are, in their order."""
    kinds = {name: find_kind(name) for name in layout["behaviour"].unique()}
    present = [kind for kind in list_kinds() if kind in kinds.values()]
    return layout.assign(kind=[kinds[name].name for name in layout["behaviour"]]), present


def _points(layout: pd.DataFrame) -> Chart:
    points = alt.Chart().mark_point(filled=True, size=80, opacity=0.85, cursor="pointer")
    return points.encode(*_plane(layout))


def _plane(layout: pd.DataFrame) -> tuple[alt.X, alt.Y]:
    """Both directions on one scale, without axes: only distances mean something."""
    plane = layout[["x", "y"]]
    reach = (float((plane.max() - plane.min()).max()) or 1.0) * (0.5 + MARGIN)
    scales = [
        alt.Scale(domain=[middle - reach, middle + reach], nice=False)
        for middle in (plane.max() + plane.min()) / 2
    ]
    return alt.X("x:Q", axis=None, scale=scales[0]), alt.Y("y:Q", axis=None, scale=scales[1])


def _square(chart: Chart, heads: pd.DataFrame, columns: list[str]) -> Chart:
    frame = alt.ViewBackground(stroke=GREY, strokeOpacity=0.5)
    data = mark_data(heads, columns)
    return name_and_interval(
        chart.properties(width=MAP_SIDE, height=MAP_SIDE, view=frame, data=data)
    )


# The matrix: a cell for every two heads, or, where there are very many, one image.

MOST_CELLS = 200 * 200  # with more a browser takes seconds to draw them
MATRIX_SIDE = 460
THOUSANDTHS = 1000
OVERLAP = 1.1  # of cells, the next one over the last: else seams show between them
AXIS_TITLE, VALUE = "heads, similar ones next to each other", "divergence (nats)"
BARE = alt.Axis(labels=False, ticks=False, domain=False)
# The colours of Vega's scheme "yellowgreenblue", so that image and legend agree.
STOPS = bytes.fromhex("eff9bddbf1b4bde5b594d5b969c5be45b4c22c9ec02182b82163aa23479c1c3185")
SHADES = 256
PIXELS = 3  # of a cell, each way: viewers smooth between pixels, and cells should have edges


def draw_matrix(tables: Tables) -> Chart:
    """Every two heads, in the order of the dendrogram."""
    order = tables["layout"].sort_values("place")[["layer", "head"]].reset_index(drop=True)
    matrix = ordered_matrix(tables["distance"], order)
    draw = draw_cells if matrix.size <= MOST_CELLS else draw_image
    return draw(matrix, order)


def draw_cells(matrix: Matrix, order: pd.DataFrame) -> Chart:
    """A mark for each cell.

    The values stand in the chart as one list of whole thousandths, and rows and columns are
    counted off where it is drawn: written out, each would take a hundred bytes.
    """
    n_heads = len(order)
    cells = np.rint(THOUSANDTHS * matrix).astype(int).ravel().tolist()
    names = mark_data(order.assign(place=range(n_heads)), ["place", "layer", "head"])
    numbered = (
        alt.Chart(alt.InlineData(values=cells))
        .transform_window(count="row_number()")
        .transform_calculate(
            divergence=f"datum.data / {THOUSANDTHS}",
            row=f"floor((datum.count - 1) / {n_heads})",
            column=f"(datum.count - 1) % {n_heads}",
            right=f"min((datum.count - 1) % {n_heads} + {OVERLAP}, {n_heads})",
        )
    )
    other: list[str | alt.FieldName] = ["other_layer", "other_head"]
    named = (
        numbered.transform_lookup("row", alt.LookupData(names, "place", ["layer", "head"]))
        .transform_lookup("column", alt.LookupData(names, "place", ["layer", "head"]), as_=other)
        .transform_calculate(other="datum.other_layer + '-' + datum.other_head")
    )
    tooltip = [HEAD, alt.Tooltip("other:N", title="and head"), number("divergence", VALUE, ".3f")]
    return _rows(named, n_heads, OVERLAP).encode(
        alt.X("column:Q", scale=_scale(n_heads), axis=BARE, title=AXIS_TITLE),
        alt.X2("right"),
        _colour(float(matrix.max())),
        tooltip=tooltip,
    )


def draw_image(matrix: Matrix, order: pd.DataFrame) -> Chart:
    """One image, and over it a strip for each row, unseen, that says and is the head."""
    n_heads, most = len(order), float(matrix.max())
    image = alt.Chart(alt.InlineData(values=[{}])).mark_image(
        url=image_address(matrix, most),
        width=MATRIX_SIDE,
        height=MATRIX_SIDE,
        align="left",
        baseline="top",
        aspect=False,
        aria=False,
    )
    rows = order.assign(row=range(n_heads), divergence=0)
    data = mark_data(rows, ["row", "layer", "head", "divergence"])
    strips = _rows(alt.Chart(data), n_heads, 1).encode(
        _colour(most), opacity=alt.value(0), tooltip=[HEAD]
    )
    placed = image.encode(x=alt.value(0), y=alt.value(0))
    return alt.layer(placed, strips).properties(width=MATRIX_SIDE, height=MATRIX_SIDE)


def _rows(chart: Chart, n_heads: int, height: float) -> Chart:
    """Marks in their rows, from the top down, that carry the head's name."""
    named = chart.transform_calculate(
        name="datum.layer + '-' + datum.head", below=f"min(datum.row + {height}, {n_heads})"
    )
    marks = named.mark_rect(cursor="pointer", strokeWidth=0, aria=False)
    down = alt.Y("row:Q", scale=_scale(n_heads, reverse=True), axis=BARE, title=AXIS_TITLE)
    return marks.encode(down, alt.Y2("below")).properties(width=MATRIX_SIDE, height=MATRIX_SIDE)


def _scale(n_heads: int, reverse: bool = False) -> alt.Scale:
    return alt.Scale(domain=[0, n_heads], nice=False, reverse=reverse)


def _colour(most: float) -> alt.Color:
    return alt.Color(
        "divergence:Q",
        title=VALUE,
        scale=alt.Scale(scheme=SEQUENTIAL, reverse=True, nice=False, domain=[0, most]),
        legend=alt.Legend(orient="bottom", gradientLength=140, gradientOpacity=1, tickCount=5),
    )


def image_address(matrix: Matrix, most: float) -> str:
    """A PNG of the matrix within an address (data:...): 0 darkest, `most` lightest."""
    shades = np.rint((SHADES - 1) * np.clip(matrix / most, 0, 1)).astype(np.uint8)
    shades = shades.repeat(PIXELS, axis=0).repeat(PIXELS, axis=1)
    return "data:image/png;base64," + b64encode(_encode(shades, palette())).decode()


def palette() -> bytes:
    """The colours of all shades, three bytes each, from the darkest."""
    stops = np.frombuffer(STOPS, np.uint8).reshape(-1, 3)[::-1]  # [stop, channel]
    places = np.linspace(0, len(stops) - 1, SHADES)
    channels: list[NDArray[np.float64]] = [
        np.interp(places, np.arange(len(stops)), stops[:, i]) for i in range(3)
    ]
    colours: NDArray[np.uint8] = np.rint(np.stack(channels, axis=1)).astype(np.uint8)
    return bytes(colours)


def _encode(shades: NDArray[np.uint8], colours: bytes) -> bytes:
    """PNG with a palette: a row is a filter byte (0: none) and a byte for each cell."""
    height, width = shades.shape
    rows = np.pad(shades, ((0, 0), (1, 0))).tobytes()
    header = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([8, 3, 0, 0, 0])
    parts = {b"IHDR": header, b"PLTE": colours, b"IDAT": zlib.compress(rows, 9), b"IEND": b""}
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*part) for part in parts.items())


def _chunk(kind: bytes, content: bytes) -> bytes:
    check = zlib.crc32(kind + content).to_bytes(4, "big")
    return len(content).to_bytes(4, "big") + kind + content + check


# Two models: the matches of heads (`headscope distance`).

LEAST_CELL, MOST_CELL, GRID_SIZE = 10, 30, 420  # pixels


def draw_by_layer(tables: Tables) -> Chart:
    """A dot for each head of the first model: how far its match is."""
    columns = ["layer_a", "head_a", "layer_b", "head_b", "divergence", "low", "high"]
    matches = tables["head-matches"]
    chart = alt.Chart(mark_data(matches, [*columns, "mean_divergence"])).transform_calculate(
        name="datum.layer_a + '-' + datum.head_a", match="datum.layer_b + '-' + datum.head_b"
    )
    across = alt.X("layer_a:O", title="layer of the first model", axis=alt.Axis(labelAngle=0))
    tooltip = [
        alt.Tooltip("name:N", title="head"),
        alt.Tooltip("match:N", title="match"),
        number("divergence", "divergence"),
        number("mean_divergence", "mean to all heads"),
    ]
    title = "divergence (nats)"
    dots = chart.mark_circle(size=46, opacity=0.6).encode(
        across, alt.Y("divergence:Q", title=title), tooltip=tooltip
    )
    ticks = chart.mark_tick(color=GREY, thickness=2, size=14).encode(
        across, alt.Y("mean(mean_divergence):Q", title=title)
    )
    return (ticks + dots).properties(width=760, height=260)


def draw_layers(tables: Tables) -> Chart:
    """How many heads of each layer match heads of each layer of the other model."""
    matches = tables["head-matches"]
    counts = matches.groupby(["layer_a", "layer_b"]).size().rename("heads").reset_index()
    most = int(max(matches["layer_a"].max(), matches["layer_b"].max()))
    cell = max(LEAST_CELL, min(MOST_CELL, GRID_SIZE // most))
    axis = alt.Axis(labelAngle=0, labelOverlap=True, ticks=False, domain=False)

    def layers(channel: type, field: str, title: str) -> alt.SchemaBase:
        domain = list(range(1, int(matches[field].max()) + 1))
        scaled: alt.SchemaBase = channel(
            f"{field}:O", title=title, axis=axis, scale=alt.Scale(domain=domain)
        )
        return scaled

    chart: Chart = alt.Chart(mark_data(counts, ["layer_a", "layer_b", "heads"]))
    return (
        chart.mark_rect(stroke=GREY, strokeWidth=0.2)
        .encode(
            layers(alt.X, "layer_b", "layer of the second model"),
            layers(alt.Y, "layer_a", "layer of the first model"),
            alt.Color("heads:Q", title="matches", scale=alt.Scale(scheme=SEQUENTIAL, zero=True)),
            tooltip=["layer_a:O", "layer_b:O", alt.Tooltip("heads:Q", title="matches")],
        )
        .properties(
            width=cell * int(matches["layer_b"].max()), height=cell * int(matches["layer_a"].max())
        )
    )
