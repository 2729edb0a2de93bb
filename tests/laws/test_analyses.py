"""What holds of every registered analysis."""

import pickle
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headscope.contracts import Analysis
from headscope.data.encoding import Encoding
from headscope.data.example import Example
from headscope.data.rows import AttentionRows
from headscope.data.tally import Tally
from headscope.registry import ANALYSES
from headscope.runs.engine import Result, measure_examples
from headscope.runs.study import Options, build_analysis, compares_layers
from tests.making import (
    N_HEADS,
    N_LAYERS,
    MadeSource,
    encode_words,
    make_example,
    random_attention,
    random_maps,
)
from tests.references import VALUE_COLUMN, assert_equals_reference

OPTIONS = Options(replicates=7)
EXAMPLES = [make_example(seed) for seed in range(24)]

# Ablation is shown changes of answers, not maps; tests/models/test_ablation.py has its laws.
NAMES = [name for name in ANALYSES.built_in if name != "ablation"]
every_analysis = pytest.mark.parametrize("name", NAMES)


def measure(
    examples: Sequence[Example], name: str, source: MadeSource | None = None, **options: int
) -> Result:
    analyses = [build_analysis(name)]
    settings = Options(**{"replicates": 7, **options})
    return measure_examples(examples, source or MadeSource(), analyses, settings)


def table_of(result: Result, name: str) -> pd.DataFrame:
    return tables_of(result, name)[name]


def tables_of(result: Result, name: str) -> Mapping[str, pd.DataFrame]:
    return build_analysis(name).summarize(result.tallies[name])


def assert_same_totals(one: Tally, other: Tally) -> None:
    assert one.totals.keys() == other.totals.keys()
    for key, total in one.totals.items():
        np.testing.assert_allclose(other.totals[key], total, rtol=1e-12, atol=1e-12)


@every_analysis
def test_measure_leaves_its_input_unchanged(name: str) -> None:
    analysis = build_analysis(name)
    attention = random_attention([make_example(seed, n_words=6) for seed in range(3)])
    weights = attention.weights
    before = weights.clone()
    if compares_layers(analysis):
        rows = AttentionRows(weights.transpose(1, 2), (N_HEADS,), attention.batch)
        analysis.measure_layers(rows)
    else:
        analysis.measure(attention)
    assert torch.equal(weights, before)


@every_analysis
@settings(max_examples=20)
@given(data=st.data())
def test_any_partition_into_shards_adds_up_to_the_whole(name: str, data: st.DataObject) -> None:
    parts = data.draw(st.lists(st.integers(0, 3), min_size=len(EXAMPLES), max_size=len(EXAMPLES)))
    sums = Result()
    for part in sorted(set(parts)):
        shard = [e for e, p in zip(EXAMPLES, parts, strict=True) if p == part]
        sums = sums + measure(shard, name)
    whole = measure(EXAMPLES, name)
    assert_same_totals(whole.tallies[name], sums.tallies[name])
    assert sums.account.used == whole.account.used == len(EXAMPLES)


@every_analysis
@settings(max_examples=20)
@given(order=st.permutations(EXAMPLES), batch_tokens=st.integers(1, 200))
def test_order_and_batch_size_do_not_matter(
    name: str, order: list[Example], batch_tokens: int
) -> None:
    whole = measure(EXAMPLES, name)
    other = measure(order, name, batch_tokens=batch_tokens)
    assert_same_totals(whole.tallies[name], other.tallies[name])


def in_order(table: pd.DataFrame) -> pd.DataFrame:
    """Of a pair of heads the first one first."""
    if "head_a" in table:
        one, other = ["layer_a", "head_a"], ["layer_b", "head_b"]
        ends = [list(map(tuple, table[end].to_numpy())) for end in (one, other)]
        is_swapped = np.array([a > b for a, b in zip(*ends, strict=True)])
        table.loc[is_swapped, one + other] = table.loc[is_swapped, other + one].to_numpy()
    return table


@every_analysis
def test_permuting_heads_permutes_the_table(name: str) -> None:
    order = [3, 0, 4, 1, 2]

    def permuted(encoding: Encoding) -> torch.Tensor:
        return random_maps(encoding)[:, order]

    table = table_of(measure(EXAMPLES, name), name)
    moved = table_of(measure(EXAMPLES, name, MadeSource(permuted)), name)
    for column in {"head", "head_a", "head_b"} & set(moved.columns):
        moved[column] = moved[column].map(lambda head: order[head - 1] + 1, na_action="ignore")
    moved = in_order(moved.astype(table.dtypes))
    labels = [c for c in table.columns if c not in table.select_dtypes("float").columns]
    both = [t.sort_values(labels).reset_index(drop=True) for t in (table, moved)]
    pd.testing.assert_frame_equal(*both)


@every_analysis
@pytest.mark.parametrize("n_words", [1, 2, 7])
@pytest.mark.parametrize("n_pieces", [1, 3])
def test_tables_cover_every_layer_and_head(name: str, n_words: int, n_pieces: int) -> None:
    source = MadeSource(pieces=lambda word, place: n_pieces)
    examples = [make_example(seed, n_words) for seed in range(4)]
    table = table_of(measure(examples, name, source), name)
    ends = [("layer", "head"), ("layer_a", "head_a"), ("layer_b", "head_b")]
    columns = [table[[*end]].dropna() for end in ends if end[0] in table]
    found = {(layer, head) for part in columns for layer, head in part.to_numpy().tolist()}
    assert found == {
        (layer, head) for layer in range(1, N_LAYERS + 1) for head in range(1, N_HEADS + 1)
    }


@every_analysis
def test_no_examples_give_an_empty_table_with_the_same_columns(name: str) -> None:
    analysis = build_analysis(name)
    tables = analysis.summarize(Tally())
    assert {table: tuple(t.columns) for table, t in tables.items()} == analysis.tables
    assert all(len(table) == 0 for table in tables.values())


@every_analysis
def test_tables_have_the_declared_columns(name: str) -> None:
    tables = tables_of(measure(EXAMPLES, name), name)
    assert {table: tuple(t.columns) for table, t in tables.items()} == build_analysis(name).tables


@every_analysis
def test_analyses_pickle(name: str) -> None:
    analysis: Analysis = build_analysis(name)
    assert pickle.loads(pickle.dumps(analysis)) == analysis


@every_analysis
def test_tables_equal_the_slow_reference(name: str) -> None:
    encodings = [encode_words(example) for example in EXAMPLES]
    maps = [random_maps(encoding).numpy() for encoding in encodings]
    assert_equals_reference(table_of(measure(EXAMPLES, name), name), name, maps, encodings)


@every_analysis
def test_without_replicates_there_are_no_intervals(name: str) -> None:
    table = table_of(measure(EXAMPLES, name, replicates=0), name)
    assert table[["low", "high"]].isna().all(axis=None)


@every_analysis
def test_intervals_hold_the_estimate(name: str) -> None:
    table = table_of(measure(EXAMPLES, name, replicates=200), name).dropna()
    value = VALUE_COLUMN[name]
    assert ((table["low"] <= table[value]) & (table[value] <= table["high"])).mean() > 0.98
