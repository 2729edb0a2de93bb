"""Whole parses from attention."""

import pandas as pd
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headscope.analyses.dependency.measure import Dependency
from headscope.analyses.trees.measure import Trees
from headscope.contracts import CorpusRole
from headscope.data.encoding import Encoding
from headscope.engine.measure import measure_examples
from headscope.options import RunOptions
from headscope.stats.bucket import N_FOLDS
from headscope.stats.tally import Tally
from tests.analyses.test_dependency import plant_trees
from tests.making import MadeSource, encode_words, make_example, random_maps
from tests.references import assert_equals_reference

EXAMPLES = [make_example(seed) for seed in range(40)]


def table(analysis: Trees, source: MadeSource) -> pd.DataFrame:
    result = measure_examples(EXAMPLES, source, [analysis], RunOptions(), CorpusRole.TREEBANK)
    return analysis.summarize(result.tallies["trees"])["trees"]


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
    found = Trees().summarize(result.tallies["trees"])["trees"]
    assert_equals_reference(found, "trees", maps, encodings)


def test_a_planted_head_gives_the_whole_tree() -> None:
    found = table(Trees(), MadeSource(plant_trees(1, 3, is_transposed=False)))
    best = found.loc[found.groupby("tree")["accuracy"].idxmax()].set_index("tree")
    for tree in ("undirected", "dependent-to-head"):
        assert best.loc[tree, ["layer", "head"]].tolist() == [2, 4]
        assert best.loc[tree, "accuracy"] > 0.99
    assert best.loc["head-to-dependent", "accuracy"] < 0.6


def test_combined_heads_find_what_each_alone_finds_in_part() -> None:
    """One head knows the arcs of even words, another, the other way round, those of odd words."""

    def maps(encoding: Encoding) -> torch.Tensor:
        whole, turned = plant_trees(0, 1, False)(encoding), plant_trees(2, 4, True)(encoding)
        is_even = torch.from_numpy(encoding.word_ids % 2 == 0)
        whole[0, 1][~is_even] = 0.01
        turned[2, 4][:, is_even] = 0.01
        whole[2, 4] = turned[2, 4]
        return whole

    heads = ((0, 1, 0), (2, 4, 1))
    source = MadeSource(maps)
    alone = table(Trees(), source)
    together = table(Trees(combine=True, chosen=(heads,) * N_FOLDS), source).set_index("tree")
    assert set(together["system"]) == {"best heads combined"}
    assert together.loc["dependent-to-head", "accuracy"] > 0.99
    assert alone.loc[alone["system"] == "head", "accuracy"].max() < 0.95


def test_the_best_heads_of_one_reading_are_combined_in_a_second() -> None:
    source = MadeSource(plant_trees(1, 3, is_transposed=False))
    options, role = RunOptions(), CorpusRole.TREEBANK
    first = Trees(combine=True)
    before = measure_examples(EXAMPLES, source, [Dependency(), first], options, role).tallies
    assert first.repeats_after == {"dependency"}
    again = first.repeat(before)
    assert not again.repeats_after
    after = measure_examples(EXAMPLES, source, [again], options, role).tallies
    tables = first.summarize(before["trees"])
    both = first.add_repeat(tables, again.summarize(after["trees"]))["trees"]
    assert len(both) == len(tables["trees"]) + 2
    combined = both[both["system"] == "best heads combined"].set_index("tree")
    assert combined.loc["dependent-to-head", "accuracy"] > 0.99


def test_nothing_repeats_unless_asked_for_and_no_words_choose_no_heads() -> None:
    assert not Trees().repeats_after
    assert Trees(combine=True).repeat({"dependency": Tally()}).chosen == ((),) * N_FOLDS
