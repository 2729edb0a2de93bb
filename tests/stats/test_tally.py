"""Totals by bucket of documents, and the means and intervals they give."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headscope.data.example import stable_hash
from headscope.stats.bucket import N_BUCKETS
from headscope.stats.sums import PLAIN, Tally


def tally_of(values: np.ndarray, documents: list[str] | None = None) -> Tally:
    names = documents or [f"document {i}" for i in range(len(values))]
    tally = Tally()
    buckets = np.array([stable_hash(name) % N_BUCKETS for name in names])
    column = values[:, None]  # [example, layer]
    tally.add(buckets, {"x": column, "segments": np.ones_like(column)})
    return tally


def test_the_estimate_is_the_plain_mean() -> None:
    values = np.random.default_rng(0).normal(size=100)
    assert tally_of(values).ratio("x", "segments").value[0] == pytest.approx(values.mean())


def test_the_interval_is_that_of_leaving_out_one_bucket_after_the_other() -> None:
    rng = np.random.default_rng(0)
    values, documents = rng.normal(size=40), [f"d{i % 9}" for i in range(40)]
    measured = tally_of(values, documents).ratio("x", "segments")
    buckets = np.array([stable_hash(d) % N_BUCKETS for d in documents])
    used = sorted(set(buckets.tolist()))
    left = [values[buckets != bucket].mean() for bucket in used]
    error = np.sqrt((len(used) - 1) / len(used) * sum((x - values.mean()) ** 2 for x in left))
    t = {7: 2.446912, 8: 2.364624, 9: 2.306004}[len(used)]  # of 6, 7 and 8 degrees of freedom
    assert measured.low[0] == pytest.approx(values.mean() - t * error, rel=1e-6)
    assert measured.high[0] == pytest.approx(values.mean() + t * error, rel=1e-6)


def test_examples_of_one_document_widen_the_interval() -> None:
    rng = np.random.default_rng(1)
    shared = np.repeat(rng.normal(size=40), 10)  # ten copies of what each document shows
    together = tally_of(shared, [f"d{i // 10}" for i in range(400)]).ratio("x", "segments")
    apart = tally_of(shared).ratio("x", "segments")
    assert together.high - together.low > 2 * (apart.high - apart.low)


def test_one_document_gives_a_number_without_an_interval() -> None:
    measured = tally_of(np.arange(5.0), ["the only one"] * 5).ratio("x", "segments")
    assert measured.value[0] == 2
    assert np.isnan([measured.low[0], measured.high[0]]).all()


def test_what_never_varies_has_no_interval_of_zero_width() -> None:
    measured = tally_of(np.ones(50)).ratio("x", "segments")
    assert measured.value[0] == 1
    assert np.isnan(measured.low[0])


def test_an_interval_ends_where_its_number_cannot_go() -> None:
    values = np.array([0.0] * 20 + [0.5])
    measured = tally_of(values).ratio("x", "segments", (0, 1))
    assert measured.low[0] == 0
    assert tally_of(values).ratio("x", "segments").low[0] < 0


def test_nothing_over_nothing_is_no_number() -> None:
    tally = Tally({"sum": np.zeros((N_BUCKETS, 3, 1)), "count": np.zeros((N_BUCKETS, 3, 1))})
    assert np.isnan(tally.ratio("sum", "count")).all()


def test_buckets_without_data_do_not_count() -> None:
    sums, counts = np.zeros((N_BUCKETS, 1)), np.zeros((N_BUCKETS, 1))
    sums[[3, 9, 20], 0], counts[[3, 9, 20], 0] = (1, 2, 3), 1
    found = Tally({"sum": sums, "count": counts}).ratio("sum", "count")
    error = np.sqrt(2 / 3 * (0.5**2 + 0 + 0.5**2))
    assert found.high[0] == pytest.approx(2 + 4.302653 * error, rel=1e-6)  # t of 2 degrees


def test_a_plain_total_is_one_sum() -> None:
    tally = Tally()
    tally.add(np.array([1, 5, 5]), {f"{PLAIN}x": np.ones((3, 2)), "x": np.ones((3, 2))})
    assert tally.totals[f"{PLAIN}x"].tolist() == [[3, 3]]
    assert tally.totals["x"][5].tolist() == [2, 2]


def test_many_columns_are_estimated_in_chunks_with_the_same_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    totals = {"a": rng.normal(size=(N_BUCKETS, 7, 5)), "n": np.ones((N_BUCKETS, 1))}
    whole = Tally(totals).ratio("a", "n")
    monkeypatch.setattr("headscope.stats.sums.CHUNK", 4)
    np.testing.assert_array_equal(Tally(totals).ratio("a", "n"), whole)


@given(st.lists(st.integers(0, 30), min_size=1, max_size=40), st.integers(0, 39))
def test_the_sum_of_parts_is_the_whole(documents: list[int], cut: int) -> None:
    values = np.arange(len(documents), dtype=float) ** 2
    names = [f"d{d}" for d in documents]
    whole = tally_of(values, names)
    parts = tally_of(values[:cut], names[:cut]) + tally_of(values[cut:], names[cut:])
    for name, total in whole.totals.items():
        np.testing.assert_array_equal(parts.totals[name], total)


def test_adding_leaves_both_tallies_as_they_were() -> None:
    one, other = Tally({"a": np.ones((2, 1, 1))}), Tally({"a": np.ones((2, 1, 1))})
    total = one + other + other
    assert total.totals["a"].sum() == 6
    assert one.totals["a"].sum() == other.totals["a"].sum() == 2


def test_a_name_that_one_tally_lacks_counts_as_zero() -> None:
    total = Tally({"a": np.ones(1)}) + Tally({"b": np.full(1, 2.0)})
    assert {name: value.sum() for name, value in total.totals.items()} == {"a": 1, "b": 2}
