"""The explorer in a notebook: what a cell is given, and cells clicked in a real JupyterLab."""

import json
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest

import headscope as hs
from headscope.explore import notebook
from headscope.explore.maps import PRECISION
from headscope.view.svg import Drawing
from tests.browser import Visit, start_browser
from tests.explore.made import TEXT, demo_models, make_session, true_map

HOSTILE = "<script>parent.document.title='taken'</script> </script> \" ' & it's"
WIDGET = "application/vnd.jupyter.widget-view+json"
FRAME = ".jp-OutputArea-output iframe"
PICTURES = ".jp-OutputArea-output [data-headscope] svg"
DRAWN = "#work:not([hidden]) canvas.attention[data-heads]"
SETTINGS = "lab/user-settings/@jupyterlab/apputils-extension"
Shown = list[dict[str, Any]]
CELLS = (
    f"import headscope as hs\nhs.show('demo', {TEXT!r}, head='3-9', view='matrix')",
    f"hs.show('demo', {HOSTILE!r}, layer=2)",
    "hs.open_explorer('demo', 'Bees fly far.', head='1-3')",
)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Shown:
    """As if in a notebook with anywidget; what a cell would show, by its outputs."""
    pytest.importorskip("anywidget", reason="the extra 'notebook' is not installed")
    display = pytest.importorskip("IPython.display", reason="IPython is not installed")
    monkeypatch.setattr("headscope.explore.show.can_show", lambda: True)
    monkeypatch.setattr("headscope.explore.start.can_show", lambda: True)
    shown: Shown = []
    monkeypatch.setattr(display, "display", lambda bundle, **_: shown.append(bundle))
    return shown


def show(**options: Any) -> Drawing:
    return hs.show(demo_models().source, TEXT, **options)


# What a cell is given.


def test_a_script_gets_a_picture_alone() -> None:
    assert not notebook.can_show()
    assert type(show(head="3-9")) is Drawing
    with pytest.raises(NotImplementedError):  # IPython then takes the picture
        hs.open_explorer(demo_models().source)._ipython_display_()


def test_a_notebook_keeps_a_picture_and_shows_a_widget_in_its_place(kernel: Shown) -> None:
    drawing = show(head="3-9", words=True)
    assert isinstance(drawing, notebook.InteractiveDrawing)
    drawing._ipython_display_()
    picture, widget = kernel
    assert f'<div data-headscope="{drawing._cell.key}"><svg' in picture["text/html"]
    assert WIDGET not in picture
    assert widget[WIDGET]["model_id"] == drawing._cell.model_id
    assert not widget["text/html"] + widget["text/plain"]  # where there are no widgets
    drawing._ipython_display_()  # shown again, nothing is run again
    assert kernel[3] == widget
    assert drawing._cell.key not in picture["text/html"]
    assert type(pickle.loads(pickle.dumps(drawing))) is Drawing  # no model in it
    start = boot_of(drawing._cell)["start"]
    assert (start["heads"], start["words"], start["hide"]) == ("3-9", "true", "false")


def test_the_picture_is_there_before_the_page_is_made(kernel: Shown) -> None:
    def make() -> Any:
        assert len(kernel) == 1
        raise MemoryError

    with pytest.raises(MemoryError):
        notebook.show_cell("", "<svg></svg>", make)


@pytest.mark.usefixtures("kernel")
def test_a_cell_begins_with_what_is_drawn() -> None:
    start = boot_of(show(layer=2, hide_special=True)._cell)["start"]  # type: ignore[attr-defined]
    assert (start["heads"], start["filter"], start["hide"]) == ("2-1", "2-", "true")
    several = boot_of(show(head="3-9,1-3")._cell)["start"]  # type: ignore[attr-defined]
    assert (several["heads"], several["mode"]) == ("3-9,1-3", "overlay")
    sentence = hs.show(
        demo_models().source,
        treebank="starter",
        sentence="starter_encyclopedia_beaver-5",
        head="3-9",
        relation="det",
        direction="head-to-dependent",
    )
    boot = boot_of(sentence._cell)  # type: ignore[attr-defined]
    assert (boot["start"]["gold"], boot["start"]["way"]) == ("det", "down")
    assert "det" in {relation for _, _, relation in boot["texts"][0]["arcs"]}


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize(
    "options", [{"red": ["lamp"]}, {"view": "text"}, {"size": "8cm"}, {"strongest": 5}]
)
def test_what_only_a_drawing_has_is_drawn(options: Any) -> None:
    assert type(show(head="3-9", **options)) is Drawing


