"""Charts of probes: learning curves, heads against accuracy, hidden states layer by layer."""

import altair as alt
import pandas as pd

from headscope.data.table import Tables
from headscope.view.charts import draw_grid
from headscope.view.figure import INTERVAL, Chart, mark_data, name_and_interval, number
from headscope.view.specs import COLOURS, GREY, Grid

__all__ = ["draw_curve", "draw_parts", "draw_structure", "draw_weights"]

BETWEEN_WORDS = {"dependent-to-head": "word to candidate", "head-to-dependent": "candidate to word"}
TO_ROOT = {"opening": "word to opening token", "closing": "word to closing token"}
CURVES = (  # as many as there are colours
    *("attention-only", "attention-and-words", "structural-probe"),
    *("distances-and-words", "words-only", "random-init-attention-and-words"),
)
PATHS = ("greedy", "L1")
PARTS_HEIGHT, NAME_SIZE = 280, 9
STRUCTURE = {
    "uuas": "UUAS",
    "distance_spearman": "distance Spearman",
    "root_accuracy": "root accuracy",
    "depth_spearman": "depth Spearman",
}


def draw_curve(tables: Tables) -> Chart:
    """UAS by the number of sentences, with intervals."""
    table = tables["probe-curve"]
    is_shown = table["probe"].isin(CURVES) if table["probe"].isin(CURVES).any() else slice(None)
    table = table[is_shown]
    data = mark_data(table, ["probe", "sentences", "uas", "low", "high"])
    sizes = sorted({int(n) for n in table["sentences"]})
    x = alt.X("sentences:Q", title="sentences learned from")
    x = x.scale(type="log", nice=False, padding=12).axis(values=sizes, format=",")
    y = alt.Y("uas:Q", title="heads of words found (UAS)")
    y = y.scale(zero=False).axis(format="%", tickCount=6)
    colour = alt.Color("probe:N", title=None, sort=None)
    sentences = alt.Tooltip("sentences:Q", format=",")
    tooltip = [alt.Tooltip("probe:N"), sentences, number("uas", "UAS", ".1%"), INTERVAL]
    base = alt.Chart()
    intervals = base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=1.5)
    chart = alt.layer(
        intervals.encode(x, alt.Y("low:Q", title=""), alt.Y2("high:Q"), colour),
        base.mark_line(strokeWidth=2).encode(x, y, colour),
        base.mark_circle(size=60, opacity=1).encode(x, y, colour, tooltip=tooltip),
    )
    return name_and_interval(chart.properties(width=380, height=240, data=data), ".1%")


def draw_parts(tables: Tables) -> Chart:
    """UAS against the number of heads: two paths, single layers, and what else was left out."""
    table = tables["probe-parts"]
    first = table["heads"].str.split(" ").str[:12].str.join(" ")
    data = mark_data(
        table.assign(first=first, name_at=_spread_names(table)),
        ["part", "n_heads", "first", "uas", "low", "high", "name_at"],
    )
    is_path = " || ".join(f"datum.part == '{path}'" for path in PATHS)
    x = alt.X("n_heads:Q", title="heads that the probe reads")
    x = x.scale(type="log", nice=False, padding=12).axis(values=[1, 2, 4, 8, 16, 32, 64, 128, 256])
    y = alt.Y("uas:Q", title="heads of words found (UAS)").scale(zero=False).axis(format="%")
    tooltip = [
        alt.Tooltip("part:N"),
        alt.Tooltip("n_heads:Q", title="heads"),
        alt.Tooltip("first:N", title="which, the first twelve"),
        *(number("uas", "UAS", ".1%"), INTERVAL),
    ]
    paths = alt.Chart().transform_filter(is_path)
    colour = alt.Color(
        "part:N", title="path", sort=list(PATHS), scale=alt.Scale(domain=list(PATHS))
    )
    others = alt.Chart().transform_filter(f"!({is_path})")
    chart = alt.layer(
        paths.mark_rule(strokeWidth=1).encode(
            x, alt.Y("low:Q", title=""), alt.Y2("high:Q"), colour
        ),
        paths.mark_line(strokeWidth=2).encode(x, y, colour),
        paths.mark_circle(size=50, opacity=1).encode(x, y, colour, tooltip=tooltip),
        others.mark_point(size=50, color=GREY).encode(x, y, tooltip=tooltip),
        others.mark_text(align="left", dx=7, fontSize=NAME_SIZE).encode(
            x, alt.Y("name_at:Q", title=""), text="part:N"
        ),
    )
    return name_and_interval(chart.properties(width=420, height=PARTS_HEIGHT, data=data), ".1%")


