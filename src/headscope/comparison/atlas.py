"""An atlas: a static site of many runs, with an index of models, claims and kinds of heads."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfile
from typing import Any

import pandas as pd
from markupsafe import Markup, escape

from headscope.arguments import checked
from headscope.comparison.findings import claims_table, kinds_table
from headscope.comparison.load import Loaded, load_runs
from headscope.comparison.page import claims_matrix, render_page
from headscope.data.table import split_kinds
from headscope.errors import StudyError
from headscope.files import write_atomically
from headscope.registry import PROBES
from headscope.runs.folder import RunFolder
from headscope.runs.run import Run, explain_damage
from headscope.view.answer import choose_answers
from headscope.view.card import cards_of_kind
from headscope.view.claim import Finding, added_claims, count_verdicts, sum_up
from headscope.view.overview import Overview, make_overview
from headscope.view.specs import OTHER

__all__ = ["Atlas", "write_atlas"]

CELL, GAP = 9, 1  # pixels
MODELS = "models"


@dataclass(frozen=True)
class Atlas:
    """Where the site is, and the tables behind it."""

    index: Path
    runs: dict[str, Run]
    tables: dict[str, pd.DataFrame]
    left_out: dict[str, str]


@checked
def write_atlas(folder: str | Path, out: str | Path | None = None) -> Atlas:
    """A site of all runs in a folder, by default in its subfolder `atlas`.

    A run that cannot be read is named and left out. A run's own report.html is copied.
    """
    place = Path(folder)
    target = RunFolder(Path(out) if out is not None else place / "atlas")
    paths = sorted(
        path.parent
        for path in (place.glob("**/manifest.json") if os.path.isdir(place) else ())
        if path.parent.name != PROBES.plural or not (path.parent.parent / "manifest.json").exists()
    )
    if not paths:
        raise StudyError(
            f"{place} holds no run. Expected a folder with folders that `headscope analyze --out` "
            "wrote; check the path."
        )
    target.refuse_if_taken()
    loaded = load_runs(paths, least=1, same_weights=False)
    with explain_damage(*loaded.runs.values()):
        return _write(target, loaded)


def _write(target: RunFolder, loaded: Loaded) -> Atlas:
    tables = {"claims": claims_table(loaded.runs), "kinds": kinds_table(loaded.runs)}
    target.create()
    for name, table in tables.items():
        target.write_table(name, table)
    cards = [
        _write_model(target.path, f"{number:03d}", name, run)
        for number, (name, run) in enumerate(loaded.runs.items(), start=1)
    ]
    page = render_page(
        "atlas.html.j2",
        n_runs=len(cards),
        models=cards,
        claims=claims_matrix(tables["claims"], list(loaded.runs)),
        names=[(card["name"], card["page"]) for card in cards],
        kinds=list(_list_kinds(tables["kinds"], {card["name"]: card["page"] for card in cards})),
        left_out=loaded.left_out,
    )
    index = target.path / "index.html"
    write_atomically(index, page.encode())
    return Atlas(index, loaded.runs, tables, loaded.left_out)


def _count_claims(findings: Sequence[Finding]) -> str:
    """How many of the paper's claims have each verdict; "" where none was measured."""
    added = added_claims()
    verdicts = [f.verdict for f in findings if f.claim.name not in added]
    return count_verdicts(verdicts) if {*verdicts} - {"not measured"} else ""


def _write_model(site: Path, number: str, name: str, run: Run) -> dict[str, Any]:
    """The page of a model, its report beside it where there is one, and its card for the index."""
    cards = {
        kind: cards_of_kind(own, run.labelled[kind], has_facts=False)
        for kind, own in split_kinds(run.tables).items()
    }
    overview = make_overview(cards)
    report = Path(str(run.folder)) / "report.html"
    card: dict[str, Any] = {
        "name": name,
        "page": f"{MODELS}/{number}.html",
        "report": f"{MODELS}/{number}-report.html" if report.exists() else "",
        "grid": draw_grid(overview, name),
        "shape": f"{overview.n_layers} layers of {overview.n_heads} heads",
        "claims": _count_claims(run.findings),
    }
    page = render_page(
        "model.html.j2",
        name=name,
        report=Path(card["report"]).name,
        answers=[a.text for a in choose_answers(run.tables, model=run.manifest["model"])],
        grid=card["grid"],
        legend=[(line.kind.name, line.kind.colour, line.n_heads) for line in overview.legend],
        findings=run.findings,
        in_short=sum_up(run.findings),
        corpora=[one["corpus"] for one in run.manifest.get("passes", {}).values()],
    )
    write_atomically(site / card["page"], page.encode())
    if card["report"]:
        copyfile(report, site / card["report"])
    return card


def draw_grid(overview: Overview, name: str) -> Markup:
    """All heads as small squares, coloured by what each does, as SVG."""
    parts, top, step = [], 0, CELL + GAP
    for grid in overview.grids:
        for row in grid.rows.values():
            for place, cell in enumerate(row):
                if cell is not None:
                    fade = ' opacity=".2"' if cell.kind == OTHER else ""
                    said = escape(f"{cell.name}: {cell.says}")
                    parts.append(
                        f'<rect x="{place * step}" y="{top}" width="{CELL}" height="{CELL}" '
                        f'fill="{cell.kind.colour}"{fade}><title>{said}</title></rect>'
                    )
            top += step
        top += CELL
    width = max(overview.n_heads * step, step)
    label = escape(f"All heads of {name}: rows are layers, columns are heads")
    return Markup(
        f'<svg role="img" aria-label="{label}" width="{width}" height="{max(top - CELL, step)}" '
        f'viewBox="0 0 {width} {max(top - CELL, step)}">{"".join(parts)}</svg>'
    )


def _list_kinds(kinds: pd.DataFrame, pages: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """For each kind of head the models that have one, strongest first, and how many do not."""
    for kind, part in kinds.groupby("kind", sort=False):
        having = part[part["heads"] > 0].sort_values("share", ascending=False)
        found: list[Any] = list(having.itertuples(index=False))
        yield {
            "kind": kind,
            "n_having": len(having),
            "n_measured": len(part),
            "models": [
                (row.run, pages[row.run], f"{row.layer}-{row.head}", f"{100 * row.share:.0f} %")
                for row in found
            ],
        }
