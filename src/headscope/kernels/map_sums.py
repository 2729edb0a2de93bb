"""Entropies, column sums, diagonals and pooled maps of a slice in the cache; arcs found."""

from typing import Any

import numba
import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray

# Compiled in: lanes.py 796f5ae9, threads.py 066d3b4e
from headscope.kernels import njit
from headscope.kernels.lanes import FASTMATH, x_log2_x
from headscope.kernels.threads import use_torch_threads

__all__ = ["add_pooled", "add_sums", "count_moved", "find_largest", "move_arcs"]

ZERO, ONE = np.float32(0), np.float32(1)
LN2 = np.float32(np.log(2))
NOTHING = -3  # the prediction of a word that attends to no other

Floats = NDArray[np.float32]


def add_sums(
    weights: Float[Floats, "some_examples head row some_keys"],
    first_example: int,
    first_row: int,
    kinds: Int[NDArray[np.int64], "example query"],
    has_sink: bool,
    entropy: Float[Floats, "example head query"],
    columns: Float[Floats, "example head kind key"],
    diagonals: Float[Floats, "example head offset"],
    known: Float[Floats, "some_examples head row"] | None = None,
) -> None:
    """Add a slice to the sums of a layer; `kinds` are those of all queries, offsets -1, 0, 1.

    Where the entropies of the slice are `known`, they are taken as they are.
    """
    use_torch_threads()
    place = (weights, first_example, first_row)
    has_entropy = known is not None
    known = entropy if known is None else known
    _add_sums(*place, kinds, has_sink, entropy, columns, diagonals, has_entropy, known)


def add_pooled(
    weights: Float[Floats, "some_examples head row some_keys"],
    first_example: int,
    first_row: int,
    row_units: Int[NDArray[np.int64], "example query"],
    row_shares: Float[NDArray[np.float64], "example query"],
    key_units: Int[NDArray[np.int64], "example key"],
    pooled: Float[Floats, "example head unit other"],
) -> None:
    """Add a slice to the pooled maps of a layer: rows, each times its share, and keys to units.

    A query or key without a unit has -1.
    """
    use_torch_threads()
    place = (weights, first_example, first_row)
    _add_pooled(*place, row_units, row_shares, key_units, pooled)


def find_largest(
    pooled: Float[Floats, "example head unit other"],
    n_words: int,
    is_visible: Bool[NDArray[np.bool_], "example word other"],
    words: Int[NDArray[np.int64], "example head direction word"],
    weights: Float[Floats, "example head direction word"],
    special: Float[Floats, "example head direction word"],
) -> None:
    """The most attended visible word of each row and of each column; ties go to the first.

    Units are words, then special tokens. Filled are `words`, with NOTHING for one that attends to
    no other, their `weights`, and the largest weight to and from a `special` token.
    """
    use_torch_threads()
    _find_largest(pooled, n_words, is_visible, words, weights, special)


compiled: Any = njit(parallel=True, fastmath=FASTMATH)


@compiled
def _add_sums(  # type: ignore[no-untyped-def]
    weights, first_example, first_row, kinds, has_sink, entropy, columns, diagonals, has_entropy,
    known,
):  # fmt: skip
    n_examples, n_heads, n_rows, n_keys = weights.shape
    for task in numba.prange(n_examples * n_heads):
        place, head = task // n_heads, task % n_heads
        example = first_example + place
        for row in range(n_rows):
            query = first_row + row
            own, column = weights[place, head, row], columns[example, head, kinds[example, query]]
            if has_entropy:
                for key in range(n_keys):
                    column[key] += own[key]
                entropy[example, head, query] = known[place, head, row]
            else:
                bits, total = ZERO, ZERO
                for key in range(n_keys):
                    weight = own[key]
                    bits += x_log2_x(weight)
                    total += weight
                    column[key] += weight
                if has_sink:
                    bits += x_log2_x(max(ONE - total, ZERO))
                entropy[example, head, query] = -LN2 * bits
            for offset in range(3):
                key = query + offset - 1
                if 0 <= key < n_keys:
                    diagonals[example, head, offset] += own[key]


