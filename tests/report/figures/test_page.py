"""The page on figures: it names every one, and its example is a figure."""

import re
from pathlib import Path
from typing import Any

import pytest

from headscope.view.figure import list_figures, render
from tests.report.figures.made import make_tables

PAGE = (Path(__file__).parents[3] / "docs" / "figures.md").read_text()


@pytest.mark.parametrize("name", list(list_figures()))
def test_every_figure_is_on_the_page(name: str) -> None:
    assert f"`{name}`" in PAGE


def test_every_figure_on_the_page_is_there() -> None:
    rows = re.findall(r"^\| (`[^|]+) \|", PAGE, re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`([a-z-]+)`", row)} <= set(list_figures())


def test_the_example_of_the_page_can_be_drawn() -> None:
    (code,) = (c for c in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "KNOWN" in c)
    names: dict[str, Any] = {}
    exec(code, names)
    tables = make_tables(3, 5)
    tables["layout"] = tables["layout"].astype({"layer": int, "head": int})
    assert b"heads" in render(names["KNOWN_HEADS"].draw(tables), "svg")
