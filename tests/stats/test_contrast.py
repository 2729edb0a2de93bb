"""Numbers over layers equal slow loops that leave out one bucket after the other."""

from math import exp, log, sqrt

import numpy as np
import pytest
from scipy.stats import t as student

from headscope.analyses.special_tokens.measure import SpecialTokens
from headscope.runs.tables import make_tables
from headscope.stats.difference import (
    correlate,
    find_step,
    over_layers,
    ratio_estimate,
    untrained_columns,
)
from headscope.stats.sums import Tally
from tests.references.comparison import correlate_layers

N_BUCKETS, N_LAYERS, N_HEADS = 64, 7, 5
TOKENS = {"marks": (2,), "others": (3,), "tokens": ()}  # none are counted
USED = [3, 11, 12, 40]  # buckets with documents


def tally(seed: int = 0, buckets: list[int] = USED) -> Tally:
    """Attention of a few documents, of which each is a bucket with some segments."""
    draws = np.random.default_rng(seed)
    weight, segments = np.zeros((N_BUCKETS, N_LAYERS, N_HEADS, 3, 5)), np.zeros((N_BUCKETS, 3))
    tokens = {name: np.zeros((N_BUCKETS, *n)) for name, n in TOKENS.items()}
    for bucket in buckets:
        n = draws.integers(1, 5)
        weight[bucket] = n * draws.dirichlet(np.ones(5), (N_LAYERS, N_HEADS, 3))
        segments[bucket] = n
    return Tally({"weight": weight, "segments": segments, **tokens})


def slow_mean(data: Tally, layers: list[int], source: int, target: int, without: int) -> float:
    found = []
    for layer in layers:
        for head in range(N_HEADS):
            rest = [bucket for bucket in USED if bucket != without]
            above = sum(data.totals["weight"][b, layer - 1, head, source, target] for b in rest)
            found.append(above / sum(data.totals["segments"][b, source] for b in rest))
    return float(sum(found) / len(found))


def slow_interval(numbers: list[float]) -> tuple[float, float, float]:
    """Of the number on all data and those without each bucket: the jackknife's t interval."""
    value, *rest = numbers
    error = sqrt((len(rest) - 1) / len(rest) * sum((one - value) ** 2 for one in rest))
    half = float(student.ppf(0.975, len(rest) - 1)) * error
    return value, value - half, value + half


@pytest.mark.parametrize(
    ("layers", "source", "places", "minus"),
    [
        ("6-10 of 12", "all", [4, 5, 6], None),
        ("first third", "sep", [1, 2], None),
        ("first third - last third", "other", [1, 2], [6, 7]),
    ],
)
def test_means_over_layers_equal_slow_loops(
    layers: str, source: str, places: list[int], minus: list[int] | None
) -> None:
    data = tally()
    table = make_tables(SpecialTokens(), data)["special-tokens-layers"]
    is_it = (table["layers"] == layers) & (table["source"] == source) & (table["target"] == "sep")
    (row,) = table[is_it].to_dict("records")
    at = ["all", "sep", "other"].index(source)
    numbers = [
        slow_mean(data, places, at, 1, without)
        - (slow_mean(data, minus, at, 1, without) if minus else 0)
        for without in (-1, *USED)
    ]
    value, low, high = slow_interval(numbers)
    assert row["weight"] == pytest.approx(value)
    assert row["low"] == pytest.approx(low if minus else max(low, 0))
    assert row["high"] == pytest.approx(high)


def test_the_sum_over_special_tokens_has_an_interval_of_its_own() -> None:
    data = tally()
    table = make_tables(SpecialTokens(), data)["special-tokens-heads"]
    whole = make_tables(SpecialTokens(), data)["special-tokens"]
    other = whole[(whole["source"] == "all") & (whole["target"] == "other")]
    # all classes sum to 1, so this is 1 minus the rest, and so is its interval
    assert table["weight"].to_numpy() == pytest.approx(1 - other["weight"].to_numpy())
    is_inside = ((table["low"] > 0) & (table["high"] < 1)).to_numpy()
    assert is_inside.any()
    for one, rest in (("low", "high"), ("high", "low")):
        expected = 1 - other[rest].to_numpy()
        assert table[one].to_numpy()[is_inside] == pytest.approx(expected[is_inside])


