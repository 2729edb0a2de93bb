"""The picture of all heads: every head a cell, its colour, and which are named."""

import pandas as pd
import pytest

from headscope.data.table import Tables, join_kinds, split_kinds
from headscope.view.behaviour import find_kind
from headscope.view.card import Cell, Overview, cards_of_kind, make_overview
from headscope.view.specs import OTHER


def position(n_layers: int, n_heads: int, planted: dict[tuple[int, int, str], float]) -> dict:
    rows = [
        (layer, head, target, planted.get((layer, head, target), 0.1))
        for layer in range(1, n_layers + 1)
        for head in range(1, n_heads + 1)
        for target in ("previous", "next")
    ]
    table = pd.DataFrame(rows, columns=["layer", "head", "target", "weight"])
    return {"position": table.assign(low=table["weight"], high=table["weight"])}


def draw(tables: Tables) -> Overview:
    return make_overview({kind: cards_of_kind(own) for kind, own in split_kinds(tables).items()})


def cells_of(overview: Overview) -> dict[str, Cell]:
    return {
        cell.name: cell
        for grid in overview.grids
        for row in grid.rows.values()
        for cell in row
        if cell
    }


def test_cells_have_the_colours_of_the_map_and_the_strongest_are_marked() -> None:
    planted = {(1, 2, "previous"): 0.9, (3, 4, "previous"): 0.7, (2, 1, "next"): 0.6}
    overview = draw(position(3, 5, planted))
    cells = cells_of(overview)
    assert len(cells) == 15
    assert {name for name, cell in cells.items() if cell.kind != OTHER} == {"1-2", "3-4", "2-1"}
    assert cells["1-2"].kind == find_kind("previous token")
    assert (cells["1-2"].short, cells["2-1"].short, cells["1-1"].short) == ("prev", "next", "")
    assert [name for name, cell in cells.items() if cell.is_strongest] == ["1-2", "2-1"]
    assert cells["1-2"].says == "looks at the previous token (90 %)"
    first, rest = overview.legend
    assert (first.n_heads, rest.kind, rest.n_heads) == (3, OTHER, 12)
    assert [cell.name for cell in first.strongest] == ["1-2", "2-1"]


@pytest.mark.parametrize(("n_layers", "n_heads"), [(1, 1), (30, 9), (24, 16), (32, 32), (80, 64)])
def test_every_head_of_any_size_has_its_cell(n_layers: int, n_heads: int) -> None:
    overview = draw(position(n_layers, n_heads, {(1, 1, "previous"): 0.9}))
    (grid,) = overview.grids
    assert list(grid.rows) == list(range(1, n_layers + 1))
    assert [cell.name for cell in grid.rows[n_layers] if cell][-1] == f"{n_layers}-{n_heads}"
    assert sum(cell is not None for row in grid.rows.values() for cell in row) == n_layers * n_heads
    assert (overview.n_layers, overview.n_heads) == (n_layers, n_heads)


def test_a_head_that_a_run_left_out_has_an_empty_cell() -> None:
    table = position(2, 3, {})["position"]
    table = table[(table["layer"] != 2) | (table["head"] == 3)]
    (grid,) = draw({"position": table}).grids
    assert [cell and cell.name for cell in grid.rows[2]] == [None, None, "2-3"]


def test_heads_that_are_not_on_the_map_are_labelled_too() -> None:
    tables = position(1, 2, {(1, 1, "previous"): 0.9, (1, 2, "next"): 0.9})
    some = pd.DataFrame([{"layer": 1, "head": 1, "behaviours": "previous token"}])
    cells = cells_of(draw({**tables, "layout": some.assign(cluster=1)}))
    assert [cell.label for cell in cells.values()] == ["previous token", "next token"]


def test_an_encoder_decoder_has_a_grid_for_each_attention() -> None:
    parts = {
        kind: position(2, 3, {(1, 1, "previous"): 0.9}) for kind in ("encoder", "decoder", "cross")
    }
    overview = draw(join_kinds(parts))
    assert [grid.title.split()[0] for grid in overview.grids] == ["encoder", "decoder", "cross"]
    assert overview.n_layers == 6
    assert {cell.attention for cell in overview.legend[0].strongest} == {*parts}


def test_without_a_table_about_heads_there_is_no_picture() -> None:
    assert draw({"lengths": pd.DataFrame({"words": [1.0]})}).grids == ()
    assert draw({}).legend == ()