def test_a_run_opens_the_model_it_measured_with_its_measures() -> None:
    run = hs.analyze("demo", text=hs.texts([TEXT]), only="position", progress=False)
    explorer = hs.open_explorer(run, head=(3, 9))
    boot = explorer.session.boot()
    assert boot["runs"][0]["cards"]["3-9"]
    assert boot["start"]["heads"] == "3-9"
    assert "keeper" in explorer._repr_html_()  # where there is no widget


def test_an_explorer_is_saved_as_one_page(tmp_path: Path) -> None:
    path = hs.open_explorer(demo_models().source, TEXT).save(tmp_path / "page.html")
    assert '"isCell":false' in path.read_text()


def boot_of(cell: Any) -> dict[str, Any]:
    before, mark, after = cell.page.partition('<script type="application/json" id="boot">')
    assert mark, before
    boot: dict[str, Any] = json.loads(after.partition("</script>")[0])
    return boot


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize(
    ("what", "question", "status"),
    [
        ("look", json.dumps({"text": TEXT}), 200),
        ("look", json.dumps({"text": " "}), 422),
        ("look", json.dumps({"text": 3}), 422),
        ("map", "no JSON", 422),
        ("map", json.dumps({"text": TEXT, "head": "99-1"}), 422),
        ("boot", "{}", 500),
    ],
)
def test_every_question_of_a_cell_is_answered(what: str, question: str, status: int) -> None:
    from headscope.explore.cell import Cell

    cell, sent = Cell("", make_session()), []
    cell.send = lambda *message: sent.append(message)
    with nullcontext() if status < 500 else pytest.raises(KeyError):  # the kernel logs it
        cell._answer(cell, {"id": 7, "what": what, "question": question}, [])
    (((about, (body,)),)) = sent
    assert about == {"id": 7, "status": status}
    assert status != 422 or json.loads(body)["error"]


# A real JupyterLab.


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lab")


