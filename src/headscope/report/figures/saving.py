"""Figures as files: SVG, PNG and PDF."""

from collections.abc import Sequence
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

from headscope.errors import StudyError
from headscope.registry import FIGURES
from headscope.report.figures.figure import Tables
from headscope.runs.files import write_atomically

__all__ = ["FORMATS", "render", "save_figures"]

FORMATS = ("svg", "png", "pdf")
DOTS_PER_INCH = 200


def save_figures(
    tables: Tables, folder: str | Path, formats: Sequence[str] = ("svg",)
) -> list[Path]:
    """Write every figure whose tables are there as NAME.FORMAT, and say where."""
    for format in formats:
        _check(format)
    paths = []
    for name, entry in FIGURES.entries().items():
        figure = entry.load()
        if figure.missing(tables):
            continue
        chart = figure.draw(tables)
        for format in formats:
            path = Path(folder) / f"{name}.{format}"
            write_atomically(path, render(chart, format))
            paths.append(path)
    return paths


def render(chart: Any, format: str) -> bytes:
    """A chart as the content of a file; a PNG is on white, the others on nothing."""
    _check(format)
    if format == "svg":
        text = StringIO()
        chart.save(text, format="svg")
        return text.getvalue().encode()
    content = BytesIO()
    if format == "png":
        white = chart.copy(deep=True)
        white.config.background = "white"
        white.save(content, format="png", ppi=DOTS_PER_INCH)
    else:
        chart.save(content, format="pdf")
    return content.getvalue()


def _check(format: str) -> None:
    if format not in FORMATS:
        raise StudyError(
            f"Figures cannot be saved as {format!r}. Expected one of {', '.join(FORMATS)}; choose "
            "one of them."
        )
