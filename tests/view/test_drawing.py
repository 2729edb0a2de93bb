"""Drawings of attention: valid, safe, whole in themselves, and true to the weights."""

import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from headscope.data.head_view import HeadView
from headscope.errors import OutputError
from headscope.view.drawing import RED, draw_head, draw_heads, find_words
from headscope.view.svg import Drawing

SVG = "{http://www.w3.org/2000/svg}"


def make_view(
    units: tuple[str, ...], weights: np.ndarray | None = None, marked: tuple = (), head: int = 9
) -> HeadView:
    if weights is None:
        weights = np.random.default_rng(0).dirichlet(np.ones(len(units)), len(units))
    is_special = tuple(unit in ("[CLS]", "[SEP]") for unit in units)
    return HeadView("a:1", 7, head, units, is_special, weights, marked)


def parse(drawing: Drawing) -> ElementTree.Element:
    return ElementTree.fromstring(drawing.svg)


def texts(drawing: Drawing) -> list[str]:
    """The words that can be seen, in order."""
    found = parse(drawing).iter(f"{SVG}text")
    return [(text.text or "") + "".join(part.tail or "" for part in text) for text in found]


def lines(drawing: Drawing) -> list[tuple[str, float, int]]:
    """The colour, the darkness and the number of lines of each path that shows weights."""
    groups = [g for g in parse(drawing).iter(f"{SVG}g") if g.get("class") == "hs-lines"]
    return [
        (path.get("stroke", ""), float(path.get("stroke-opacity", 0)), path.get("d", "").count("M"))
        for group in groups
        for path in group
    ]


def test_a_token_stands_left_and_right_under_the_heads_name() -> None:
    shown = texts(draw_head(make_view(("[CLS]", "cats", "purr", "[SEP]"))))
    assert "Head 8-10" in shown
    for unit in ("[CLS]", "cats", "purr", "[SEP]"):
        assert shown.count(unit) == 2


def test_a_line_is_as_dark_as_its_weight_and_faint_ones_are_not_drawn() -> None:
    weights = np.array([[0.75, 0.25], [0.995, 0.0049]])
    drawn = lines(draw_head(make_view(("a", "b"), weights)))
    assert drawn == [
        ("currentColor", 0.25, 1),
        ("currentColor", 0.75, 1),
        ("currentColor", 1.0, 1),
    ]
    least = lines(draw_head(make_view(("a", "b"), np.full((2, 2), 0.005))))
    assert [(shade, count) for _, shade, count in least] == [(0.01, 2), (0.01, 2)]


def test_a_line_leads_from_its_token_to_its_token() -> None:
    weights = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    root = parse(draw_head(make_view(("a", "b", "c"), weights)))
    heights = np.array(sorted({float(t.get("y", 0)) for t in root.iter(f"{SVG}text")})[-3:])
    ends = [
        [float(number) for number in re.findall(r"[\d.]+", path.get("d", ""))]
        for path in root.iter(f"{SVG}path")
    ]

    def unit_at(y: float) -> int:
        return int(np.abs(heights - y).argmin())

    assert [(unit_at(y1), unit_at(y2)) for _, y1, _, y2 in ends] == [(0, 2), (1, 0), (2, 1)]
    assert all(x1 < x2 for x1, _, x2, _ in ends)


def test_attention_from_and_to_red_words_is_red() -> None:
    weights = np.full((3, 3), 1 / 3)
    drawn = lines(draw_head(make_view(("the", "cat", "sat"), weights), red=["CAT"]))
    assert sum(count for colour, _, count in drawn if colour == RED) == 5
    assert sum(count for colour, _, count in drawn if colour != RED) == 4


def test_gold_arcs_are_red_and_dotted_where_the_head_looks_elsewhere() -> None:
    weights = np.array([[0.2, 0.8], [0.001, 0.999]])
    drawing = draw_head(make_view(("the", "cat"), weights, marked=((0, 1), (1, 0))))
    assert [(shade, n) for colour, shade, n in lines(drawing) if colour == RED] == [(0.8, 1)]
    dotted = [path for path in parse(drawing).iter(f"{SVG}path") if path.get("stroke-dasharray")]
    assert [path.get("d", "").count("M") for path in dotted] == [1]


def test_special_tokens_can_be_hidden_and_the_rest_stays_as_it_is() -> None:
    weights = np.array([[1.0, 0, 0, 0], [0.5, 0.1, 0.4, 0], [0.9, 0, 0, 0.1], [0, 0, 0, 1.0]])
    view = make_view(("[CLS]", "the", "cat", "[SEP]"), weights, marked=((1, 2), (2, 3)))
    drawing = draw_head(view, hide_special=True)
    assert not {"[CLS]", "[SEP]"} & set(texts(drawing))
    assert lines(drawing) == [("currentColor", 0.1, 1), (RED, 0.4, 1)]
    nothing = draw_head(make_view(("[CLS]", "[SEP]")), hide_special=True)
    assert lines(nothing) == []


HOSTILE = ("<script>alert(1)</script>", "a&b", '"><svg onload=x>', "\x00\x1b", "\ud800", "\ufffe")


