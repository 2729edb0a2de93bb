"""The page of a series of checkpoints: lines over training steps."""

from typing import TYPE_CHECKING, Any

import pandas as pd

from headscope.comparison.charts import Drawn, draw_lines
from headscope.comparison.page import claims_matrix, render_page
from headscope.view.table import Column, build_table

if TYPE_CHECKING:
    from headscope.comparison.series import Series

__all__ = ["render_series"]

SHOWN_BEST, SHOWN_MEASURES = 12, 24
WIDE = 0.4  # an interval that says nothing


def render_series(made: "Series") -> str:
    """compare.html of a series."""
    tables = made.tables
    steps = [str(step) for step in made.runs]
    claims = tables["claims"].assign(run=tables["claims"]["step"].astype(str))
    onsets = build_table(
        tables["onsets"].to_dict("records"),
        (
            Column("what", lambda row: str(row["what"])),
            Column("", lambda row: str(row["kind"])),
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
            Column("step", lambda row: f"{row['step']:,}"),
            Column("weights", lambda row: str(row["weights"])[:12]),
            Column("run", lambda row: str(row["folder"])),
        ),
        "Checkpoints",
        "Checkpoints with the same hash have the same weights.",
    )
    return render_page(
        "series.html.j2",
        n_runs=len(made.runs),
        steps=steps,
        answers=made.answers,
        notes=made.notes,
        left_out=made.left_out,
        figures=[figure for figure in _figures(made) if figure],
        claims=claims_matrix(claims, steps),
        tables=[onsets, checkpoints],
    )


def _figures(made: "Series") -> list[Drawn | None]:
    kinds, best, series = (made.tables[name] for name in ("kinds", "best", "series"))
    strongest = kinds.assign(panel=kinds["kind"], value=kinds["share"])
    last = best[best["step"] == best["step"].max()].sort_values("value", ascending=False)
    last = last[last["high"] - last["low"] < WIDE]
    shown = list(last["of"].head(SHOWN_BEST))
    of_best = best[best["of"].isin(shown)].assign(panel=lambda table: table["of"])
    means = series[series["statistic"] == "mean"]
    means = means.assign(panel=means["table"] + " " + means["measure"] + " " + means["of"])
    scale = means.groupby("panel")["value"].agg(lambda v: v.std() / (v.abs().max() or 1))
    moving = list(scale.sort_values(ascending=False).index[:SHOWN_MEASURES])
    return [
        draw_lines(
            strongest,
            "The strongest head of each kind",
            "x: training step. y: share of the head that does it most at that step, with its 95 % "
            "interval. All panels have the same axes.",
        ),
        draw_lines(
            of_best,
            "Best heads",
            "x: training step. y: held-out accuracy of the best head at that step, with its 95 % "
            f"interval, for the {len(shown)} questions with the highest accuracy at the end.",
        ),
        draw_lines(
            means[means["panel"].isin(moving)],
            "Means over heads",
            f"The {len(moving)} measures with the largest relative change, as means over all "
            f"heads. Each panel has its own axis. All are in tables/series.csv.",
            share_scale=False,
        ),
    ]


def _step(step: Any) -> str:
    return "-" if pd.isna(step) else f"{int(str(step)):,}"
