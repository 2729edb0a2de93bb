"""Whole parses from attention."""

import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from headscope.analyses.trees import Trees
from headscope.contracts import CorpusRole
from headscope.engine.measure import measure_examples
from headscope.options import RunOptions
from headscope.runs.tables import make_tables
from tests.analyses.test_dependency import plant_trees
from tests.making import MadeSource, encode_words, make_example, random_maps
from tests.references import assert_equals_reference

EXAMPLES = [make_example(seed) for seed in range(40)]


def table(analysis: Trees, source: MadeSource) -> pd.DataFrame:
    result = measure_examples(EXAMPLES, source, [analysis], RunOptions(), CorpusRole.TREEBANK)
    return make_tables(analysis, result.tallies["trees"])["trees"]


@settings(max_examples=15)
@given(
    seeds=st.lists(st.integers(0, 10_000), min_size=2, max_size=4, unique=True),
    cuts=st.lists(st.integers(0, 3), min_size=1, max_size=7),
)
def test_any_splits_equal_the_reference(seeds: list[int], cuts: list[int]) -> None:
    def pieces(word: str, place: int) -> int:
        return cuts[place % len(cuts)] if place else 1

    examples = [make_example(1, n_words=1), *(make_example(seed, n_words=7) for seed in seeds)]
    encodings = [encode_words(example, pieces) for example in examples]
    if not any(len(set(encoding.word_ids)) > 6 for encoding in encodings):
        return  # no arc is left to score
    maps = [random_maps(encoding).numpy() for encoding in encodings]
    options = RunOptions()
    result = measure_examples(
        examples, MadeSource(pieces=pieces), [Trees()], options, CorpusRole.TREEBANK
    )
    found = make_tables(Trees(), result.tallies["trees"])["trees"]
    assert_equals_reference(found, "trees", maps, encodings)


def test_a_planted_head_gives_the_whole_tree() -> None:
    found = table(Trees(), MadeSource(plant_trees(1, 3, is_transposed=False)))
    best = found.loc[found.groupby("tree")["accuracy"].idxmax()].set_index("tree")
    for tree in ("undirected", "dependent-to-head"):
        assert best.loc[tree, ["layer", "head"]].tolist() == [2, 4]
        assert best.loc[tree, "accuracy"] > 0.99
    assert best.loc["head-to-dependent", "accuracy"] < 0.6
