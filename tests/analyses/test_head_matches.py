"""Matches of heads: found again from their totals, and what is printed of them."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from headscope.analyses.head_matches import HeadMatches, read_matches
from headscope.engine.measure import measure_examples
from headscope.errors import StudyError
from headscope.options import RunOptions, build_options
from headscope.runs.tables import make_tables
from headscope.stats.bucket import bucket_of
from tests.making import N_HEADS, N_LAYERS, MadeSource, make_example
from tests.references import head_matches as reference

EXAMPLES = [make_example(seed, n_words=3 + seed % 6) for seed in range(12)]


def match(n_layers: int) -> dict[str, pd.DataFrame]:
    """The first layers of the made model taken for one model, the others for another."""
    analysis = HeadMatches(n_layers=n_layers)
    result = measure_examples(EXAMPLES, MadeSource(), [analysis], RunOptions())
    rebuilt = build_options(HeadMatches, {"rows": 128})  # as from a manifest
    return make_tables(rebuilt, result.tallies["head-matches"])


@pytest.mark.parametrize("n_layers", [1, 2])
def test_totals_say_where_the_second_model_begins(n_layers: int) -> None:
    pairs = match(n_layers)["distance-between"]
    assert pairs["layer_a"].max() == n_layers
    assert pairs["layer_b"].max() == N_LAYERS - n_layers
    assert len(pairs) == n_layers * (N_LAYERS - n_layers) * N_HEADS**2


def test_matches_beside_chance_equal_all_ways_to_match() -> None:
    chance = match(1)["head-matches-chance"].set_index("matching")
    source = MadeSource()
    encodings = source.encode(EXAMPLES, 512)
    maps = [source.maps(encoding).numpy().astype(float) for encoding in encodings]
    buckets = [bucket_of(encoding.example) for encoding in encodings]
    examples = reference.diverge(maps, buckets, n_layers=1)
    expected = {
        "one to one, held out": reference.held_out(examples),
        "at random": reference.at_random(examples),
        "first model, its own other heads": reference.held_out(examples, is_own=True),
    }
    for name, numbers in expected.items():
        found = chance.loc[name, ["divergence", "low", "high"]].astype(float)
        np.testing.assert_allclose(found, numbers, rtol=1e-5, err_msg=name)
    again = chance.loc["first model with itself, other documents", ["divergence", "same_head"]]
    np.testing.assert_allclose(again.astype(float), reference.find_again(examples), rtol=1e-4)
    matched = reference.best_match(reference.add(example.across for example in examples))
    same = sum(j == i for i, j in matched) / len(matched)  # layer 1 of both: the same number
    assert chance.loc["one to one, held out", "same_head"] == same
    assert chance.loc["at random", "same_head"] == 1 / (N_HEADS * (N_LAYERS - 1))


def test_the_closest_matches_are_printed_first_and_the_rest_is_counted() -> None:
    matches = match(1)["head-matches"]
    many = pd.concat([matches] * 5, ignore_index=True)
    closest, summary = read_matches(many, 50)
    best = matches.sort_values("divergence").iloc[0]
    assert closest.rows[0][0] == f"{best['layer_a']}-{best['head_a']}"
    assert closest.rows[0][2].startswith(f"{best['divergence']:.3f} [")
    assert len(closest.rows) == 20
    assert closest.note == f"({len(many) - 20} more in the tables)"
    assert ("matched heads", str(len(many))) in summary.rows
    assert ("rank correlation of layers", "-") in summary.rows  # one layer has no order


def test_no_rows_at_all_are_refused() -> None:
    with pytest.raises(StudyError, match="rows=0 cannot be used"):
        replace(HeadMatches(), rows=0)
