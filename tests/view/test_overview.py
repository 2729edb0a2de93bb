"""The picture of all heads: every head a cell, its colour, and which are named."""

import pandas as pd
import pytest

from headscope.data.table import Tables, join_kinds, split_kinds
from headscope.view.behaviour import find_kind
from headscope.view.card import cards_of_kind
from headscope.view.overview import ELSEWHERE, NOTHING, Cell, Overview, make_overview, paint
from headscope.view.presentation import list_specs
from headscope.view.specs import Look


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
    kinds = split_kinds(tables)
    cards = {kind: cards_of_kind(own, has_facts=False) for kind, own in kinds.items()}
    return make_overview(cards, kinds)


def cells_of(overview: Overview) -> dict[str, Cell]:
    return {cell.name: cell for grid in overview.grids for cell in grid.cells}


def all_shares(**heads: dict[str, float]) -> Tables:
    """Heads of one layer, from where their attention goes; the rest is for other words."""
    places = {
        "position": ("previous", "self", "next"),
        "special-tokens": ("cls", "sep", "first", "punctuation", "pronouns", "sink"),
    }
    rows: dict[str, list[dict[str, object]]] = {"position": [], "special-tokens": []}
    largest = []
    for number, shares in enumerate(heads.values(), start=1):
        place = {"layer": 1, "head": number}
        for table, targets in places.items():
            rows[table] += [place | {"target": t, "weight": shares.get(t, 0.0)} for t in targets]
        special = sum(shares.get(target, 0.0) for target in places["special-tokens"])
        rows["special-tokens"].append({**place, "target": "other", "weight": 1 - special})
        largest.append({**place, "weight": shares.get("largest", 0.1)})
    tables = {name: pd.DataFrame(own) for name, own in rows.items()}
    tables["special-tokens"]["source"] = "all"
    tables["max-weight"] = pd.DataFrame(largest).assign(flat_rows=0.0, flat_low=0.0, flat_high=0.0)
    return {name: t.assign(low=t["weight"], high=t["weight"]) for name, t in tables.items()}


LOOKS = {
    "a neighbour": {"previous": 0.3, "next": 0.3, "cls": 0.2},
    "itself": {"self": 0.6, "sep": 0.1},
    "the opening or first token": {"cls": 0.5, "sep": 0.15},
    "the closing token": {"sep": 0.5, "cls": 0.2},
    "special and punctuation": {"sep": 0.3, "cls": 0.25, "previous": 0.3},
    "periods and commas": {"punctuation": 0.6},
    "token classes of yours": {"pronouns": 0.6},
    "no token (learned sink)": {"sink": 0.7},
    "a few other words": {"cls": 0.2, "largest": 0.5},
    "many other words": {"cls": 0.2, "largest": 0.3},
}


def test_every_head_has_the_colour_of_where_most_of_its_attention_goes() -> None:
    overview = draw(all_shares(**{str(n): shares for n, shares in enumerate(LOOKS.values())}))
    (grid,) = overview.grids
    assert [cell.look.name for cell in grid.cells] == [*LOOKS]
    assert {line.kind.name: line.n_heads for line in overview.looks} == dict.fromkeys(LOOKS, 1)
    assert len({cell.look.colour for cell in grid.cells}) == len(LOOKS)


def test_a_colour_is_stronger_for_a_larger_share() -> None:
    shares = {str(share): {"sep": share, "cls": 0.05} for share in (0.51, 0.6, 0.9)}
    cells = cells_of(draw(all_shares(**shares)))
    assert [cell.strength for cell in cells.values()] == [3, 4, 4]
    closing = cells["1-1"].look
    for theme, is_darker in (("light", True), ("dark", False)):
        sums = [sum(bytes.fromhex(paint(closing, n, theme).ground[1:])) for n in (1, 2, 3, 4)]
        assert sums == sorted(sums, reverse=is_darker)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("strength", [1, 2, 3, 4])
