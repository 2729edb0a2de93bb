"""Layers of a model that stand where given layers of the paper's model stand."""

from collections.abc import Sequence

import pandas as pd

__all__ = [
    "PAPER_LAYERS", "count_layers", "halves", "like_paper", "name_layers", "of_layers", "thirds",
]  # fmt: skip

PAPER_LAYERS = 12


def count_layers(table: pd.DataFrame) -> int:
    """How deep the model is."""
    return int(table["layer"].max())


def like_paper(first: int, last: int, n_layers: int) -> list[int]:
    """The layers whose middles lie where layers `first` to `last` of 12 lie; at least one.

    >>> like_paper(6, 10, 12), like_paper(6, 10, 6), like_paper(6, 10, 1)
    ([6, 7, 8, 9, 10], [3, 4, 5], [1])
    """
    # In whole numbers, 2 * PAPER_LAYERS * n_layers to the depth: no rounding at the borders.
    start, end = 2 * (first - 1) * n_layers, 2 * last * n_layers
    middles = {layer: (2 * layer - 1) * PAPER_LAYERS for layer in range(1, n_layers + 1)}
    inside = [layer for layer, middle in middles.items() if start <= middle < end]
    nearest = min(middles, key=lambda layer: abs(2 * middles[layer] - start - end))
    return inside or [nearest]


def halves(n_layers: int) -> tuple[list[int], list[int]]:
    """The lower and the upper layers; the middle one of an odd number counts as lower.

    >>> halves(5)
    ([1, 2, 3], [4, 5])
    """
    middle = (n_layers + 1) // 2
    return list(range(1, middle + 1)), list(range(middle + 1, n_layers + 1))


def thirds(n_layers: int) -> tuple[list[int], list[int], list[int]]:
    """Early, middle and deep layers, as alike in number as can be.

    >>> thirds(6)
    ([1, 2], [3, 4], [5, 6])
    """
    first, second = round(n_layers / 3), round(2 * n_layers / 3)
    layers = list(range(1, n_layers + 1))
    return layers[:first], layers[first:second], layers[second:]


def of_layers(table: pd.DataFrame, layers: Sequence[int]) -> pd.DataFrame:
    """The rows of these layers."""
    return table[table["layer"].isin(list(layers))]


def name_layers(layers: Sequence[int], n_layers: int) -> str:
    """As people say it.

    >>> name_layers([3, 4, 5], 6), name_layers([1], 1)
    ('layers 3-5 of 6', 'layer 1 of 1')
    """
    if len(layers) == 1:
        return f"layer {layers[0]} of {n_layers}"
    return f"layers {layers[0]}-{layers[-1]} of {n_layers}"