@pytest.mark.parametrize("bare", [False, True])
def test_hostile_tokens_stay_text(bare: bool, tmp_path: Path) -> None:
    view = make_view(HOSTILE)
    drawing = draw_heads([view, view], bare=bare, title="<b>", red=["<script>alert(1)</script>"])
    root = parse(drawing)
    tags = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert tags <= {"svg", "title", "desc", "style", "g", "text", "path", "rect"}
    page = drawing.save(tmp_path / "a.html").read_text()
    assert "<script" not in page
    assert "<b>" not in page


@pytest.mark.parametrize(
    "units",
    [
        ("one",),
        ("שלום", "עולם", "مرحبا"),
        ("🙂", "👩‍👩‍👧", "漢字"),
        ("", " ", "\n"),
        ("x" * 500, "y"),
        tuple(f"token{n}" for n in range(128)),
    ],
    ids=["one", "right to left", "emoji", "blank", "long", "many"],
)
def test_any_tokens_can_be_drawn_in_every_form(units: tuple[str, ...], tmp_path: Path) -> None:
    few = np.full(len(units), 0.05)  # as heads do, each token attends to few: pictures are quick
    weights = np.random.default_rng(0).dirichlet(few, len(units))
    drawing = draw_head(make_view(units, weights))
    root = parse(drawing)
    assert (root.get("width"), root.get("height")) == (str(drawing.width), str(drawing.height))
    assert drawing.width < 800
    assert drawing.height < 1600
    assert "" not in texts(drawing)[1:]
    assert drawing.save(tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert drawing.save(tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")
    assert drawing.save(tmp_path / "new" / "a.SVG").read_text() == drawing.svg
    assert drawing.svg in drawing.save(tmp_path / "a.html").read_text()


def test_rows_do_not_overlap_however_many_there_are() -> None:
    for n_units in (3, 60, 200):
        root = parse(draw_head(make_view(tuple(f"u{n}" for n in range(n_units)))))
        (group,) = [g for g in root.iter(f"{SVG}g") if g.get("font-size")]
        ys = sorted({float(text.get("y", 0)) for text in group.iter(f"{SVG}text")})
        assert len(ys) == n_units
        assert min(np.diff(ys)) > float(group.get("font-size", 0))


def test_a_notebook_shows_the_picture_and_a_terminal_one_line() -> None:
    drawing = draw_head(make_view(("a", "b")))
    assert drawing._repr_html_() == drawing._repr_svg_() == drawing.svg
    assert "<svg" not in repr(drawing)


def test_a_long_title_has_room() -> None:
    title = "a-model-with-quite-a-long-name, head 12-12"
    assert draw_head(make_view(("a", "b")), title=title).width > 8 * len(title)
    assert draw_heads([make_view(("a",))], title=title, bare=True).width > 8 * len(title)


def test_a_drawing_fetches_nothing_and_runs_nothing() -> None:
    drawing = draw_heads([make_view(("a", "b"))])
    bare = drawing.svg.replace("http://www.w3.org/2000/svg", "")
    for word in ("http", "<script", "href", "url(", "@import", " id="):
        assert word not in bare


def test_a_grid_has_every_head_and_its_columns() -> None:
    views = [make_view(("a", "b"), head=head) for head in range(5)]
    wide, narrow = draw_heads(views, columns=5), draw_heads(views, columns=2)
    for drawing in (wide, narrow):
        assert [t for t in texts(drawing) if t.startswith("Head")] == [
            f"Head 8-{head + 1}" for head in range(5)
        ]
    assert wide.width > 2 * narrow.width
    assert narrow.height > 2 * wide.height


def test_bare_cells_leave_the_tokens_out_and_stay_small() -> None:
    many = tuple(f"token{n}" for n in range(100))
    drawing = draw_heads([make_view(many, head=head) for head in range(12)], 12, bare=True)
    assert not any(text.startswith("token") for text in texts(drawing))
    assert drawing.width < 1000
    assert len(drawing.svg) < 12 * 15_000


def test_screen_readers_are_told_what_each_token_attends_to() -> None:
    weights = np.array([[0.1, 0.9], [0.8, 0.2]])
    drawing = draw_head(make_view(("cats", "purr"), weights), title="demo, head 8-10")
    root = parse(drawing)
    assert root.findtext(f"{SVG}title") == "demo, head 8-10"
    assert "cats → purr 90%; purr → cats 80%" in (root.findtext(f"{SVG}desc") or "")


def test_words_in_pieces_are_found_whole() -> None:
    units = ("[CLS]", "un", "seen", "cat", "un", "cat")
    assert find_words(units, ["Unseen"]) == {1, 2}
    assert find_words(units, ["cat"]) == {3, 5}
    assert find_words(units, ["uns", ""]) == frozenset()


def test_an_unknown_ending_is_refused(tmp_path: Path) -> None:
    drawing = draw_head(make_view(("a",)))
    with pytest.raises(OutputError, match=r"Did you mean '.svg'"):
        drawing.save(tmp_path / "a.svgg")
    with pytest.raises(OutputError, match=r"Expected .svg, .html, .png, .pdf"):
        drawing.save(tmp_path / "a")
    assert not list(tmp_path.iterdir())
