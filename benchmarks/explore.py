"""The explorer in a real browser: a file, a cell, first view, another head, frames, live answers.

Seconds of a browser depend on the machine; the targets are what a person calls quick.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.row import Row, Settings, at_least, at_most, under
from benchmarks.timing import best_seconds
from benchmarks.workload import forward, make_segments, wide
from headscope.engine.open_models import Models
from headscope.explore.page import PAGE_FOLDER, render_page
from headscope.explore.session import Session
from headscope.explore.texts import ExampleList
from headscope.models.loaded import LoadedModel

__all__ = ["run"]

NAME = "explore"
TOKENS = 512
GRIDS = ((32, 32), (80, 64))  # layers, heads
DRAWN = "#work:not([hidden]) canvas.attention"
FRAMES = """async (selector) => {
  let frames = 0, isOn = true;
  const count = () => { frames++; if (isOn) requestAnimationFrame(count); };
  requestAnimationFrame(count);
  const grid = document.querySelector(selector), box = grid.getBoundingClientRect();
  const started = performance.now();
  for (let step = 0; performance.now() - started < 2000; step++) {
    const at = { clientX: box.left + 30 + (step * 7) % (box.width - 40),
      clientY: box.top + 30 + (step * 3) % 400, pointerType: "mouse", bubbles: true };
    grid.dispatchEvent(new PointerEvent("pointermove", at));
    window.scrollBy(0, step % 40 < 20 ? 6 : -6);
    await new Promise(requestAnimationFrame);
  }
  isOn = false;
  return 1000 * frames / (performance.now() - started);
}"""
GRID, MATRIX = "#grid-over", "canvas.attention"
CELL = """async ([widget, html]) => {
  const { render } = (await import(`data:text/javascript,${encodeURIComponent(widget)}`)).default;
  const started = performance.timeOrigin + performance.now();
  render({ model: { get: () => html, on() {}, off() {}, send() {} }, el: document.body });
  return started;
}"""  # what a notebook does
NOTE = """const waiting = setInterval(() => {
  if (!document.querySelector("canvas.attention")?.clientWidth) return;
  window.drawn = performance.timeOrigin + performance.now();
  clearInterval(waiting);
}, 5);"""  # the driver itself takes seconds to see a frame of another origin
OTHER_HEADS = ["3-1", "3-5", "5-1", "5-10", "8-3", "8-12", "11-7"]
ANOTHER_HEAD = """async (heads) => {
  const times = [], grid = document.querySelector("#grid-over");
  const drawn = document.querySelector("canvas.attention");
  for (const head of heads) {
    const [left, top, wide, high] = grid.dataset.cells.split(" ").map(Number);
    const [row, column] = head.split("-").map((part) => Number(part) - 0.5);
    const box = grid.getBoundingClientRect(), started = performance.now();
    grid.dispatchEvent(new MouseEvent("click", { // without a hover, which would compute the map
      clientX: box.left + left + column * wide - 2, clientY: box.top + top + row * high - 2 }));
    while (drawn.dataset.heads !== head) await new Promise((done) => setTimeout(done, 0));
    times.push(performance.now() - started);
    await new Promise((done) => setTimeout(done, 100)); // nobody clicks sooner
  }
  return times.sort((a, b) => a - b)[Math.floor(times.length / 2)];
}"""


def run(settings: Settings) -> Iterator[Row]:
    """A file of 512 tokens and 12 x 12 heads, live answers, and large grids."""
    source, text = wide(12, 12, 32), make_text(TOKENS)
    session = session_of(source)
    with opened_browser() as browser, TemporaryDirectory() as folder:
        if browser is None:
            return
        path = Path(folder) / "page.html"
        path.write_text(render_page(session, [{"text": text}], {"text": text, "heads": "2-2"}))
        yield Row(NAME, "file, 512 tokens, 12 x 12", path.stat().st_size / 1e6, "MB", at_most(15))
        yield from measure_file(browser, path, settings)
        yield from measure_cell(browser, session, text, settings)
        yield from measure_live(session, text, settings)
        for layers, heads in GRIDS:
            yield from measure_grid(browser, Path(folder), layers, heads)


def measure_file(browser: Any, path: Path, settings: Settings) -> Iterator[Row]:
    """First view, another head, frames while hovering and scrolling."""
    first, another, frames = [], [], []
    for _ in range(settings.repeats):
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(path.as_uri())
        page.wait_for_selector(DRAWN, timeout=60_000)
        first.append(page.evaluate("performance.now()") / 1000)
        page.wait_for_timeout(1000)  # nobody clicks sooner, and layers are unpacked meanwhile
        another.append(page.evaluate(ANOTHER_HEAD, OTHER_HEADS))
        frames.append(page.evaluate(FRAMES, GRID))
        page.close()
    yield Row(NAME, "first view of the file", min(first), "s", under(1.5))
    yield Row(NAME, "another head", min(another), "ms", under(50))
    yield Row(NAME, "frames a second, hovering and scrolling", max(frames), "Hz", at_least(30))


def measure_cell(browser: Any, session: Session, text: str, settings: Settings) -> Iterator[Row]:
    """The same in a cell of a notebook: the page made, its first view, frames while hovering."""
    source, widget = session.models[0].source, (PAGE_FOLDER / "widget.js").read_text()
    assert isinstance(source, LoadedModel)
    batch, pages = source.batch(source.encode(make_segments(1, TOKENS), TOKENS)), []

    def make_page() -> None:
        pages[:] = [render_page(session, [{"text": text}], {"text": text}, is_cell=True)]

    works = {"forward": lambda: forward(source, [batch.inputs], "sdpa"), "page": make_page}
    seconds = best_seconds(works, settings.repeats)
    yield Row(
        NAME, "page of a cell over the forward pass", seconds["page"] / seconds["forward"], "x"
    )
    first, another, over_grid, over_matrix = [], [], [], []
    for _ in range(settings.repeats):
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.add_init_script(NOTE)
        started = page.evaluate(CELL, [widget, pages[0]])
        frame = page.wait_for_selector("iframe").content_frame()
        frame.wait_for_selector(DRAWN, timeout=60_000)
        first.append((frame.evaluate("window.drawn") - started) / 1000)
        page.wait_for_timeout(1000)
        another.append(frame.evaluate(ANOTHER_HEAD, OTHER_HEADS))
        over_grid.append(frame.evaluate(FRAMES, GRID))
        over_matrix.append(frame.evaluate(FRAMES, MATRIX))
        page.close()
    yield Row(NAME, "first view of a cell, its page made", min(first), "s")
    yield Row(
        NAME, "page made and first view of a cell", seconds["page"] + min(first), "s", under(1)
    )
    yield Row(NAME, "another head in a cell", min(another), "ms", under(50))
    yield Row(NAME, "frames a second over its heads", max(over_grid), "Hz", at_least(58))
    yield Row(NAME, "frames a second over its matrix", max(over_matrix), "Hz", at_least(58))


def measure_live(session: Session, text: str, settings: Settings) -> Iterator[Row]:
    """The answer to a text beside the bare forward pass."""
    source = session.models[0].source
    assert isinstance(source, LoadedModel)
    batch = source.batch(source.encode(make_segments(1, TOKENS), TOKENS))

    def look() -> None:
        session._maps.clear()
        json.dumps(session.look({"text": text}, lambda: None))
        session.map({"text": text, "head": "3-4"}, lambda: None)

    works = {"forward": lambda: forward(source, [batch.inputs], "sdpa"), "look": look}
    seconds = best_seconds(works, settings.repeats)
    allowed = 1.5 * seconds["forward"] + 0.2
    yield Row(
        NAME,
        "live answer over 1.5 forward passes + 0.2 s",
        seconds["look"] / allowed,
        "x",
        at_most(1),
    )


def measure_grid(browser: Any, folder: Path, layers: int, heads: int) -> Iterator[Row]:
    """The first view of a model with very many heads, and hovering over them."""
    text, session = make_text(30), session_of(wide(layers, heads, 4))
    path = folder / f"grid-{layers}.html"
    path.write_text(render_page(session, [{"text": text}], {"text": text}))
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(path.as_uri())
    page.wait_for_selector(DRAWN, timeout=60_000)
    yield Row(
        NAME, f"first view, {layers} x {heads}", page.evaluate("performance.now()") / 1000, "s"
    )
    yield Row(
        NAME,
        f"frames a second, {layers} x {heads}",
        page.evaluate(FRAMES, GRID),
        "Hz",
        at_least(30),
    )
    page.close()


def session_of(source: LoadedModel) -> Session:
    return Session([Models(source)], ExampleList())


def make_text(n_tokens: int) -> str:
    """A text of about so many tokens, special ones included."""
    (example,) = make_segments(1, n_tokens)
    return re.sub(r"\s+", " ", f"{example.text} {example.text_pair or ''}").strip()


@contextmanager
def opened_browser() -> Iterator[Any]:
    """Chromium, or None where there is none."""
    from playwright.sync_api import sync_playwright  # only for development

    program = which("chromium") or which("chromium-browser") or which("google-chrome")
    if program is None:
        yield None
        return
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()
