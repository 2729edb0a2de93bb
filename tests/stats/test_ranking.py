"""Rankings find the same examples in whatever order and parts they are read."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from headscope.stats.ranking import ENDS, Ranking

N_EXAMPLES, SHAPE = 9, (3, 5, 2)
IDS = np.random.default_rng(0).integers(0, 2**64, N_EXAMPLES, dtype=np.uint64)
SCORES = st.sampled_from([-1200.0, -1.0, 0.0, 0.25, 1.0, 2.0, 600.0, 1001.5, np.nan])
IS_LONG = np.arange(N_EXAMPLES) % 3 == 0


def rank(scores: np.ndarray, chosen: list[int]) -> Ranking:
    ranking = Ranking()
    ranking.add(IDS[chosen], IS_LONG[chosen], {"role": scores[chosen]})
    return ranking


def expected(scores: np.ndarray, end: str, place: tuple[int, ...]) -> list[int]:
    """Sorted by hand: short ones first, then the score, then the larger id."""
    values = [(n, score) for n, score in enumerate(scores[(slice(None), *place)])]
    values = [(n, s if end == "best" else -s) for n, s in values if not np.isnan(s)]
    ordered = sorted(values, key=lambda v: (not IS_LONG[v[0]], v[1], IDS[v[0]]), reverse=True)
    return [int(IDS[n]) for n, _ in ordered[:2]]


@given(
    scores=arrays(float, (N_EXAMPLES, *SHAPE), elements=SCORES),
    order=st.permutations(range(N_EXAMPLES)),
    cuts=st.lists(st.integers(0, N_EXAMPLES), max_size=3),
)
def test_any_order_and_parts_give_the_highest_and_lowest(
    scores: np.ndarray, order: list[int], cuts: list[int]
) -> None:
    bounds = [0, *sorted(cuts), N_EXAMPLES]
    total = Ranking()
    for start, end in pairwise(bounds):
        total = total + rank(scores, order[start:end])
    for end in ENDS:
        for place in np.ndindex(*SHAPE):
            found = [key for key, _ in total.find("role", end, place)]
            assert found == expected(scores, end, place)


def expected_parts(scores: np.ndarray, place: tuple[int, ...]) -> list[tuple[int, float, int]]:
    """By hand: the narrowest power of two that cuts the range into at most 22 parts."""
    own = {int(IDS[n]): s for n, s in enumerate(scores[(slice(None), *place)]) if not np.isnan(s)}
    if not own:
        return []
    width = 2.0**-13
    while max(own.values()) // width - min(own.values()) // width >= 22:
        width *= 2
    parts: dict[float, list[int]] = {}
    for key, score in own.items():
        parts.setdefault(score // width, []).append(key)
    return [(min(keys), own[min(keys)], len(keys)) for _, keys in sorted(parts.items())]


@given(
    scores=arrays(float, (N_EXAMPLES, 3, 5), elements=SCORES),
    order=st.permutations(range(N_EXAMPLES)),
    cuts=st.lists(st.integers(0, N_EXAMPLES), max_size=4),
)
def test_any_order_and_parts_give_an_example_of_every_part_of_the_range(
    scores: np.ndarray, order: list[int], cuts: list[int]
) -> None:
    bounds = [0, *sorted(cuts), N_EXAMPLES]
    total, streamed = Ranking(), Ranking()
    for start, end in pairwise(bounds):
        chosen = order[start:end]
        total = rank(scores, chosen) + total
        streamed.add(IDS[chosen], IS_LONG[chosen], {"role": scores[chosen]})
    for place in np.ndindex(3, 5):
        found = total.find_parts("role", place)
        assert found == expected_parts(scores, place)
        assert streamed.find_parts("role", place) == found


def test_parts_are_narrower_than_a_tenth_of_the_range_and_count_all() -> None:
    draw = np.random.default_rng(3)
    ids = draw.integers(0, 2**64, 2000, dtype=np.uint64)
    scores = draw.uniform(0.1, 0.7, (2000, 1, 1)).round(4)
    ranking = Ranking()
    ranking.add(ids, np.zeros(2000, bool), {"role": scores})
    parts = ranking.find_parts("role", (0, 0))
    assert 11 <= len(parts) <= 22
    assert sum(count for *_, count in parts) == 2000
    tenths = {int((score - 0.1) / 0.06) for _, score, _ in parts}
    assert tenths == set(range(10))
    assert all(scores[list(ids).index(key), 0, 0] == score for key, score, _ in parts)


def test_a_role_that_no_example_shows_is_not_there() -> None:
    ranking = rank(np.full((N_EXAMPLES, *SHAPE), np.nan), list(range(N_EXAMPLES)))
    assert ranking.ids == {}
    assert ranking.find("role", "best", (0, 0, 0)) == []


def test_noise_below_a_ten_thousandth_does_not_change_the_order() -> None:
    scores = np.random.default_rng(1).integers(0, 3, (N_EXAMPLES, *SHAPE)).astype(float)
    whole = list(range(N_EXAMPLES))
    noisy = scores + np.random.default_rng(2).uniform(-1e-6, 1e-6, scores.shape)
    one, other = rank(scores, whole), rank(noisy, whole)
    np.testing.assert_array_equal(one.ids["role"], other.ids["role"])


def test_adding_leaves_both_rankings_as_they_were() -> None:
    scores = np.random.default_rng(1).normal(size=(N_EXAMPLES, *SHAPE))
    one, other = rank(scores, [0, 1, 2]), rank(scores, [3, 4, 5])
    before = one.heights["role"].copy()
    assert (one + other).heights["role"].shape == (2, 2, *SHAPE)
    np.testing.assert_array_equal(one.heights["role"], before)


def test_scores_of_hundreds_keep_their_order_and_value_among_short_and_long_examples() -> None:
    """A long document may have a thousand right answers; short examples come first all the same."""
    high = np.array([4000.25, 3.0, 900.5, 501.0, 1000.75, -700.0, 2000.0, 499.0, -1500.5])
    scores = np.broadcast_to(high[:, None, None, None], (N_EXAMPLES, *SHAPE))
    short, long = np.flatnonzero(~IS_LONG), np.flatnonzero(IS_LONG)

    def found(ranking: Ranking, end: str) -> list[tuple[int, float]]:
        return ranking.find("role", end, (2, 4, 1))

    whole = rank(scores, list(range(N_EXAMPLES)))
    of_short = sorted(((high[n], int(IDS[n])) for n in short), reverse=True)
    assert found(whole, "best") == [(key, score) for score, key in of_short[:2]]
    assert found(whole, "worst") == [(key, score) for score, key in of_short[::-1][:2]]
    of_long = sorted(((high[n], int(IDS[n])) for n in long), reverse=True)
    alone = rank(scores, long.tolist())
    assert found(alone, "best") == [(key, score) for score, key in of_long[:2]]
    one_short = alone + rank(scores, [5])  # which is far below all that are long, and first
    assert found(one_short, "best") == [(int(IDS[5]), -700.0), (int(IDS[0]), 4000.25)]
    assert found(one_short, "worst") == [(int(IDS[5]), -700.0), (int(IDS[3]), 501.0)]
