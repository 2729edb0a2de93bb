"""Compiled divergences against the definition, on rows of every kind."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headscope.kernels.jensen_shannon import (
    divergence_between,
    divergence_within,
    sum_pairs,
    sum_pairs_in_torch,
)
from tests.references.distance import jensen_shannon

KINDS = ["random", "sharp", "one-hot", "even", "causal", "nearly zero"]


def make_row(kind: str, n_keys: int, seed: int) -> torch.Tensor:
    """A distribution over keys of one kind."""
    rng = np.random.default_rng(seed)
    scores = torch.from_numpy(rng.standard_normal(n_keys))
    if kind == "even":
        return torch.full((n_keys,), 1 / n_keys, dtype=torch.float64)
    if kind == "one-hot":
        return torch.nn.functional.one_hot(scores.argmax(), n_keys).double()
    if kind == "causal":
        scores[1 + seed % n_keys :] = -torch.inf
    if kind == "nearly zero":
        scores *= 30  # weights below the least normal float32 among them
    return (5 * scores if kind == "sharp" else scores).softmax(0)


rows = st.builds(make_row, st.sampled_from(KINDS), st.just(19), st.integers(0, 10_000))


def reference(maps: torch.Tensor) -> np.ndarray:
    """Of `maps[row, head, key]`, the divergence of all heads, summed over rows."""
    n_heads = maps.shape[1]
    return np.array(
        [
            [
                sum(jensen_shannon(r[a].tolist(), r[b].tolist()) for r in maps)
                for b in range(n_heads)
            ]
            for a in range(n_heads)
        ]
    )


@settings(max_examples=60)
@given(heads=st.lists(rows, min_size=2, max_size=7))
def test_rows_of_every_kind_equal_the_definition(heads: list[torch.Tensor]) -> None:
    exact = torch.stack(heads)[None]  # [row, head, key]
    maps = exact.float()
    expected = reference(maps.double())[np.triu_indices(len(heads), 1)]
    compiled = divergence_within(maps[None])[0]
    np.testing.assert_allclose(compiled, expected, rtol=0, atol=1e-6)
    assert (compiled >= 0).all()
    by_torch = divergence_within(maps[None].double())[0]
    np.testing.assert_allclose(by_torch, expected, rtol=0, atol=1e-12)


@given(row=rows, n_heads=st.integers(2, 9))
def test_equal_rows_have_no_distance_at_all(row: torch.Tensor, n_heads: int) -> None:
    maps = row.float().expand(1, 3, n_heads, -1)
    assert (divergence_within(maps) == 0).all()


@given(row=rows, seed=st.integers(0, 1000))
def test_nearly_equal_rows_give_no_noise(row: torch.Tensor, seed: int) -> None:
    noise = 1 + 1e-6 * torch.from_numpy(np.random.default_rng(seed).standard_normal(len(row)))
    maps = torch.stack([row, row * noise]).float()[None, None]
    assert 0 <= divergence_within(maps).item() < 1e-6


def test_disjoint_rows_are_as_far_as_can_be() -> None:
    maps = torch.eye(6)[None, None]  # every head looks at a key of its own
    np.testing.assert_allclose(divergence_within(maps), np.log(2), atol=1e-7)


@pytest.mark.parametrize("n_keys", [1, 7, 8, 33, 128])
@pytest.mark.parametrize("n_rows", [1, 16, 37])
def test_compiled_and_torch_agree(n_keys: int, n_rows: int) -> None:
    maps = (3 * torch.randn(2, n_rows, 11, n_keys, generator=seeded(0))).softmax(-1)
    for n_first in (0, 4, 5):
        one, other = sum_pairs(maps, n_first), sum_pairs_in_torch(maps.double(), n_first)
        is_filled = other != 0
        np.testing.assert_allclose(one[is_filled], other[is_filled], rtol=0, atol=1e-6 * n_rows)


def test_heads_between_two_groups_are_those_of_the_whole() -> None:
    maps = torch.randn(3, 5, 9, 20, generator=seeded(1)).softmax(-1)
    whole = np.zeros((3, 9, 9))
    first, second = np.triu_indices(9, 1)
    whole[:, first, second] = divergence_within(maps)
    assert np.array_equal(divergence_between(maps, 4), whole[:, :4, 4:])
    exact = divergence_between(maps.double(), 4)
    np.testing.assert_allclose(exact, whole[:, :4, 4:], rtol=0, atol=5e-6)  # of five rows


def test_long_rows_are_as_exact_as_short_ones() -> None:
    maps = (3 * torch.randn(1, 20, 6, 1500, generator=seeded(4))).softmax(-1)
    maps[:, :, 5] = maps[:, :, 0]
    found, exact = divergence_within(maps), divergence_within(maps.double())
    np.testing.assert_allclose(found, exact, rtol=0, atol=20e-6)  # of twenty rows
    assert found[0, 4] == 0


def test_the_root_is_a_metric() -> None:
    maps = (4 * torch.randn(1, 1, 12, 30, generator=seeded(2))).softmax(-1).double()
    distance = np.zeros((12, 12))
    distance[np.triu_indices(12, 1)] = np.sqrt(divergence_within(maps)[0])
    distance += distance.T
    for middle in range(12):
        assert (distance <= distance[:, [middle]] + distance[middle] + 1e-12).all()


def test_an_example_s_sums_do_not_depend_on_its_batch() -> None:
    maps = torch.randn(2, 50, 6, 24, generator=seeded(3)).softmax(-1)
    whole = divergence_within(maps)
    assert np.array_equal(
        np.concatenate([divergence_within(maps[i : i + 1]) for i in (0, 1)]), whole
    )


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
