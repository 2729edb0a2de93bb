"""A real browser for tests, and pages opened in it."""

from collections.abc import Iterator
from shutil import which
from typing import Any

import pytest

__all__ = ["Visit", "start_browser"]

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def start_browser() -> Iterator[Any]:
    """A browser while a test runs; the test is skipped where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = next((path for name in BROWSERS if (path := which(name))), None)
    if program is None:
        pytest.skip(f"no browser is installed (one of {', '.join(BROWSERS)})")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()


class Visit:
    """A page that was opened, and all it said and asked for."""

    def __init__(self, browser: Any, address: str, width: int = 1280, **settings: Any) -> None:
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page = browser.new_page(viewport={"width": width, "height": 900}, **settings)
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("dialog", lambda dialog: self.said.append(dialog.message))
        self.page.goto(address)
