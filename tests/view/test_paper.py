"""Figures for papers: of the size that was asked for, in a font that is there."""

import re
from pathlib import Path

import pytest

from headscope.errors import StudyError
from headscope.view.paper import PaperStyle, fit_figure, read_length, style_drawing
from headscope.view.svg import Drawing
from tests.report.made import planted_run

CM = 96 / 2.54


def size_of(svg: str) -> tuple[float, float]:
    width, height = re.findall(r' (?:width|height)="([\d.]+)"', svg)[:2]
    return float(width), float(height)


@pytest.mark.parametrize("value", ["8", "8cm", 300, 283.46])
def test_lengths_of_a_picture_are_read(value: float | str) -> None:
    assert read_length(value) is not None


@pytest.mark.parametrize(
    "value", ["0cm", "9" * 400 + "cm", "9m", "nan", "-3cm", float("inf"), float("nan"), -1, 30_000]
)
def test_lengths_that_no_picture_has_are_refused(value: float | str) -> None:
    with pytest.raises(StudyError, match=r"Length .{1,70} cannot be used\. Expected a number"):
        read_length(value)


@pytest.mark.parametrize("name", ["position", "dependency-best", "heads-entropy"])
@pytest.mark.parametrize(("width", "height"), [("16cm", "9cm"), ("8cm", "5cm")])
def test_a_figure_with_all_its_panels_has_the_size_that_was_asked_for(
    name: str, width: str, height: str
) -> None:
    drawn = planted_run().figure(name, width=width, height=height)
    wanted = read_length(width), read_length(height)
    assert size_of(drawn.svg) == pytest.approx(wanted, abs=0.1)


def test_the_panels_fill_a_wider_picture() -> None:
    own = fit_figure(planted_run().figures["position"], PaperStyle(), "position")
    wide = planted_run().figure("position", width=2 * own.width, height=own.height)
    box = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', wide.svg)
    assert box
    assert float(box[1]) == pytest.approx(2 * own.width, rel=0.03), "drawn wider, not blown up"


@pytest.mark.parametrize("name", ["position", "special-tokens"])
def test_panels_stand_below_each_other_before_words_become_too_small(name: str) -> None:
    small = planted_run().figure(name, width="8cm", height="6cm")
    box = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', small.svg)
    assert box
    assert 8 * CM / float(box[1]) >= 0.599, "words of 8 points are 5 points high or more"


def test_font_palette_and_background_are_in_the_file(tmp_path: Path) -> None:
    font = "serif"
    drawn = planted_run().figure(
        "position", font=font, palette="#112233,#445566,#778899", background="#ffeedd"
    )
    for part in (font, "#112233", "#445566", "#ffeedd"):
        assert part in drawn.svg
    assert drawn.save(tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize(
    ("style", "said"),
    [
        ({"font": "No Such Font"}, "is not installed"),
        ({"palette": "nosuch"}, "No palette 'nosuch'"),
        ({"background": "white; x"}, "cannot be read"),
        ({"width": "8 feet"}, "Length '8 feet' cannot be used"),
    ],
)
def test_what_cannot_be_used_is_refused(style: dict[str, str], said: str) -> None:
    with pytest.raises(StudyError, match=re.escape(said)):
        planted_run().figure("position", **style)


def test_a_refused_font_is_told_with_those_that_are_installed() -> None:
    with pytest.raises(StudyError, match="sans-serif, serif, monospace"):
        PaperStyle(font="No Such Font")


def test_a_drawing_keeps_its_shape_in_a_frame_of_the_size() -> None:
    drawing = Drawing(
        '<svg xmlns="" width="100" height="50" font-family="Arial"><g/></svg>', 100, 50
    )
    styled = style_drawing(drawing, PaperStyle(10 * CM, None, background="white"))
    assert size_of(styled.svg) == pytest.approx((10 * CM, 5 * CM), abs=0.1)
    assert 'viewBox="0 0 100 50"' in styled.svg
    assert 'fill="white"' in styled.svg
