"""What every figure owes the report, and what it says when its tables are not there."""

import altair as alt
import pandas as pd
import pytest

from headscope.errors import StudyError
from headscope.registry import FIGURES
from headscope.report.figures.figure import Figure


@pytest.mark.parametrize("name", FIGURES.entries())
def test_a_figure_is_registered_under_its_name_and_explains_itself(name: str) -> None:
    figure = FIGURES.find(name).load()
    assert isinstance(figure, Figure)
    assert figure.name == name
    assert len(figure.caption) > 60
    assert figure.needs


@pytest.mark.parametrize("name", FIGURES.entries())
def test_a_figure_without_its_tables_says_what_to_run(name: str) -> None:
    figure = FIGURES.find(name).load()
    with pytest.raises(StudyError, match=f"needs the table '{figure.needs[0]}'"):
        figure.draw({figure.needs[0]: pd.DataFrame()})


def test_a_dot_stands_for_a_head_and_carries_its_name() -> None:
    rows = [
        (layer, head, target, 0.1 * layer, 0.0, 1.0)
        for layer in (1, 2, 3)
        for head in (1, 2)
        for target in ("previous", "self", "next")
    ]
    table = pd.DataFrame(rows, columns=["layer", "head", "target", "weight", "low", "high"])
    chart = FIGURES.find("position").load().draw({"position": table})
    assert isinstance(chart, alt.TopLevelMixin)
    (data,) = chart.to_dict()["datasets"].values()
    assert {row["name"] for row in data} == {"1-1", "1-2", "2-1", "2-2", "3-1", "3-2"}