@pytest.mark.parametrize("buckets", [[5], []])
def test_one_document_or_none_give_no_interval(buckets: list[int]) -> None:
    tables = make_tables(SpecialTokens(), tally(buckets=buckets) if buckets else Tally())
    layers, steps = tables["special-tokens-layers"], tables["special-tokens-steps"]
    assert len(layers) == (160 if buckets else 0)
    assert layers[["low", "high"]].isna().all(axis=None)
    assert steps[["low", "high", "ratio_low", "ratio_high"]].isna().all(axis=None)


def curve(levels: list[float], noise: float, n: int = 20) -> np.ndarray:
    """Replicates of a curve over layers."""
    draws = np.array(levels) + np.random.default_rng(1).normal(0, noise, (n, len(levels)))
    whole = draws.mean(axis=0)
    replicates = np.full((1 + N_BUCKETS, len(levels)), np.nan)
    replicates[0] = whole
    if n > 1:
        replicates[1 : n + 1] = (n * whole - draws) / (n - 1)
    return replicates


def test_a_step_is_found_where_it_is() -> None:
    sharp = find_step(curve([0.1, 0.1, 0.1, 0.6, 0.7, 0.5], 0.01))
    assert sharp == (4, 4.0, 4.0)
    blurred = find_step(curve([0.1, 0.1, 0.3, 0.32, 0.5, 0.5], 0.2))
    assert blurred is not None
    assert blurred.low < blurred.high
    assert blurred.low <= blurred.layer <= blurred.high
    fall = find_step(curve([0.9, 0.8, 0.1, 0.1], 0.01), is_rise=False)
    assert fall == (3, 3.0, 3.0)


def test_a_step_equals_the_best_of_all_splits_by_squares() -> None:
    for seed in range(20):
        levels = np.random.default_rng(seed).uniform(size=7)
        explained = []
        for first in range(1, 7):
            parts = (levels[:first], levels[first:])
            left = sum(((part - part.mean()) ** 2).sum() for part in parts)
            rises = parts[1].mean() > parts[0].mean()
            explained.append(((levels - levels.mean()) ** 2).sum() - left if rises else -1)
        if max(explained) > 0:
            step = find_step(curve(list(levels), 0.0))
            assert step is not None
            assert step.layer == int(np.argmax(explained)) + 2


def test_one_layer_has_no_step_and_one_bucket_no_interval() -> None:
    assert find_step(curve([0.5], 0.1)) is None
    step = find_step(curve([0.1, 0.1, 0.9], 0.1, n=1))
    assert step is not None
    assert step.layer == 3
    assert np.isnan([step.low, step.high]).all()


def test_a_ratio_is_judged_by_logarithms() -> None:
    above, below = curve([0.6, 0.0], 0.02)[:, 0], curve([0.0, 0.2], 0.02)[:, 1]
    logs = [log(a / b) for a, b in zip(above, below, strict=True) if not np.isnan(a)]
    value, low, high = (exp(one) for one in slow_interval(logs))
    assert tuple(map(float, ratio_estimate(above, below))) == pytest.approx((value, low, high))
    assert np.isnan(ratio_estimate(above, np.zeros_like(below)).value)


def test_an_untrained_model_is_compared_bucket_by_bucket() -> None:
    """What both have in common cancels: the interval is narrower than that of either."""
    shared = curve([0.5, 0.5], 0.1)
    columns = untrained_columns(shared + 0.2, [shared, shared + 0.1])
    assert columns["untrained_difference"] == pytest.approx([0.15, 0.15])
    assert (
        np.isnan(columns["untrained_difference_low"]).all()
        or (columns["untrained_difference_high"] - columns["untrained_difference_low"] < 1e-9).all()
    )
    assert over_layers(shared, [1, 2])[0] == pytest.approx(shared[0].mean())


@pytest.mark.parametrize("n_layers", [(3, 3), (12, 6), (5, 7)])
def test_curves_of_two_models_correlate_as_plain_loops_say(n_layers: tuple[int, int]) -> None:
    draws = np.random.default_rng(0)
    one, other = (draws.random((4, n)) for n in n_layers)
    found = correlate(one, other)
    expected = [correlate_layers(a.tolist(), b.tolist()) for a, b in zip(one, other, strict=True)]
    assert found.tolist() == pytest.approx(expected)


def test_flat_or_short_curves_do_not_correlate() -> None:
    rising = np.arange(5.0)[None]
    assert np.isnan(correlate(rising, np.ones((1, 5)))).all()
    assert np.isnan(correlate(rising[:, :2], rising)).all()
