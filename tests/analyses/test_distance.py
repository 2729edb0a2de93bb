"""Distances between heads: planted twins, sampled rows, layers tested."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
import torch

from headscope.analyses.distance.measure import Distance
from headscope.analyses.distance.tables import permutation_test
from headscope.data.attention import heads_per_layer
from headscope.data.encoding import Encoding
from headscope.engine.analyze import analyze
from headscope.engine.measure import Result, _Observer, measure_examples, name_analyses
from headscope.errors import StudyError
from headscope.options import RunOptions, collect_options
from headscope.runs.tables import make_tables
from tests.making import N_HEADS, N_LAYERS, MadeSource, encode_words, make_example, random_maps
from tests.planted import TWINS, plant_twins
from tests.references.distance import distance, jensen_shannon

EXAMPLES = [make_example(seed, n_words=3 + seed % 6) for seed in range(30)]


def tables(source: MadeSource, rows: int = 128, **options: int) -> dict[str, pd.DataFrame]:
    analysis = Distance(rows, seed=options.get("seed", 0))
    result = measure_examples(EXAMPLES, source, [analysis], RunOptions(**options))
    return make_tables(analysis, result.tallies["distance"])


def layered(encoding: Encoding) -> torch.Tensor:
    """Heads that share most of their attention with the other heads of their layer."""
    maps = random_maps(encoding)
    return 0.7 * random_maps(encoding, seed=1)[:, :1] + 0.3 * maps


def test_planted_twins_are_each_other_s_nearest() -> None:
    found = tables(MadeSource(plant_twins))["distance-nearest"]
    first = found[found["rank"] == 1].set_index(["layer", "head"])
    for (layer, head), (other_layer, other_head) in permutations(TWINS, 2):
        row = first.loc[(layer + 1, head + 1)]
        assert (row["other_layer"], row["other_head"]) == (other_layer + 1, other_head + 1)
        assert row["high"] < 0.01


def test_nearest_heads_are_the_closest_pairs_in_order() -> None:
    found = tables(MadeSource())
    pairs, nearest = found["distance"], found["distance-nearest"]
    both = pd.concat(
        [
            pairs.set_axis(
                ["layer", "head", "other_layer", "other_head", *pairs.columns[4:]], axis=1
            ),
            pairs.set_axis(
                ["other_layer", "other_head", "layer", "head", *pairs.columns[4:]], axis=1
            ),
        ]
    )
    for (layer, head), rows in nearest.groupby(["layer", "head"]):
        own = both[(both["layer"] == layer) & (both["head"] == head)]
        assert rows["divergence"].tolist() == own["divergence"].nsmallest(len(rows)).tolist()
        assert rows["rank"].tolist() == [1, 2, 3, 4, 5]


def test_sums_of_all_pairs_need_no_second_float() -> None:
    source, half = MadeSource(), len(EXAMPLES) // 2
    first, *others = (
        measure_examples(part, source, [Distance(128)], RunOptions()).tallies["distance"]
        for part in (EXAMPLES[:half], EXAMPLES[half:], EXAMPLES[3:], EXAMPLES[5:])
    )
    for other in others:
        first += other
    assert "divergence" not in first.rests
    assert first.totals["divergence"].any()


def test_means_within_and_between_layers_equal_plain_means() -> None:
    encodings = [encode_words(example) for example in EXAMPLES]
    expected = distance([random_maps(e).numpy() for e in encodings], encodings)
    found = tables(MadeSource())
    for row in found["distance-heads"].to_dict("records"):
        own = {True: [], False: []}  # type: ignore[var-annotated]
        for key, value in expected.items():
            if (row["layer"], row["head"]) in (key[:2], key[2:]):
                own[key[0] == key[2]].append(value)
        assert row["within"] == pytest.approx(np.mean(own[True]))
        assert row["between"] == pytest.approx(np.mean(own[False]))
    whole = found["distance-layers"].iloc[0]
    assert pd.isna(whole["layer"])
    assert whole["within"] == pytest.approx(
        np.mean([v for k, v in expected.items() if k[0] == k[2]])
    )
    assert whole["between"] == pytest.approx(
        np.mean([v for k, v in expected.items() if k[0] != k[2]])
    )
    third = found["distance-layers"].set_index("layer").loc[3]
    inside = [v for k, v in expected.items() if k[0] == k[2] == 3]
    across = [v for k, v in expected.items() if (k[0] == 3) != (k[2] == 3)]
    assert third["within"] == pytest.approx(np.mean(inside))
    assert third["between"] == pytest.approx(np.mean(across))


def test_layers_of_like_heads_are_closer_than_chance_and_random_ones_are_not() -> None:
    alike = tables(MadeSource(layered))["distance-layers"]
    assert alike["p_value"].iloc[0] < 0.001
    assert (alike["p_value"].iloc[1:] < 0.01).all()
    chance = tables(MadeSource())["distance-layers"]
    assert (chance["p_value"] > 0.01).all()


def test_the_p_value_is_the_share_of_deals_that_are_as_close() -> None:
    """Four heads in two layers: three ways to deal them, each as likely."""
    matrix = np.array([[0, 1, 5, 6], [1, 0, 7, 8], [5, 7, 0, 2], [6, 8, 2, 0]], dtype=float)
    p_all, p_layers = permutation_test(matrix, np.array([2, 2]))
    assert p_all == pytest.approx(1 / 3, abs=0.02)
    # a layer gets one of six pairs: the closest once, the second closest or closer twice
    assert p_layers == pytest.approx([1 / 6, 2 / 6], abs=0.02)
    assert np.isnan(permutation_test(matrix, np.array([1, 1, 1, 1]))[0])


def test_the_seed_of_the_test_of_layers_is_the_one_given() -> None:
    result = measure_examples(EXAMPLES, MadeSource(), [Distance()], RunOptions())
    found = [make_tables(Distance(seed=seed), result.tallies["distance"]) for seed in (0, 0, 1)]
    p_values = [tables["distance-layers"]["p_value"].tolist() for tables in found]
    assert p_values[0] == p_values[1] != p_values[2]
    assert p_values[0] == pytest.approx(p_values[2], abs=0.1)
    assert "seed" not in collect_options(Distance)  # the run's, no option of its own


def test_sampled_rows_estimate_the_same_mean() -> None:
    whole, sampled = (tables(MadeSource(), rows)["distance"] for rows in (128, 3))
    difference = (whole["divergence"] - sampled["divergence"]).abs()
    assert 0 < difference.max() < 0.05
    assert (sampled["high"] - sampled["low"]).mean() > (whole["high"] - whole["low"]).mean()


def test_sampled_rows_depend_on_the_seed_and_not_on_the_batch() -> None:
    one = tables(MadeSource(), rows=2, batch_tokens=1)["distance"]
    same = tables(MadeSource(), rows=2, batch_tokens=500)["distance"]
    other = tables(MadeSource(), rows=2, seed=3)["distance"]
    pd.testing.assert_frame_equal(one, same)
    assert not np.allclose(one["divergence"], other["divergence"])


def test_long_examples_count_by_all_their_rows() -> None:
    """A short example in which heads agree, and a long one in which two are far apart."""

    def maps(encoding: Encoding) -> torch.Tensor:
        n = len(encoding)
        made = torch.full((N_LAYERS, N_HEADS, n, n), 1 / n, dtype=torch.float64)
        if n > 5:
            made[0, 0] = torch.eye(n, dtype=torch.float64)
        return made

    source = MadeSource(maps, pieces=lambda word, place: 1)
    examples = [make_example(1, n_words=1), make_example(2, n_words=7)]  # 3 and 9 tokens
    for rows in (128, 2):
        result = measure_examples(examples, source, [Distance(rows)], RunOptions())
        found = make_tables(Distance(rows), result.tallies["distance"])["distance"]
        apart = jensen_shannon([1.0] + [0.0] * 8, [1 / 9] * 9)
        assert found["divergence"].max() == pytest.approx(9 * apart / 12)


def test_no_rows_at_all_are_refused() -> None:
    with pytest.raises(StudyError, match="rows=0 cannot be used"):
        Distance(rows=0)


# --- models of many heads -----------------------------------------------------------------------


def test_of_more_heads_than_are_compared_each_layer_has_as_many_evenly_spread() -> None:
    whole = tables(MadeSource())["distance"]
    settings = RunOptions()
    some = Distance(max_heads=2 * N_LAYERS + 1)
    result = measure_examples(EXAMPLES, MadeSource(), [some], settings)
    found = make_tables(some, result.tallies["distance"])
    assert N_HEADS == 5
    assert {*found["distance-heads"]["head"]} == {1, 3}  # the first, and one from the middle
    assert len(found["distance-heads"]) == 2 * N_LAYERS
    columns = ["layer_a", "head_a", "layer_b", "head_b"]
    both = found["distance"].merge(whole, on=columns, suffixes=("", "_whole"))
    assert len(both) == len(found["distance"]) == 15
    np.testing.assert_allclose(both["divergence"], both["divergence_whole"])


def test_a_run_says_how_many_heads_it_compares(caplog: pytest.LogCaptureFixture) -> None:
    run = analyze(MadeSource(), text=EXAMPLES, only="distance", max_heads=7, progress=False)
    said = "'distance' compares 2 of the 5 heads of each layer"
    assert said in caplog.text
    assert said in run.manifest["left_out"]["distance"]


@pytest.mark.parametrize(("n_layers", "n_heads"), [(32, 32), (80, 64)])
def test_rows_of_many_heads_take_bounded_memory(
    n_layers: int, n_heads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most 512 MB, whatever the model: fewer heads of more, and smaller batches."""
    source = replace(MadeSource(), n_layers=n_layers, n_heads=n_heads)
    observer = _Observer(source, name_analyses([Distance()]), RunOptions(), Result())
    (sampled,) = Distance().reads
    assert n_layers * heads_per_layer(n_heads, n_layers, sampled.max_heads) <= 1024
    tokens = observer.most_tokens
    assert 4 * tokens * sampled.numbers_per_token(n_layers, n_heads, 512) <= 512_000_000
    assert tokens >= 512  # of a batch that has one long example


def test_large_models_are_compared_in_smaller_batches_with_the_same_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = tables(MadeSource())["distance"]
    monkeypatch.setattr("headscope.engine.measure.ROW_NUMBERS", 128 * N_LAYERS * N_HEADS * 9)
    small = tables(MadeSource())["distance"]  # nine tokens a batch: an example at a time
    pd.testing.assert_frame_equal(whole, small)
