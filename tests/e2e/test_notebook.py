"""The tour runs from its first cell to its last, and what is shown shows itself."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from headscope.runs.run import Run
from headscope.view.terminal import describe_run
from tests.report.made import HOSTILE, hostile_run, planted_run

TOUR = Path(__file__).parents[2] / "docs" / "tour.ipynb"


# A few examples of each corpus do: the rest of the cells is what takes no longer with more.
EXECUTE = """
import sys, nbclient, nbformat
notebook = nbformat.read(sys.argv[1], as_version=4)
(first,) = [cell for cell in notebook.cells if "progress=False" in cell.source]
first.source = first.source.replace("progress=False", "progress=False, limit=12")
nbclient.NotebookClient(notebook, timeout=300).execute()
nbformat.write(notebook, "tour.ipynb")
"""


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    for name in ("nbclient", "ipykernel"):
        if find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    folder = tmp_path_factory.mktemp("tour")
    command = [sys.executable, "-c", EXECUTE, str(TOUR)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (folder / "report.html").exists()
    notebook = json.loads((folder / "tour.ipynb").read_text())
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def shown_by(cells: list[Any], source: str) -> list[dict[str, Any]]:
    """What a cell shows, one after the other."""
    cell = next(cell for cell in cells if source in "".join(cell["source"]))
    results = [o for o in cell["outputs"] if o["output_type"] in ("execute_result", "display_data")]
    return [{kind: "".join(data) for kind, data in r["data"].items()} for r in results]


def test_the_tour_runs_and_its_values_show_themselves(cells: list[Any]) -> None:
    assert "previous token" in shown_by(cells, "hs.analyze")[-1]["text/html"]
    assert "vegaEmbed" in shown_by(cells, 'run.figures["position"]')[-1]["text/html"]
    assert "keeper" in shown_by(cells, 'head="3-9"')[0]["image/svg+xml"]
    if find_spec("anywidget") is not None:
        for source in ('head="3-9"', "layer=3", "hs.open_explorer"):
            picture, widget = shown_by(cells, source)
            assert "<svg" in picture["text/html"]
            assert "application/vnd.jupyter.widget-view+json" in widget


def test_a_run_in_a_notebook_names_its_tables_and_figures_and_escapes_the_rest() -> None:
    html = describe_run(planted_run().tables, planted_run().manifest)
    assert "position" in html
    assert "<table>" in html
    hostile = hostile_run()._repr_html_()
    assert HOSTILE not in hostile
    assert "&lt;script&gt;" in hostile
    bare = Run({}, {"model": {"name": "none"}, "counts": {}})
    assert "<table>" not in describe_run(bare.tables, bare.manifest)
