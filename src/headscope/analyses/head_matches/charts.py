"""The charts of matched heads."""

import altair as alt

from headscope.data.table import Tables
from headscope.view.figure import SEQUENTIAL, Chart, mark_data, number
from headscope.view.specs import GREY

__all__ = ["draw_by_layer", "draw_layers"]

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
