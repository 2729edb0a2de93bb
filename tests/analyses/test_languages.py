"""The head that serves most treebanks, and the heat map of relations and treebanks."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

from headscope.analyses.dependency.tables import COLUMNS, find_shared_heads
from headscope.view.figure import list_figures
from headscope.view.presentation import list_specs
from headscope.view.specs import PageTable
from tests.references.dependency import serving_head

BANKS = ["en", "de", "fi"]
DIRECTIONS = ["dependent-to-head", "head-to-dependent"]


def make_tables(seed: int) -> dict[str, pd.DataFrame]:
    """Accuracies of 3 x 5 heads on two relations in three treebanks, one of them in one alone."""
    draw = np.random.default_rng(seed)
    cells = product(BANKS, ["det", "obj"], DIRECTIONS, range(1, 4), range(1, 6))
    rows = [(*cell, a := draw.random(), a - 0.1, a + 0.1) for cell in cells]
    names = ["treebank", "relation", "direction", "layer", "head", "accuracy", "low", "high"]
    every = pd.DataFrame(rows, columns=names)
    alone = every[every["treebank"] == "en"].replace({"relation": {"obj": "clf"}})
    every = pd.concat([every, alone[alone["relation"] == "clf"]], ignore_index=True)
    best = every.loc[every.groupby(["treebank", "relation"], sort=False)["accuracy"].idxmax()]
    best = best.assign(
        count=100,
        baseline_accuracy=draw.uniform(0.4, 0.9, len(best)),
        heldout_accuracy=best["accuracy"] - 0.05,
        heldout_low=best["low"],
        heldout_high=best["high"],
    )
    return {"dependency": every, "dependency-best": best}


@pytest.mark.parametrize("seed", range(4))
def test_the_serving_head_equals_the_definition(seed: int) -> None:
    tables = make_tables(seed)
    found = find_shared_heads(tables["dependency"], tables["dependency-best"])
    assert list(found.columns) == list(COLUMNS)
    assert list(found["relation"]) == ["det", "obj"]  # the other is in one treebank alone
    for row in found.itertuples():
        every, best = (t[t["relation"] == row.relation] for t in tables.values())
        accuracies: dict[tuple[int, int, str], dict[str, tuple[float, float]]] = {}
        for cell in every.itertuples():
            head = (cell.layer, cell.head, cell.direction)
            accuracies.setdefault(head, {})[cell.treebank] = (cell.accuracy, cell.low)
        baselines = best.set_index("treebank")["baseline_accuracy"].to_dict()
        head, serves, transfer = serving_head(accuracies, baselines)
        assert ((row.layer, row.head, row.direction), row.serves) == (head, serves)
        assert row.transfer_accuracy == pytest.approx(transfer)
        assert row.accuracy == pytest.approx(np.mean([a for a, _ in accuracies[head].values()]))


def test_the_heat_map_has_a_cell_for_each_relation_and_treebank() -> None:
    tables = make_tables(0)
    chart = list_figures()["dependency-treebanks"].draw(tables).to_dict()
    (values,) = chart["datasets"].values()
    assert len(values) == 7
    assert all("[" in value["written"] for value in values)
    one = {**tables, "dependency-best": tables["dependency-best"].drop(columns="treebank")}
    assert list_figures()["dependency-treebanks"].missing(one)


def test_serving_heads_are_listed_where_there_are_several_treebanks() -> None:
    tables = make_tables(1)
    shared = find_shared_heads(tables["dependency"], tables["dependency-best"])
    (page,) = (page for page in list_specs(PageTable) if page.needs == "dependency-languages")
    (table,) = page.make({"dependency-languages": shared})
    assert len(table.rows) == 2
    assert page.make({}) == []