@compiled
def _add_pooled(  # type: ignore[no-untyped-def]
    weights, first_example, first_row, row_units, row_shares, key_units, pooled
):
    n_examples, n_heads, n_rows, n_keys = weights.shape
    for task in numba.prange(n_examples * n_heads):
        place, head = task // n_heads, task % n_heads
        example = first_example + place
        kept = np.flatnonzero(key_units[example, :n_keys] >= 0)
        units = key_units[example][kept]
        for row in range(n_rows):
            unit = row_units[example, first_row + row]
            if unit < 0:
                continue
            share = np.float32(row_shares[example, first_row + row])
            own = weights[place, head, row]
            into = pooled[example, head, unit]
            for i in range(len(kept)):
                into[units[i]] += share * own[kept[i]]


@compiled
def _find_largest(pooled, n_words, is_visible, words, weights, special):  # type: ignore[no-untyped-def]
    n_examples, n_heads, n_units, _ = pooled.shape
    for task in numba.prange(n_examples * n_heads):
        example, head = task // n_heads, task % n_heads
        maps, seen = pooled[example, head], is_visible[example]
        best, most = words[example, head], weights[example, head]
        best[:], most[:] = NOTHING, ZERO
        for word in range(n_words):
            own, own_seen = maps[word], seen[word]
            top, place = ZERO, NOTHING
            for other in range(n_words):
                if own_seen[other]:
                    weight = own[other]
                    if weight > top:
                        top, place = weight, other
                    if weight > most[1, other]:
                        most[1, other] = weight
                        best[1, other] = word
            best[0, word], most[0, word] = place, top
            for other in range(n_words, n_units):
                special[example, head, 0, word] = max(special[example, head, 0, word], own[other])
        for unit in range(n_words, n_units):
            for word in range(n_words):
                special[example, head, 1, word] = max(
                    special[example, head, 1, word], maps[unit, word]
                )


@njit()
def count_moved(
    predicted: Int[NDArray[np.int16], "row cell"],
    rows: Int[NDArray[np.int64], "arc draw"],
    heads: Int[NDArray[np.int16], "arc draw"],
    arcs: Int[NDArray[np.int64], " member"],
    relations: Int[NDArray[np.int64], " member"],
    counts: Float[NDArray[np.float32], "relation draw cell"],
) -> Any:
    """Add the arcs found by each cell (a head and direction) to `counts`.

    `predicted[row]` is what a word predicts by each cell; an arc of a draw is found where it is the
    arc's head. Members are the arcs of each relation.
    """
    n_draws, n_cells = rows.shape[1], predicted.shape[1]
    for member in range(len(arcs)):
        arc = arcs[member]
        for draw in range(n_draws):
            own, head = predicted[rows[arc, draw]], heads[arc, draw]
            into = counts[relations[member], draw]
            for cell in range(n_cells):
                into[cell] += own[cell] == head


@njit()
def move_arcs(
    has_tokens: Bool[NDArray[np.bool_], "example word"],
    examples: Int[NDArray[np.int64], " arc"],
    lengths: Int[NDArray[np.int64], " arc"],
    parts: Float[NDArray[np.float64], "arc draw"],
    moved: Int[NDArray[np.int64], "arc draw"],
) -> Any:
    """Of the words from which an arc of its length leads to a word, the one at a part of the way.

    Only words with tokens count.
    """
    n_words = has_tokens.shape[1]
    fitting = np.empty(n_words, np.int64)
    for arc in range(len(examples)):
        own, length = has_tokens[examples[arc]], lengths[arc]
        n_fitting = 0
        for word in range(max(0, -length), min(n_words, n_words - length)):
            if own[word] and own[word + length]:
                fitting[n_fitting] = word
                n_fitting += 1
        for draw in range(parts.shape[1]):
            moved[arc, draw] = fitting[int(parts[arc, draw] * n_fitting)]
