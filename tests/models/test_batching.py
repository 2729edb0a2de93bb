"""Batches of equal length hold every example once, within the limit of tokens."""

from itertools import chain, pairwise
from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headscope.data.encoding import Batch, Encoding
from headscope.data.example import Example
from headscope.models.encode import equal_length_batches

LENGTHS = st.lists(st.integers(1, 20), max_size=40)


def make_encodings(lengths: list[int]) -> list[Encoding]:
    return [
        Encoding(
            example=Example(f"{place}", text="-" * length),
            inputs={"input_ids": np.arange(length)},
            surfaces=("-",) * length,
            kinds=np.zeros(length, dtype=np.int64),
            word_ids=np.full(length, -1),
        )
        for place, length in enumerate(lengths)
    ]


@given(lengths=LENGTHS, batch_tokens=st.integers(1, 60))
def test_batches_are_of_one_length_and_within_the_limit(
    lengths: list[int], batch_tokens: int
) -> None:
    for members in equal_length_batches(make_encodings(lengths), batch_tokens):
        batch = Batch(tuple(members))  # refuses unequal lengths
        assert len(batch) == 1 or len(batch) * batch.n_tokens <= batch_tokens


@given(lengths=LENGTHS, batch_tokens=st.integers(1, 60))
def test_nothing_is_lost_or_repeated(lengths: list[int], batch_tokens: int) -> None:
    encodings = make_encodings(lengths)
    found = list(chain.from_iterable(equal_length_batches(encodings, batch_tokens)))
    assert sorted(map(id, found)) == sorted(map(id, encodings))


@given(lengths=LENGTHS, batch_tokens=st.integers(1, 60))
def test_batches_are_as_few_as_the_limit_allows(lengths: list[int], batch_tokens: int) -> None:
    batches = list(equal_length_batches(make_encodings(lengths), batch_tokens))
    expected = sum(
        ceil(lengths.count(length) / max(1, batch_tokens // length)) for length in set(lengths)
    )
    assert len(batches) == expected


@given(lengths=LENGTHS, batch_tokens=st.integers(1, 60))
def test_longest_come_first_so_that_memory_runs_out_at_once_or_never(
    lengths: list[int], batch_tokens: int
) -> None:
    batches = list(equal_length_batches(make_encodings(lengths), batch_tokens))
    assert all(len(a[0]) >= len(b[0]) for a, b in pairwise(batches))


def test_example_longer_than_the_limit_goes_alone() -> None:
    batches = list(equal_length_batches(make_encodings([7, 3, 7]), 6))
    assert [[len(encoding) for encoding in members] for members in batches] == [[7], [7], [3]]


def test_no_encodings_make_no_batches() -> None:
    assert list(equal_length_batches([], 100)) == []


def test_batch_of_unequal_lengths_is_refused() -> None:
    with pytest.raises(ValueError, match=r"one length; got \[2, 3\]"):
        Batch(tuple(make_encodings([2, 3])))
