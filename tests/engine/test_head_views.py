"""One example through the model: the right heads, by token and by word, with gold arcs."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from headscope.data.encoding import Encoding
from headscope.data.example import ROOT, Example, Tree
from headscope.engine.head_views import all_heads, view_heads
from headscope.errors import StudyError
from tests.making import N_HEADS, N_LAYERS, MadeSource, make_example, random_maps

SOURCE = MadeSource()
EXAMPLE = Example(
    "made:1",
    words=("the", "boat", "sails", "home"),
    tree=Tree((1, 2, ROOT, 2), ("det", "nsubj", "root", "obj")),
)


def encoding_of(example: Example) -> Encoding:
    return SOURCE.encode([example], 512)[0]


def test_the_heads_asked_for_come_in_their_order_as_the_model_has_them() -> None:
    maps = random_maps(encoding_of(EXAMPLE)).numpy()
    views = view_heads(SOURCE, EXAMPLE, [(2, 4), (0, 3)])
    assert [(view.layer, view.head) for view in views] == [(2, 4), (0, 3)]
    np.testing.assert_allclose(views[0].weights, maps[2, 4])
    np.testing.assert_allclose(views[1].weights, maps[0, 3])
    assert views[0].units == encoding_of(EXAMPLE).surfaces
    assert views[0].is_special == (True, *[False] * (len(views[0].units) - 2), True)


@pytest.mark.parametrize("seed", range(5))
def test_words_sum_what_is_attended_to_and_average_what_attends(seed: int) -> None:
    example = make_example(seed)
    encoding = encoding_of(example)
    (view,) = view_heads(SOURCE, example, [(1, 2)], by_words=True)
    assert view.units == ("[CLS]", *(example.words or ()), "[SEP]")
    np.testing.assert_allclose(view.weights.sum(-1), 1)
    tokens = random_maps(encoding).numpy()[1, 2]
    n_words = len(example.words or ())
    places = [
        [0],
        *([t for t, w in enumerate(encoding.word_ids) if w == n] for n in range(n_words)),
    ]
    places.append([len(encoding) - 1])
    for query, attending in enumerate(places):
        for key, attended in enumerate(places):
            expected = np.mean([sum(tokens[q, k] for k in attended) for q in attending])
            assert view.weights[query, key] == pytest.approx(expected)


def test_gold_arcs_lead_from_first_piece_to_first_piece() -> None:
    word_ids = encoding_of(EXAMPLE).word_ids.tolist()
    first = [word_ids.index(word) for word in range(4)]
    (view,) = view_heads(SOURCE, EXAMPLE, [(0, 0)])
    assert set(view.marked) == {(first[0], first[1]), (first[1], first[2]), (first[3], first[2])}
    (by_words,) = view_heads(SOURCE, EXAMPLE, [(0, 0)], by_words=True)
    assert set(by_words.marked) == {(1, 2), (2, 3), (4, 3)}


def test_one_relation_and_the_other_direction_can_be_marked() -> None:
    (view,) = view_heads(
        SOURCE, EXAMPLE, [(0, 0)], True, relation="obj", direction="head-to-dependent"
    )
    assert view.marked == ((3, 4),)


def test_a_text_without_a_tree_has_nothing_marked() -> None:
    (view,) = view_heads(SOURCE, Example("a", text="the boat"), [(0, 0)])
    assert view.marked == ()


def test_all_heads_are_those_of_the_model_or_of_a_layer() -> None:
    assert len(view_heads(SOURCE, EXAMPLE, all_heads(SOURCE))) == N_LAYERS * N_HEADS
    assert all_heads(SOURCE, 1) == [(1, head) for head in range(N_HEADS)]


class Unheard(MadeSource):
    """A source whose tokenizer makes nothing of anything."""

    def encode(self, examples: Sequence[Example], max_tokens: int) -> list[Encoding]:
        empty = np.zeros(0, dtype=np.int64)
        return [Encoding(example, {}, (), empty, empty) for example in examples]


@pytest.mark.parametrize(
    ("heads", "options", "message"),
    [
        ([(3, 0)], {}, "made has no head 4-1. Expected layers 1 to 3 and heads 1 to 5"),
        ([(0, 5)], {}, "no head 1-6"),
        ([(0, 0)], {"relation": "ob"}, "Did you mean 'obj'"),
        ([(0, 0)], {"direction": "up"}, "No direction 'up'"),
    ],
)
def test_what_is_not_there_is_refused(
    heads: list[tuple[int, int]], options: dict[str, str], message: str
) -> None:
    with pytest.raises(StudyError, match=message):
        view_heads(SOURCE, EXAMPLE, heads, **options)  # type: ignore[arg-type]


def test_texts_that_are_too_long_or_nothing_or_no_words_are_refused() -> None:
    with pytest.raises(StudyError, match="takes at most 6 tokens; made:1 has 7"):
        view_heads(replace(SOURCE, max_tokens=6), EXAMPLE, [(0, 0)])
    with pytest.raises(StudyError, match="returns no tokens"):
        view_heads(Unheard(), EXAMPLE, [(0, 0)])
    with pytest.raises(StudyError, match="its words are not known"):
        view_heads(SOURCE, Example("a", text="the boat"), [(0, 0)], by_words=True)
    with pytest.raises(StudyError, match="a sentence with a tree"):
        view_heads(SOURCE, Example("a", text="the boat"), [(0, 0)], relation="obj")
