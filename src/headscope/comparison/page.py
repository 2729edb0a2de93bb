"""The pages of comparisons, series and the atlas: static, offline, without scripts."""

from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import headscope.view as view_room
from headscope.comparison.answer import (
    LEVEL,
    has_kind,
    name_measure,
    split_kinds_by_run,
    write_number,
)
from headscope.comparison.charts import Drawn, draw_best, draw_changes, draw_kinds, draw_lines
from headscope.view.numbers import Form, p_value
from headscope.view.table import Column, TextTable, build_table

if TYPE_CHECKING:
    from headscope.comparison.compare import Comparison
    from headscope.comparison.series import Series

__all__ = ["claims_matrix", "render_comparison", "render_page", "render_series"]

SHOWN_MEASURES, SHOWN_HEADS = 40, 40
SHOWN_BEST, SHOWN_LINES = 12, 24  # of a series
WIDE = 0.4  # an interval that says nothing
CHANGE = Form("+.3g", to=" to ")


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
    css = (Path(view_room.__file__).parent / "templates" / "report.css").read_text()
    environment.globals |= {"css": Markup(css), "version": version("headscope")}
    return environment


def render_comparison(made: "Comparison") -> str:
    """compare.html: the answer, then figures with common axes, then tables."""
    tables, runs = made.tables, list(made.runs)
    figures = [draw_kinds(made.runs), draw_best(tables["best"], runs)]
    figures += [draw_changes(tables["heads"], run) for run in runs[1:]]
    common, alone, none = (
        split_kinds_by_run(tables["kinds"]) if len(tables["kinds"]) else ([], {}, [])
    )
    return render_page(
        "compare.html.j2",
        title=" and ".join(runs) if len(runs) == 2 else f"{len(runs)} runs",
        runs=[(name, _describe(run)) for name, run in made.runs.items()],
        answers=made.answers,
        notes=made.notes,
        left_out=made.left_out,
        figures=[figure for figure in figures if figure],
        claims=claims_matrix(tables["claims"], runs),
        has=[
            ("all of them", common),
            *((f"{r} alone", k) for r, k in alone.items()),
            ("none", none),
        ],
        tables=[
            _kinds(tables["kinds"], runs),
            _best(tables["best"], runs),
            _measures(tables["measures"]),
            _heads(tables["heads"]),
        ],
    )


def _describe(run: Any) -> str:
    manifest = run.manifest
    corpora = dict.fromkeys(one["corpus"] for one in manifest.get("passes", {}).values())
    digest = str(manifest["model"].get("digest", ""))[:12]
    return f"{manifest['model']['name']} (weights {digest}) on {', '.join(corpora)}; {run.folder}"


def claims_matrix(claims: pd.DataFrame, runs: Sequence[str]) -> list[dict[str, Any]]:
    """Claims with the verdicts of all runs, without those that no run could judge."""
    rows = []
    for (section, says), part in claims.groupby(["section", "says"], sort=False):
        by_run = part.set_index("run")
        verdicts = [(by_run.loc[run, "verdict"], by_run.loc[run, "shows"]) for run in runs]
        if any(verdict != "not measured" for verdict, _ in verdicts):
            rows.append({"section": section, "says": says, "verdicts": verdicts})
    return rows


def _kinds(kinds: pd.DataFrame, runs: Sequence[str]) -> TextTable:
    """Kinds x runs: how many heads, and the strongest."""
    found: list[Any] = list(kinds.itertuples(index=False))
    cells = {
        (row.kind, row.run): f"{row.heads} ({row.layer}-{row.head} {100 * row.share:.0f} %)"
        for row in found
    }
    names = list(has_kind(kinds).index) if len(kinds) else []
    rows = tuple((name, *(cells.get((name, run), "-") for run in runs)) for name in names)
    note = "Number of heads above the threshold, and the strongest head (even if it is below)."
    return TextTable(("heads for", *runs), rows, "Kinds of heads", note)


def _best(best: pd.DataFrame, runs: Sequence[str]) -> TextTable:
    found: list[Any] = list(best.itertuples(index=False))
    cells = {
        (row.table, row.of, row.run): f"{row.layer}-{row.head} {100 * row.value:.1f} %"
        for row in found
    }
    names = list(dict.fromkeys((table, of) for table, of, _ in cells))
    rows = tuple((*name, *(cells.get((*name, run), "-") for run in runs)) for name in names)
    return TextTable(("table", "of", *runs), rows, "Best heads, held out", "")


DIFFERENCE = (
    Column("difference", lambda row: CHANGE.number(row["difference"])),
    Column(
        "95 % interval",
        lambda row: CHANGE.interval(row["difference_low"], row["difference_high"]),
    ),
    Column("p (Holm)", lambda row: p_value(row["p_value"])),
    Column("", lambda row: "" if row["is_paired"] else "not paired"),
)


def _measures(measures: pd.DataFrame) -> TextTable:
    """The differences that remain, largest first against their interval."""
    sure = measures[measures["p_value"] < LEVEL]
    order = (sure["difference"] / (sure["difference_high"] - sure["difference_low"])).abs()
    shown = sure.loc[order.sort_values(ascending=False).index[:SHOWN_MEASURES]]
    columns = (
        Column("measure", lambda row: name_measure(pd.Series(row))),
        Column("statistic", lambda row: str(row["statistic"])),
        Column("run", lambda row: str(row["run"])),
        Column("value", lambda row: write_number(row, row["value"])),
        *DIFFERENCE,
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
        Column("run", lambda row: str(row["run"])),
        Column("measure", lambda row: name_measure(pd.Series(row))),
        Column("first run", lambda row: write_number(row, row["first_value"])),
        Column("this run", lambda row: write_number(row, row["value"])),
        *DIFFERENCE,
    )
    note = (
        f"{len(shown)} of {len(sure)} significant differences between heads at the same place "
        f"(after correction over the heads of a measure). All are in tables/heads.csv."
        if len(heads)
        else "The models have different shapes, so heads cannot be compared one by one."
    )
    return build_table(shown.to_dict("records"), columns, "Heads that differ", note)


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
        figures=[figure for figure in _draw_series(made) if figure],
        claims=claims_matrix(claims, steps),
        tables=[onsets, checkpoints],
    )


def _draw_series(made: "Series") -> list[Drawn | None]:
    kinds, best, series = (made.tables[name] for name in ("kinds", "best", "series"))
    strongest = kinds.assign(panel=kinds["kind"], value=kinds["share"])
    last = best[best["step"] == best["step"].max()].sort_values("value", ascending=False)
    last = last[last["high"] - last["low"] < WIDE]
    shown = list(last["of"].head(SHOWN_BEST))
    of_best = best[best["of"].isin(shown)].assign(panel=lambda table: table["of"])
    means = series[series["statistic"] == "mean"]
    means = means.assign(panel=means["table"] + " " + means["measure"] + " " + means["of"])
    scale = means.groupby("panel")["value"].agg(lambda v: v.std() / (v.abs().max() or 1))
    moving = list(scale.sort_values(ascending=False).index[:SHOWN_LINES])
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
            "heads. Each panel has its own axis. All are in tables/series.csv.",
            share_scale=False,
        ),
    ]


def _step(step: Any) -> str:
    return "-" if pd.isna(step) else f"{int(str(step)):,}"