@pytest.fixture(scope="module")
def lab(folder: Path) -> Iterator[str]:
    """The address of a JupyterLab on this machine, with a notebook."""
    for name in ("jupyterlab", "anywidget", "nbformat"):
        pytest.importorskip(name, reason=f"{name} is not installed")
    import nbformat

    cells = [nbformat.v4.new_code_cell(source) for source in CELLS]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}  # else it is asked for
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), folder / "cells.ipynb")
    settings = folder / "config" / SETTINGS
    settings.mkdir(parents=True)
    (settings / "themes.jupyterlab-settings").write_text('{"theme": "JupyterLab Dark"}')
    quiet = '{"checkForUpdates": false, "fetchNews": "false"}'
    (settings / "notification.jupyterlab-settings").write_text(quiet)
    places = {f"JUPYTER_{n.upper()}_DIR": str(folder / n) for n in ("config", "data", "runtime")}
    options = ["--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1", "--ServerApp.port=0"]
    server = subprocess.Popen(
        [sys.executable, "-m", "jupyterlab", *options],
        cwd=folder,
        env={**os.environ, **places},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(300):
            if running := list((folder / "runtime").glob("jpserver-*.json")):
                break
            assert server.poll() is None
            time.sleep(0.1)
        about = json.loads(running[0].read_text())
        yield f"{about['url']}lab/tree/cells.ipynb?token={about['token']}"
    finally:
        server.terminate()  # its kernels too
        server.wait(20)


@pytest.fixture(scope="module")
def visit(lab: str) -> Iterator[Visit]:
    """The notebook with all its cells run."""
    for browser in start_browser():
        opened = Visit(browser, lab, width=1400)
        opened.page.locator(".jp-Notebook .jp-CodeCell").nth(2).wait_for(timeout=60_000)
        opened.page.get_by_text("| Idle").wait_for(timeout=60_000)  # sooner, nothing is run
        opened.page.get_by_role("menuitem", name="Run", exact=True).click()
        opened.page.get_by_text("Run All Cells", exact=True).click()
        for number in range(len(CELLS)):
            frame(opened, number).locator(DRAWN).wait_for(timeout=120_000)
        yield opened


def frame(visit: Visit, number: int) -> Any:
    return visit.page.locator(FRAME).nth(number).content_frame


def click_head(cell: Any, layer: int, head: int) -> None:
    grid = cell.locator("#grid-over")
    left, top, wide, high = map(float, grid.get_attribute("data-cells").split())
    grid.click(position={"x": left + (head - 0.5) * wide, "y": top + (layer - 0.5) * high})
    cell.locator(f'canvas.attention[data-heads="{layer}-{head}"]').wait_for()


def shown_weight(cell: Any, row: int, column: int) -> float:
    canvas = cell.locator("canvas.attention")
    left, top, size = map(float, canvas.get_attribute("data-cells").split())
    canvas.hover(position={"x": left + (column + 0.5) * size, "y": top + (row + 0.5) * size})
    return float(cell.locator(".cell-said strong").get_attribute("data-weight"))


def test_a_clicked_head_has_the_models_weights_and_other_cells_stay(visit: Visit) -> None:
    cell = frame(visit, 0)
    assert shown_weight(cell, 3, 2) == pytest.approx(true_map(TEXT, 2, 8)[3, 2], abs=PRECISION)
    click_head(cell, 2, 5)
    assert shown_weight(cell, 3, 2) == pytest.approx(true_map(TEXT, 1, 4)[3, 2], abs=PRECISION)
    others = [frame(visit, number).locator("#head-title").inner_text() for number in (1, 2)]
    assert others == ["Head 2-1", "Head 1-3"]


def test_the_explorer_asks_the_kernel_about_a_new_text(visit: Visit) -> None:
    cell, text = frame(visit, 2), "Two small boats were sailing home."
    cell.locator("#text").fill(text)
    cell.locator("#look").click()
    cell.locator("#note", has_text=" 9 tokens").wait_for()
    cell.get_by_role("button", name="Matrix").click()
    click_head(cell, 3, 9)
    assert shown_weight(cell, 2, 3) == pytest.approx(true_map(text, 2, 8)[2, 3], abs=PRECISION)
    cell.locator("#text").fill(" ")
    cell.locator("#look").click()
    cell.locator("#note.problem").wait_for()


def test_markup_in_a_text_is_only_text_and_the_notebook_is_out_of_reach(visit: Visit) -> None:
    cell = frame(visit, 1)
    assert "taken" not in visit.page.title()
    assert cell.locator("#drawings script").count() == 0
    assert cell.locator("body").evaluate("() => window.origin") == "null"


def test_a_cell_is_as_high_as_its_page_and_follows_the_theme(visit: Visit) -> None:
    cell = frame(visit, 0)
    cell.locator('html[data-theme="dark"]').wait_for()
    height = cell.locator("body").evaluate("(body) => body.offsetHeight - window.innerHeight")
    assert abs(height) <= 1
    visit.page.get_by_role("menuitem", name="Settings", exact=True).click()
    visit.page.get_by_text("Theme", exact=True).hover()
    visit.page.get_by_text("JupyterLab Light", exact=True).click()
    cell.locator('html[data-theme="light"]').wait_for()


def test_a_saved_notebook_has_pictures_and_no_errors_without_its_kernel(
    visit: Visit, lab: str, folder: Path
) -> None:
    pictures = visit.page.locator(PICTURES)
    assert pictures.count() == len(CELLS)
    for number in range(len(CELLS)):  # their widgets run
        pictures.nth(number).wait_for(state="hidden")
    with visit.page.expect_response(lambda answer: answer.request.method == "PUT"):
        visit.page.keyboard.press("Control+s")
    (folder / "later.ipynb").write_bytes((folder / "cells.ipynb").read_bytes())
    later = Visit(visit.page.context.browser, lab.replace("cells.ipynb", "later.ipynb"), width=1400)
    errors = later.page.get_by_text("model not found")
    errors.nth(len(CELLS) - 1).wait_for(state="attached", timeout=60_000)
    assert later.page.locator(PICTURES).locator("visible=true").count() == len(CELLS)
    assert not errors.locator("visible=true").count()


def test_nothing_is_fetched_from_elsewhere(visit: Visit) -> None:
    hosts = {urlparse(address).hostname for address in visit.asked}
    assert hosts - {None} == {"127.0.0.1"} or hosts - {None} == {"localhost"}
