"""A sight is kept small and read back as it was."""

import numpy as np
import pytest

from headscope.data.sight import Sight


def sight(weights: np.ndarray) -> Sight:
    units = tuple(f"unit{n}" for n in range(len(weights)))
    return Sight("a:1", 2, 4, units, (True, *[False] * (len(units) - 1)), weights, ((1, 2),))


def test_a_sight_survives_json_to_a_thousandth_without_faint_weights() -> None:
    weights = np.array([[0.5, 0.4987, 0.0013], [0.2, 0.2, 0.6], [1.0, 0.0, 0.0]])
    given = sight(weights)
    back = Sight.from_json(given.to_json())
    assert (back.example, back.layer, back.head) == ("a:1", 2, 4)
    assert (back.units, back.is_special, back.marked) == (
        given.units,
        given.is_special,
        given.marked,
    )
    np.testing.assert_allclose(back.weights, weights, atol=0.0014)
    assert back.weights[0, 2] == 0


def test_a_sight_must_be_square_and_mark_what_it_has() -> None:
    with pytest.raises(ValueError, match="so many rows"):
        Sight("a", 0, 0, ("x",), (False,), np.zeros((2, 1)))
    with pytest.raises(ValueError, match="outside"):
        Sight("a", 0, 0, ("x",), (False,), np.zeros((1, 1)), ((0, 1),))
