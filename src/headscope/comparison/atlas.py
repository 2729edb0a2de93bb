"""An atlas: a static site of many runs, with an index of models, claims and kinds of heads."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from os.path import isdir
from pathlib import Path
from shutil import copyfile
from typing import Any

import pandas as pd
from markupsafe import Markup, escape

from headscope.arguments import checked
from headscope.comparison.load import claims_table, kinds_table, load_runs
from headscope.comparison.page import claims_matrix, render_page
from headscope.data.table import split_kinds
from headscope.errors import StudyError
from headscope.files import write_atomically
from headscope.registry import PROBES
from headscope.runs.folder import RunFolder
from headscope.runs.run import Run, explain_damage
from headscope.view.answer import answer_run
from headscope.view.card import cards_of_kind
from headscope.view.claim import added_claims, count_verdicts, sum_up
from headscope.view.overview import Overview, make_overview, paint
from headscope.view.table import rows_of

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
    folder = Path(folder)
    site = RunFolder(Path(out) if out is not None else folder / "atlas")
    paths = sorted(
        path.parent
        for path in (folder.glob("**/manifest.json") if isdir(folder) else ())
        if path.parent.name != PROBES.plural or not (path.parent.parent / "manifest.json").exists()
    )
    if not paths:
        raise StudyError(
            f"{folder} holds no run. Expected a folder with folders that `headscope analyze --out` "
            "wrote; check the path."
        )
    site.refuse_if_taken()
    loaded = load_runs(paths, least=1, same_weights=False)
    with explain_damage(*loaded.runs.values()):
        tables = {"claims": claims_table(loaded.runs), "kinds": kinds_table(loaded.runs)}
        site.create()
        for name, table in tables.items():
            site.write_table(name, table)
        cards = [
            _write_model(site.path, f"{number:03d}", name, run)
            for number, (name, run) in enumerate(loaded.runs.items(), start=1)
        ]
        pages = {card["name"]: card["page"] for card in cards}
        page = render_page(
            "atlas.html.j2",
            n_runs=len(cards),
            models=cards,
            claims=claims_matrix(tables["claims"], list(loaded.runs)),
            names=list(pages.items()),
            kinds=list(_list_kinds(tables["kinds"], pages)),
            left_out=loaded.left_out,
        )
        index = site.path / "index.html"
        write_atomically(index, page.encode())
        return Atlas(index, loaded.runs, tables, loaded.left_out)


def _write_model(site: Path, number: str, name: str, run: Run) -> dict[str, Any]:
    """The page of a model, its report beside it where there is one, and its card for the index."""
    kinds = split_kinds(run.tables)
    overview = make_overview(
        {
            kind: cards_of_kind(part, run.labelled[kind], has_facts=False)
            for kind, part in kinds.items()
        },
        kinds,
    )
    added = added_claims()
    verdicts = [f.verdict for f in run.findings if f.claim.name not in added]
    report = Path(str(run.folder)) / "report.html"
    card: dict[str, Any] = {
        "name": name,
        "page": f"{MODELS}/{number}.html",
        "report": f"{MODELS}/{number}-report.html" if report.exists() else "",
        "grid": draw_grid(overview, name),
        "shape": f"{overview.n_layers} layers of {overview.n_heads} heads",
        "claims": count_verdicts(verdicts) if {*verdicts} - {"not measured"} else "",
    }
    page = render_page(
        "model.html.j2",
        name=name,
        report=Path(card["report"]).name,
        answers=[a.text for a in answer_run(run.tables, run.manifest)],
        grid=card["grid"],
        legend=[(line.kind.name, line.kind.colour, line.n_heads) for line in overview.looks],
        findings=run.findings,
        in_short=sum_up(run.findings),
        corpora=[entry["corpus"] for entry in run.manifest.get("passes", {}).values()],
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
            for column, cell in enumerate(row):
                if cell is not None:
                    fill = paint(cell.look, cell.strength, "light").ground
                    title = escape(f"{cell.name}: {cell.says}")
                    parts.append(
                        f'<rect x="{column * step}" y="{top}" width="{CELL}" height="{CELL}" '
                        f'fill="{fill}"><title>{title}</title></rect>'
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
        yield {
            "kind": kind,
            "n_having": len(having),
            "n_measured": len(part),
            "models": [
                (row.run, pages[row.run], f"{row.layer}-{row.head}", f"{100 * row.share:.0f} %")
                for row in rows_of(having)
            ],
        }