def _spread_names(table: pd.DataFrame) -> list[float]:
    """Where the names of single parts stand: each by its mark, or below the name above it."""
    room = 1.3 * NAME_SIZE / PARTS_HEIGHT * float(table["high"].max() - table["low"].min())
    places, above = [float(uas) for uas in table["uas"]], dict[int, float]()
    parts, sizes = list(table["part"]), list(table["n_heads"])
    for row in sorted(range(len(table)), key=lambda row: -places[row]):
        if parts[row] not in PATHS:
            places[row] = min(places[row], above.get(sizes[row], 2.0) - room)
            above[sizes[row]] = places[row]
    return places


def draw_structure(tables: Tables) -> Chart:
    """The four measures of Hewitt and Manning, layer by layer, with the chain as a line."""
    table = tables["probe-structure"]
    rows = [
        {
            "measure": title,
            "probe": row["probe"],
            "hidden": row["hidden"],
            "value": row[name],
            "low": row[f"{name}_low"],
            "high": row[f"{name}_high"],
        }
        for name, title in STRUCTURE.items()
        for _, row in table.iterrows()
    ]
    order = list(STRUCTURE.values())
    data = mark_data(pd.DataFrame(rows), ["measure", "probe", "hidden", "value", "low", "high"])
    x = alt.X("hidden:Q", title="layer (0: embeddings)").axis(tickMinStep=1)
    y = alt.Y("value:Q", title=None).scale(domain=[0, 1])
    tooltip = [alt.Tooltip("probe:N"), alt.Tooltip("hidden:Q", title="layer")]
    tooltip += [number("value", "value", ".3f"), INTERVAL]
    by_layer = alt.Chart().transform_filter("datum.probe == 'each layer'")
    whole = alt.Chart().transform_filter("datum.probe != 'each layer' && isValid(datum.hidden)")
    chain = alt.Chart().transform_filter("!isValid(datum.hidden)")
    colour = alt.Color("probe:N", title="from all sentences", sort=None)
    chart = alt.layer(
        chain.mark_rule(strokeDash=[4, 3], color=GREY).encode(y=y, tooltip=tooltip),
        by_layer.mark_line(strokeWidth=2, color=COLOURS[0]).encode(x, y),
        by_layer.mark_rule(color=COLOURS[0], clip=True).encode(
            x, alt.Y("low:Q", title=""), alt.Y2("high:Q")
        ),
        by_layer.mark_circle(size=50, opacity=1, color=COLOURS[0]).encode(x, y, tooltip=tooltip),
        whole.mark_point(size=70, filled=False).encode(x, y, colour, tooltip=tooltip),
    )
    chart = name_and_interval(chart.properties(width=230, height=170, data=data))
    return chart.facet(facet=alt.Facet("measure:N", title=None, sort=order), columns=2, spacing=20)


def draw_weights(tables: Tables) -> Chart:
    """A grid for each direction; those between words and those for ROOT on scales of their own."""
    weights = _trained_weights(tables["probe-weights"])
    grids = []
    for words, axis in ((BETWEEN_WORDS, "weight, words"), (TO_ROOT, "weight, ROOT")):
        rows = weights[weights["direction"].isin([*words]) & weights["weight"].notna()]
        if len(rows):
            grid = Grid(
                name="", title="", caption="", column="weight", axis=axis, diverging=True,
                panel="direction", words=words,
            )  # fmt: skip
            grids.append(draw_grid(grid, rows))
    return alt.vconcat(*grids, spacing=20).resolve_scale(color="independent")


def _trained_weights(table: pd.DataFrame) -> pd.DataFrame:
    """The weights of the probe over the model itself; without it, those of the first probe."""
    of_heads = table[table["layer"].notna()]
    trained = of_heads[of_heads["probe"] == "attention-only"]
    return trained if len(trained) else of_heads[of_heads["probe"] == of_heads["probe"].iloc[0]]
