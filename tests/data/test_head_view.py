"""A view is kept small and read back as it was."""

import numpy as np
import pytest

from headscope.data.head_view import HeadView


def view(weights: np.ndarray) -> HeadView:
    units = tuple(f"unit{n}" for n in range(len(weights)))
    return HeadView("a:1", 2, 4, units, (True, *[False] * (len(units) - 1)), weights, ((1, 2),))


def test_a_view_survives_json_to_a_thousandth_without_faint_weights() -> None:
    weights = np.array([[0.5, 0.4987, 0.0013], [0.2, 0.2, 0.6], [1.0, 0.0, 0.0]])
    given = view(weights)
    back = HeadView.from_json(given.to_json())
    assert (back.example, back.layer, back.head) == ("a:1", 2, 4)
    assert (back.units, back.is_special, back.marked) == (
        given.units,
        given.is_special,
        given.marked,
    )
    np.testing.assert_allclose(back.weights, weights, atol=0.0014)
    assert back.weights[0, 2] == 0


def cross_view(n_units: int, n_keys: int) -> HeadView:
    weights = np.arange(n_units * n_keys, dtype=float).reshape(n_units, n_keys) / 1000
    rows, keys = (
        [f"{side}{n}" for n in range(size)] for side, size in (("r", n_units), ("k", n_keys))
    )
    special = (False,) * n_units, (*(False,) * (n_keys - 1), True)
    return HeadView(
        "a", 1, 0, tuple(rows), special[0], weights, ((2, 9),), tuple(keys), special[1], "cross"
    )


def test_cross_attention_survives_json_and_an_excerpt_with_both_its_texts() -> None:
    given = cross_view(5, 40)
    short = given.excerpt(6)
    assert short.units == given.units
    assert short.key_units == ("…", "k7", "k8", "k9", "k10", "k11", "…", "k39")
    ((start, end),) = short.marked
    assert short.weights[start, end] == given.weights[2, 9]
    back = HeadView.from_json(short.to_json())
    assert (back.kind, back.key_units, back.is_special_key) == (
        "cross",
        short.key_units,
        short.is_special_key,
    )
    np.testing.assert_allclose(back.weights, short.weights, atol=0.005)


def test_a_view_must_be_square_and_mark_what_it_has() -> None:
    with pytest.raises(ValueError, match="needs 1 rows"):
        HeadView("a", 0, 0, ("x",), (False,), np.zeros((2, 1)))
    with pytest.raises(ValueError, match="outside"):
        HeadView("a", 0, 0, ("x",), (False,), np.zeros((1, 1)), ((0, 1),))


def long_view(n_units: int, marked: tuple[tuple[int, int], ...]) -> HeadView:
    weights = np.arange(n_units**2, dtype=float).reshape(n_units, n_units)
    is_special = tuple(unit in (0, n_units - 1) for unit in range(n_units))
    units = tuple(f"unit{n}" for n in range(n_units))
    return HeadView("a", 0, 0, units, is_special, weights, marked)


def test_an_excerpt_keeps_special_tokens_marked_pairs_and_their_neighbours() -> None:
    short = long_view(50, ((20, 30),)).excerpt(8)
    expected = ["unit0", "…", "unit19", "unit20", "unit21", "…", "unit29", "unit30", "unit31"]
    assert list(short.units) == [*expected, "…", "unit49"]
    ((start, end),) = short.marked
    assert (short.units[start], short.units[end]) == ("unit20", "unit30")
    assert short.weights[start, end] == 20 * 50 + 30
    assert short.weights[1].sum() == 0, "a gap attends to nothing"
    assert short.is_special[0]
    assert short.is_special[-1]


def test_an_excerpt_without_marks_is_the_beginning_and_a_short_view_is_whole() -> None:
    short = long_view(50, ()).excerpt(5)
    assert short.units == ("unit0", "unit1", "unit2", "unit3", "…", "unit49")
    whole = long_view(5, ())
    assert whole.excerpt(5) is whole
