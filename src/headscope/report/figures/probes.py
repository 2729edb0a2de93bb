"""Probes over all heads: their scores, how they learn, and which heads they are made of."""

import altair as alt
import pandas as pd

from headscope.report.figures.best_bars import BestBars
from headscope.report.figures.figure import Drawing, Figure, Tables
from headscope.report.figures.heads_grid import HeadsGrid
from headscope.report.figures.marks import mark_data, name_and_interval, number
from headscope.report.probes import PAPER_TABLE_3

__all__ = ["PROBES", "PROBE_CURVE", "PROBE_WEIGHTS"]

WORDS = {
    "dependent-to-head": "word to candidate",
    "head-to-dependent": "candidate to word",
}
ROOT = {"opening": "word to opening token", "closing": "word to closing token"}


def draw_probes(tables: Tables) -> Drawing:
    """The share of words whose head a probe finds, beside the paper's."""
    paper = tables["probes"]["probe"].map(PAPER_TABLE_3) / 100
    bars = BestBars(
        label="probe",
        value="uas",
        title="heads of words found (UAS)",
        bar="this model",
        ticks={"paper": "the paper (BERT-base, WSJ)"},
        said=[
            alt.Tooltip("sentences:Q", title="learned from sentences", format=","),
            alt.Tooltip("parameters:Q", format=","),
            number("mst_uas", "UAS of whole trees", ".1%"),
            number("uuas", "UUAS", ".1%"),
        ],
        carried=["sentences", "parameters", "mst_uas", "uuas"],
        has_heads=False,
    )
    return bars.draw(tables["probes"].assign(paper=paper))


def draw_curve(tables: Tables) -> Drawing:
    """UAS by the number of sentences, with intervals."""
    data = mark_data(tables["probe-curve"], ["probe", "sentences", "uas", "low", "high"])
    sizes = sorted({int(n) for n in tables["probe-curve"]["sentences"]})
    across = alt.X(
        "sentences:Q",
        title="sentences learned from",
        scale=alt.Scale(type="log", nice=False, padding=12),
        axis=alt.Axis(values=sizes, format=","),
    )
    up = alt.Y(
        "uas:Q",
        title="heads of words found (UAS)",
        scale=alt.Scale(zero=False),
        axis=alt.Axis(format="%", tickCount=6),
    )
    shades = alt.Color("probe:N", title=None, sort=None)
    said = [
        alt.Tooltip("probe:N"),
        alt.Tooltip("sentences:Q", format=","),
        number("uas", "UAS", ".1%"),
        alt.Tooltip("interval:N", title="95 % interval"),
    ]
    base = alt.Chart()
    ends = base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=1.5)
    chart = alt.layer(
        ends.encode(across, alt.Y("low:Q", title=""), alt.Y2("high:Q"), shades),
        base.mark_line(strokeWidth=2).encode(across, up, shades),
        base.mark_circle(size=60, opacity=1).encode(across, up, shades, tooltip=said),
    )
    return name_and_interval(chart.properties(width=380, height=240, data=data), ".1%")


def draw_weights(tables: Tables) -> Drawing:
    """A grid for each direction; those between words and those for ROOT on scales of their own."""
    weights = _trained(tables["probe-weights"])
    grids = [
        HeadsGrid(
            "weight", title, diverging=True, panel="direction", panel_order=list(words.values())
        ).draw(_only(weights, words))
        for words, title in ((WORDS, "weight, words"), (ROOT, "weight, ROOT"))
        if weights["direction"].isin(list(words)).any()
    ]
    return alt.vconcat(*grids, spacing=20).resolve_scale(color="independent")


def _trained(table: pd.DataFrame) -> pd.DataFrame:
    """The weights of the probe over the model itself; of another only where that was not made."""
    of_heads = table[table["layer"].notna()]
    trained = of_heads[of_heads["probe"] == "attention-only"]
    first = of_heads[of_heads["probe"] == of_heads["probe"].iloc[0]]
    return trained if len(trained) else first


def _only(weights: pd.DataFrame, words: dict[str, str]) -> pd.DataFrame:
    chosen = weights[weights["direction"].isin(list(words))]
    return chosen.assign(direction=chosen["direction"].map(words))


PROBES = Figure(
    name="probes",
    title="How much syntax all heads hold together",
    caption=(
        "One line for each probe, a small parser trained on attention alone: the share of words "
        "whose head it finds, punctuation left out, with its 95 % interval. The tick is what the "
        "paper reports for the same probe on another model and treebank, where it has it."
    ),
    needs=("probes",),
    made_by="--treebank FILE --train FILE",
    draw_tables=draw_probes,
    paper="Table 3",
)

PROBE_CURVE = Figure(
    name="probe-curve",
    title="How fast probes learn",
    caption=(
        "The share of words whose head a probe finds, by the number of sentences it learned from; "
        "strokes are 95 % intervals. A curve that is flat early says that the syntax was in the "
        "attention already, and not learned by the probe."
    ),
    needs=("probe-curve",),
    made_by="--treebank FILE --train FILE",
    draw_tables=draw_curve,
)

PROBE_WEIGHTS = Figure(
    name="probe-weights",
    title="Which heads the parse is made of",
    caption=(
        "The weights of the attention-only probe. Every cell is a head: its layer down, its number "
        "across. Red: its attention raises the score of a candidate; blue: it lowers it. Above, "
        "attention between a word and the candidate; below, attention to special tokens, which "
        "speaks for ROOT and has a scale of its own."
    ),
    needs=("probe-weights",),
    made_by="--treebank FILE --train FILE",
    draw_tables=draw_weights,
)
