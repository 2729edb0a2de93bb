"""Figures as files: every one there are tables for, in every format."""

import zlib
from pathlib import Path
from xml.etree import ElementTree

import pytest

from headscope.errors import StudyError
from headscope.runs.run import RunFigures
from headscope.view.figure import FORMATS, save_figures
from tests.report.figures.made import make_tables

OPENINGS = {"svg": b"<svg", "png": b"\x89PNG", "pdf": b"%PDF"}


def first_pixel(png: bytes) -> bytes:
    """The colour of the upper left corner, which no filter of PNG changes."""
    parts, place = b"", 8
    while place < len(png):
        length = int.from_bytes(png[place : place + 4], "big")
        if png[place + 4 : place + 8] == b"IDAT":
            parts += png[place + 8 : place + 8 + length]
        place += 12 + length
    return zlib.decompress(parts)[1:5]


@pytest.mark.parametrize("format", FORMATS)
def test_a_figure_of_a_run_is_saved_as_the_command_saves_it(format: str, tmp_path: Path) -> None:
    tables = {"position": make_tables(2, 3)["position"]}
    save_figures(tables, tmp_path / "command", [format])
    saved = tmp_path / "command" / f"position.{format}"
    own = tmp_path / f"own.{format}"
    RunFigures(tables)["position"].save(str(own))
    # a PDF has the time of its making
    assert own.stat().st_size == saved.stat().st_size
    assert format == "pdf" or own.read_bytes() == saved.read_bytes()


def test_a_figure_of_a_run_can_still_be_saved_as_a_page_or_larger(tmp_path: Path) -> None:
    figure = RunFigures({"position": make_tables(2, 3)["position"]})["position"]
    figure.save(tmp_path / "a.html")
    figure.save(tmp_path / "a.png")
    figure.save(tmp_path / "b.png", ppi=400)
    assert "vega" in (tmp_path / "a.html").read_text()
    assert (tmp_path / "b.png").stat().st_size > (tmp_path / "a.png").stat().st_size


def test_every_figure_with_tables_is_saved_in_every_format(tmp_path: Path) -> None:
    tables = make_tables(2, 3)
    kept = {name: tables[name] for name in ("position", "entropy")}
    paths = save_figures(kept, tmp_path / "new", FORMATS)
    names = {"position", "entropy", "heads-previous", "heads-next", "heads-entropy"}
    expected = {f"{name}.{format}" for name in names for format in FORMATS}
    assert {path.name for path in paths} == expected
    assert {path.name for path in (tmp_path / "new").iterdir()} == expected
    for path in paths:
        assert path.read_bytes().startswith(OPENINGS[path.suffix[1:]])


def test_a_png_is_on_white_and_an_svg_on_nothing(tmp_path: Path) -> None:
    tables = {"entropy": make_tables(2, 3)["entropy"]}
    save_figures(tables, tmp_path, ["svg", "png"])
    assert first_pixel((tmp_path / "entropy.png").read_bytes()) == b"\xff\xff\xff\xff"
    root = ElementTree.fromstring((tmp_path / "entropy.svg").read_text())
    assert not [part for part in root if part.get("fill") == "white"]


def test_an_unknown_format_is_an_error_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"'jpeg'\. Expected one of svg, png, pdf"):
        save_figures(make_tables(2, 3), tmp_path / "new", ["svg", "jpeg"])
    assert not (tmp_path / "new").exists()


def test_no_tables_give_no_figures(tmp_path: Path) -> None:
    assert save_figures({}, tmp_path) == []
