"""What every figure owes the report, and what it says when its tables are not there."""

import json
from functools import cache
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from headscope.errors import StudyError
from headscope.view.figure import list_figures, render
from headscope.view.presentation import list_specs
from headscope.view.specs import Figure
from tests.report.figures.made import make_tables

FIGURES = list_figures()
NAMES = list(FIGURES)
# Their marks are probes, layers, or the matched heads of two models, which have no cards.
WITHOUT_HEADS = {
    *("probes", "probe-curve", "probe-parts", "probe-structure"),
    *("matches-by-layer", "matches-of-layers"),
}
OF_BEST_HEADS = {"dependency-best", "dependency-treebanks", "coreference-best"}
HOSTILE = "</script><script>alert('1')</script>\x00\"&${datum.layer}\\"


def data_of(chart: Any) -> list[dict[str, Any]]:
    """All data that a chart carries, wherever it stands."""
    found: list[dict[str, Any]] = []

    def visit(part: object) -> None:
        if isinstance(part, dict):
            if "values" in part and "layer" in str(part["values"][:1]):
                found.extend(part["values"])
            for inner in part.values():
                visit(inner)
        elif isinstance(part, list):
            for inner in part:
                visit(inner)

    spec = chart.to_dict()
    visit(spec)
    for rows in spec.get("datasets", {}).values():
        found += [row for row in rows if isinstance(row, dict)]
    return found


made_once = cache(make_tables)


def tables_for(name: str, *size: int, label: str = "mine", **how: Any) -> dict[str, pd.DataFrame]:
    """All tables, of two treebanks for the figure that compares them; not to be changed."""
    treebanks = (label, "other") if name == "dependency-treebanks" else ()
    return made_once(*size, label=label, treebanks=treebanks, **how)


@cache
def draw(name: str) -> Any:
    """The figure of a model of 3 x 5 heads."""
    return FIGURES[name].draw(tables_for(name, 3, 5))


def test_every_figure_of_an_analysis_has_a_name_of_its_own() -> None:
    assert [figure.name for figure in list_specs(Figure)] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_explains_itself(name: str) -> None:
    figure = FIGURES[name]
    assert figure.name == name
    assert len(figure.caption) > 60
    assert figure.needs


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_without_its_tables_says_what_to_run(name: str) -> None:
    figure = FIGURES[name]
    with pytest.raises(StudyError, match=f"needs the table '{figure.needs[0]}'"):
        figure.draw({figure.needs[0]: pd.DataFrame()})


@pytest.mark.parametrize("name", NAMES)
def test_marks_of_heads_carry_layer_and_head_as_whole_numbers(name: str) -> None:
    rows = data_of(draw(name))
    marked = {(row["layer"], row["head"]) for row in rows if "head" in row}
    if name in WITHOUT_HEADS:
        assert not marked
        return
    assert marked
    assert marked <= {(layer, head) for layer in (1, 2, 3) for head in (1, 2, 3, 4, 5)}
    assert all(type(number) is int for pair in marked for number in pair)
    if name not in OF_BEST_HEADS:
        assert len(marked) == 15


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_leaves_its_tables_alone(name: str) -> None:
    tables = tables_for(name, 3, 5)
    before = {needed: tables[needed].copy() for needed in FIGURES[name].needs}
    FIGURES[name].draw(tables)
    for needed, table in before.items():
        pd.testing.assert_frame_equal(tables[needed], table)


@pytest.mark.parametrize("name", NAMES)
def test_hostile_labels_are_text_in_a_well_formed_picture(name: str) -> None:
    chart = FIGURES[name].draw(tables_for(name, 2, 3, label=HOSTILE))
    root = ElementTree.fromstring(render(chart, "svg").decode())
    assert not [part for part in root.iter() if part.tag.endswith("script")]
    assert "\x00" not in json.dumps(chart.to_dict(), ensure_ascii=False)


def test_a_hostile_label_is_shown_as_it_is() -> None:
    label = "<b>'1'\x00\"&${datum.layer}\\"
    chart = FIGURES["special-tokens"].draw(make_tables(2, 3, label=label))
    root = ElementTree.fromstring(render(chart, "svg").decode())
    shown = {text.text for text in root.iter() if text.tag.endswith("text")}
    assert label.replace("\x00", "\ufffd") in shown


@pytest.mark.parametrize("name", ["special-tokens", "dependency-best", "dependency-treebanks"])
def test_labels_that_are_names_of_javascript_change_no_mark(name: str) -> None:
    def count_marks(label: str) -> int:
        chart = FIGURES[name].draw(tables_for(name, 2, 3, label=label))
        return sum(1 for _ in ElementTree.fromstring(render(chart, "svg").decode()).iter())

    expected = count_marks("plain")
    for label in ("__proto__", "constructor", "toString"):
        assert count_marks(label) == expected, label


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [(1, 4), (24, 16)])
def test_a_figure_draws_models_small_and_large(name: str, size: tuple[int, int]) -> None:
    content = json.dumps(FIGURES[name].draw(tables_for(name, *size)).to_dict())
    assert len(content) < 1_000_000


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_draws_estimates_without_intervals(name: str) -> None:
    chart = FIGURES[name].draw(tables_for(name, 2, 3, has_intervals=False))
    assert "NaN" not in json.dumps(chart.to_dict())
    picture = render(chart, "svg").decode()
    assert "NaN" not in picture
    assert "95 % interval: 0" not in picture  # how a number that is not there would be shown


@pytest.mark.parametrize("name", ["special-tokens-from-sep", "heads-sep", "heads-next"])
def test_a_decoder_has_no_figures_of_what_it_cannot_do(name: str) -> None:
    tables = make_tables(2, 3)
    special, position = tables["special-tokens"], tables["position"]
    special.loc[special["source"] == "sep", "weight"] = np.nan
    special.loc[special["target"] == "sep", "weight"] = 0.0
    position.loc[position["target"] == "next", "weight"] = 0.0
    figure = FIGURES[name]
    assert figure.missing(tables) == [figure.needs[0]]
    with pytest.raises(StudyError, match=r"empty.*attention (from|to) (closing|next) tokens"):
        figure.draw(tables)


@pytest.mark.parametrize("name", NAMES)
def test_text_and_background_are_left_to_whoever_shows_the_figure(name: str) -> None:
    spec = draw(name).to_dict()
    assert spec["config"]["background"] == "transparent"
    content = json.dumps(spec).lower()
    assert not [colour for colour in ('"black"', '"white"', "#000", "#fff") if colour in content]
