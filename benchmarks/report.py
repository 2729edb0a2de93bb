"""The report in a real browser: size of the page, and the time to its first screen."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import headscope
from benchmarks.explore import opened_browser
from benchmarks.row import Row, Settings, under
from benchmarks.workload import wide

__all__ = ["run"]

NAME = "report"
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


def run(settings: Settings) -> Iterator[Row]:
    """A run of 12 x 12 heads over the embedded corpora."""
    with opened_browser() as browser, TemporaryDirectory() as folder:
        if browser is None:
            return
        starter = {"text": "starter", "treebank": "starter", "coref": "starter"}
        run = headscope.analyze(wide(12, 12, 32), **starter, out=Path(folder) / "run")
        path = run.report()
        yield Row(NAME, "page, 12 x 12", path.stat().st_size / 1e6, "MB", under(5))
        seconds = []
        for _ in range(settings.repeats):
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.goto(path.as_uri())
            page.wait_for_function(PAINT)
            seconds.append(page.evaluate(PAINT) / 1000)
            page.close()
        yield Row(NAME, "first screen", min(seconds), "s", under(0.7))
