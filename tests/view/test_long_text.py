"""Long texts: as running text with arcs, or as a matrix; on one page."""

import re
from dataclasses import replace

import numpy as np
import pytest

import headscope
from headscope.data.head_view import HeadView
from headscope.errors import StudyError
from headscope.view.drawing_matrix import draw_matrices, draw_matrix
from headscope.view.drawing_page import draw_page

TEXT = "the keeper lit her lamp and the sailors saw it"


def view(n_units: int) -> HeadView:
    weights = np.random.default_rng(0).dirichlet(np.full(n_units, 0.05), n_units)
    units = tuple(f"word{n}" for n in range(n_units))
    return HeadView("long", 4, 4, units, (False,) * n_units, weights, ((1, 0),))


def test_a_text_of_332_words_is_one_page_with_every_word() -> None:
    drawn = draw_page(view(332), strongest=40)
    assert drawn.width < 1000
    assert drawn.height < 1300, "the shape of a page"
    assert len(re.findall(r">word\d+</text>", drawn.svg)) == 332
    assert drawn.svg.count("<circle") == 40


def test_arcs_are_the_strongest_weights_and_marked_ones_are_red() -> None:
    small = replace(view(5), weights=np.diag([0.9] * 4, -1) + 0.001)
    drawn = draw_page(small, strongest=4)
    assert drawn.svg.count("<circle") == 4
    assert drawn.svg.count('stroke="#d92b2b"') == 1


def test_words_in_other_lines_are_named_and_no_arc_runs_through_words() -> None:
    weights = np.zeros((300, 300))
    weights[5, 7] = weights[4, 250] = weights[5, 290] = weights[250, 3] = 0.9
    drawn = draw_page(replace(view(300), weights=weights, marked=((250, 3),)), strongest=4)
    assert len(re.findall(r'<path d="[^"]*"', drawn.svg)) == 1
    assert drawn.svg.count("<circle") == 4
    names = re.findall(r'<text x="([^"]*)" y="([^"]*)"( fill="#d92b2b")?>→ (\w+)<', drawn.svg)
    assert [(name, bool(red)) for *_, red, name in names] == [
        ("word250", False),
        ("word290", False),
        ("word3", True),
    ]
    assert names[0][1] != names[1][1], "names that would touch stand above each other"


@pytest.mark.parametrize("n_units", [5, 332])
def test_a_matrix_has_a_cell_for_each_weight_and_stays_on_a_page(n_units: int) -> None:
    shown = view(n_units)
    drawn = draw_matrix(shown)
    cells = sum(
        path.count("M") for path in re.findall(r'<path d="([^"]*)" fill-opacity', drawn.svg)
    )
    assert cells == (shown.weights >= 0.005).sum()
    assert max(drawn.width, drawn.height) < 1100
    assert 'stroke="#d92b2b"' in drawn.svg


def test_a_layer_over_332_words_is_one_page_of_matrices() -> None:
    heads = [replace(view(332), head=head) for head in range(12)]
    drawn = draw_matrices(heads, 4, red=["word7"], title="Layer 5")
    assert drawn.width < 1700
    assert drawn.height < 1300
    assert [f">5-{head}<" in drawn.svg for head in range(1, 13)] == [True] * 12
    assert drawn.svg.count(">word0<") == drawn.svg.count(">word7<") == 24, "each row and column"
    assert len(drawn.svg) < 2_000_000


def test_a_long_text_has_matrices_for_a_layer_and_all_heads_can_be_matrices() -> None:
    layer = headscope.show("demo", " ".join([TEXT] * 12), layer=3)
    assert "Rows attend to columns. One word in" in layer.svg
    everything = headscope.show("demo", TEXT, view="matrix")
    assert everything.svg.count("<rect") == 72
    assert ">keeper<" not in everything.svg, "too small for words"


def test_a_span_and_the_strongest_lines_are_kept_alone() -> None:
    part = view(20).between(0, 4)
    assert part.units == tuple(f"word{n}" for n in range(5))
    assert part.marked == ((1, 0),)
    assert view(20).between(1, 4).marked == ()
    assert (view(20).strongest(7).weights > 0).sum() == 7


def test_show_takes_the_options_of_long_texts() -> None:
    drawn = headscope.show("demo", TEXT, head="1-3", words=True, span="2-4", size="10x6cm")
    assert "keeper" in drawn.svg
    assert "sailors" not in drawn.svg
    assert drawn.width == round(10 * 96 / 2.54)
    matrix = headscope.show("demo", TEXT, head="1-3", view="matrix")
    assert "Rows attend to columns." in matrix.svg
    with pytest.raises(StudyError, match="draws one head, and 72 were asked for"):
        headscope.show("demo", TEXT, view="text")
    with pytest.raises(StudyError, match="Span '9' cannot be drawn"):
        headscope.show("demo", TEXT, head="1-3", span="9")


def test_the_strongest_weights_are_chosen_after_special_tokens_are_left_out() -> None:
    both = {"head": "1-3", "strongest": 5, "hide_special": True}
    matrix = headscope.show("demo", TEXT, view="matrix", red=["lamp"], **both)
    assert len(re.findall(r"M[\d.]+ [\d.]+h", matrix.svg)) == 5
    assert matrix.svg.count(' fill="#d92b2b">lamp<') == 2  # its row and its column
    lines = headscope.show("demo", TEXT, view="lines", **both)
    assert len(re.findall(r"M[\d.]+ [\d.]+L", lines.svg)) == 5


def test_later_pieces_of_a_word_are_marked() -> None:
    plain = headscope.show("demo", "unforgettable sailors", head="1-3")
    marked = headscope.show("demo", "unforgettable sailors", head="1-3", pieces="marked")
    assert "##" not in plain.svg
    assert ">##" in marked.svg
