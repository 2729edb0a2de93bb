"""What holds of every analysis that says which examples show a head best."""

from functools import cache

import numpy as np
import pytest

from headscope.contracts import Analysis, Watch
from headscope.data.example import Example, stable_hash
from headscope.engine.measure import measure_examples
from headscope.engine.resolve import build_analysis
from headscope.options import RunOptions
from headscope.registry import ANALYSES
from headscope.stats.ranking import ENDS, Ranking
from tests.making import N_HEADS, N_LAYERS, MadeSource, make_example, make_pair

KINDS = {name: type(build_analysis(name)) for name in ANALYSES.built_in}
RANKED = [name for name, kind in KINDS.items() if kind.rank is not Analysis.rank]
ACROSS = [n for n in RANKED if build_analysis(n).watches is Watch.CROSS_ATTENTION]


@cache
def examples_of(name: str) -> list[Example]:
    return [(make_pair if name in ACROSS else make_example)(seed) for seed in range(24)]


def rank(name: str, chosen: list[int], batch_tokens: int = 2048) -> Ranking:
    analysis = build_analysis(name)
    examples = [examples_of(name)[number] for number in chosen]
    options = RunOptions(batch_tokens=batch_tokens)
    source = MadeSource(emits=Watch.CROSS_ATTENTION if name in ACROSS else Watch.ATTENTION)
    return measure_examples(examples, source, [analysis], options).rankings[name]


@pytest.mark.parametrize("name", RANKED)
def test_a_ranking_is_what_sorting_the_examples_one_by_one_gives(name: str) -> None:
    whole = rank(name, list(range(24)))
    alone = {stable_hash(e.id): rank(name, [n], 1) for n, e in enumerate(examples_of(name))}
    assert whole.ids, "nothing was ranked"
    for role, ids in whole.ids.items():
        assert ids.shape[2:4] == (N_LAYERS, N_HEADS)
        for place in np.ndindex(*ids.shape[2:]):
            for end in ENDS:
                scores = {
                    key: found[0][1]
                    for key, ranking in alone.items()
                    if (found := ranking.find(role, end, place))
                }
                sign = -1 if end == "best" else 1
                ordered = sorted(scores, key=lambda k: (sign * round(scores[k], 3), -k))
                found = whole.find(role, end, place)
                assert [round(score, 3) for _, score in found] == [
                    round(scores[key], 3) for key in ordered[:2]
                ]


@pytest.mark.parametrize("name", RANKED)
def test_parts_in_any_order_rank_as_the_whole(name: str) -> None:
    whole = rank(name, list(range(24)))
    parts = rank(name, list(range(23, 9, -1))) + rank(name, list(range(10)), 64)
    assert whole.ids.keys() == parts.ids.keys()
    for role, ids in whole.ids.items():
        np.testing.assert_array_equal(ids, parts.ids[role])


def test_the_analyses_of_sections_three_and_four_and_of_cross_attention_rank_examples() -> None:
    paper = ("position", "special-tokens", "entropy", "dependency", "coreference")
    of_others = ("induction", "sinks", "reach")
    assert set(RANKED) == {*paper, *of_others, "monotonicity", "word-alignment"}