def test_words_on_every_colour_can_be_read(theme: str, strength: int) -> None:
    def luminance(colour: str) -> float:
        parts = [part / 255 for part in bytes.fromhex(colour[1:])]
        parts = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), parts, strict=True))

    for look in list_specs(Look):
        painted = paint(look.kind, strength, theme)
        light, dark = sorted((luminance(painted.ground), float(painted.ink == "#fff")))[::-1]
        assert (light + 0.05) / (dark + 0.05) >= 4.5


def test_what_goes_mostly_to_what_was_not_measured_is_told_so() -> None:
    overview = draw(position(3, 5, {(1, 2, "previous"): 0.9, (3, 4, "previous"): 0.7}))
    cells = cells_of(overview)
    assert {name for name, cell in cells.items() if cell.look != ELSEWHERE} == {"1-2", "3-4"}
    first, rest = overview.looks
    assert (first.n_heads, rest.kind, rest.n_heads) == (2, ELSEWHERE, 13)
    assert [cell.name for cell, _ in first.strongest] == ["1-2", "3-4"]
    assert (first.kind.name, "", "1-2") in overview.strongest
    assert "looks at the previous token (90 %)" in cells["1-2"].says


def test_labels_are_what_heads_find_and_not_where_they_look() -> None:
    row = {"relation": "det", "layer": 1, "head": 2, "count": 90, "p_value": 0.001}
    row |= {"heldout_difference": 0.2, "heldout_accuracy": 0.8, "chosen_in": 8, "folds": 8}
    row |= {"direction": "dependent-to-head", "offset": 1, "baseline_accuracy": 0.5}
    row |= {"low": 0.7, "high": 0.9, "heldout_low": 0.7, "heldout_high": 0.9}
    found = {"dependency-best": pd.DataFrame([row])}
    overview = draw({**position(1, 3, {(1, 1, "previous"): 0.9}), **found})
    cells = cells_of(overview)
    assert [cell.short for cell in cells.values()] == ["", "det", ""]
    assert cells["1-2"].finds == find_kind("det")
    assert [(line.kind.name, line.n_heads) for line in overview.finds] == [
        ("a syntactic relation", 1),
        (NOTHING.name, 2),
    ]
    assert overview.finds[0].strongest == ((cells["1-2"], "det 80 %"),)


@pytest.mark.parametrize(("n_layers", "n_heads"), [(1, 1), (30, 9), (24, 16), (32, 32), (80, 64)])
def test_every_head_of_any_size_has_its_cell(n_layers: int, n_heads: int) -> None:
    overview = draw(position(n_layers, n_heads, {(1, 1, "previous"): 0.9}))
    (grid,) = overview.grids
    assert list(grid.rows) == list(range(1, n_layers + 1))
    assert [cell.name for cell in grid.rows[n_layers] if cell][-1] == f"{n_layers}-{n_heads}"
    assert len([*grid.cells]) == n_layers * n_heads
    assert (overview.n_layers, overview.n_heads) == (n_layers, n_heads)


def test_a_head_that_a_run_left_out_has_an_empty_cell() -> None:
    table = position(2, 3, {})["position"]
    table = table[(table["layer"] != 2) | (table["head"] == 3)]
    (grid,) = draw({"position": table}).grids
    assert [cell and cell.name for cell in grid.rows[2]] == [None, None, "2-3"]


def test_an_encoder_decoder_has_a_grid_for_each_attention() -> None:
    parts = {
        kind: position(2, 3, {(1, 1, "previous"): 0.9}) for kind in ("encoder", "decoder", "cross")
    }
    overview = draw(join_kinds(parts))
    assert [grid.title.split()[0] for grid in overview.grids] == ["encoder", "decoder", "cross"]
    assert overview.n_layers == 6
    assert {cell.attention for cell, _ in overview.looks[0].strongest} == {*parts}


def test_without_a_table_about_heads_there_is_no_picture() -> None:
    assert draw({"lengths": pd.DataFrame({"words": [1.0]})}).grids == ()
    assert draw({}).looks == ()
