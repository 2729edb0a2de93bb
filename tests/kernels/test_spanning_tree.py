"""Compiled spanning trees against trying every tree."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headscope.data.example import ROOT, find_problem
from headscope.kernels.spanning_tree import maximum_arborescence, maximum_spanning_tree


def every_tree(n: int, root: int) -> list[tuple[int, ...]]:
    choices = [[ROOT] if node == root else range(n) for node in range(n)]
    return [heads for heads in product(*choices) if find_problem(heads) is None]


def total(scores: np.ndarray, heads: tuple[int, ...]) -> float:
    return sum(float(scores[node, head]) for node, head in enumerate(heads) if head != ROOT)


@given(n=st.integers(1, 5), seed=st.integers(0, 10_000), root=st.integers(0, 4))
def test_no_directed_tree_scores_higher(n: int, seed: int, root: int) -> None:
    root %= n
    scores = np.random.default_rng(seed).random((n, n))
    heads = tuple(int(head) for head in maximum_arborescence(scores, root))
    assert heads[root] == ROOT
    assert find_problem(heads) is None
    assert total(scores, heads) == pytest.approx(max(total(scores, h) for h in every_tree(n, root)))


@given(n=st.integers(1, 5), seed=st.integers(0, 10_000))
def test_no_undirected_tree_scores_higher(n: int, seed: int) -> None:
    scores = np.random.default_rng(seed).random((n, n))
    both = scores + scores.T
    partners = tuple(int(partner) for partner in maximum_spanning_tree(scores))
    assert find_problem(partners) is None
    assert total(both, partners) == pytest.approx(max(total(both, h) for h in every_tree(n, 0)))


def test_a_long_sentence_of_equal_weights_gives_a_tree() -> None:
    heads = maximum_arborescence(np.ones((60, 60)), 7)
    assert find_problem(tuple(int(head) for head in heads)) is None
