"""Heads as resolvers of coreference: rules by hand, planted heads, decoders, real documents."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch

import headscope as hs
from headscope.analyses.coreference.measure import Coreference
from headscope.analyses.coreference.rules import SYSTEMS
from headscope.analyses.gap import Gap
from headscope.data.encoding import Encoding
from headscope.data.example import Example, Mention
from headscope.engine.measure import measure_examples
from headscope.options import RunOptions
from headscope.runs.tables import make_tables
from tests.making import MadeSource, encode_words, make_example, random_maps
from tests.references import assert_equals_reference

EXAMPLES = [make_example(seed, n_words=14) for seed in range(12)]
TEXT = "Ann saw the old boat . Tom painted the boat for them . She liked it"
WORDS = TEXT.split()


def mention(start: int, end: int, cluster: str, **known: str) -> Mention:
    return Mention(start, end, cluster, end - 1, **known)


ANN = mention(0, 1, "ann", gender="feminine", number="singular", person="3")
BOAT = mention(2, 5, "boat", number="singular", person="3")
TOM = mention(6, 7, "tom", gender="masculine", number="singular", person="3")
AGAIN = mention(8, 10, "boat", number="singular", person="3")
THEM = mention(11, 12, "them", number="plural", person="3")
SHE = mention(13, 14, "ann", gender="feminine", number="singular", person="3")
IT = mention(15, 16, "boat", gender="neuter", number="singular", person="3")
STORY = Example("story", words=tuple(WORDS), mentions=(ANN, BOAT, TOM, AGAIN, THEM, SHE, IT))


def best_of(analysis: Coreference, source: MadeSource | None = None) -> pd.DataFrame:
    options = RunOptions()
    result = measure_examples(EXAMPLES, source or MadeSource(), [analysis], options)
    return make_tables(analysis, result.tallies["coreference"])["coreference-best"]


def test_an_untrained_model_stands_beside_the_model_for_every_type_and_set_of_candidates() -> None:
    analysis = Coreference()
    sources = [MadeSource(partial(random_maps, seed=seed)) for seed in range(3)]
    own, *draws = (
        measure_examples(EXAMPLES, source, [analysis], RunOptions()).tallies["coreference"]
        for source in sources
    )
    found = make_tables(analysis, own, draws)["coreference-best"]
    untrained = [make_tables(analysis, draw)["coreference-best"] for draw in draws]
    mean = np.mean([table["heldout_accuracy"].to_numpy(float) for table in untrained], axis=0)
    np.testing.assert_allclose(found["untrained_accuracy"], mean)
    gain = found["heldout_accuracy"].to_numpy(float) - mean
    np.testing.assert_allclose(found["untrained_difference"], gain, atol=1e-12)


def test_what_rules_find_with_singletons_stands_beside_what_they_find_without() -> None:
    own, other = (best_of(Coreference(singletons=single)) for single in (False, True))
    for rule in ("nearest", "head_match", "rule_based"):
        assert own[f"{rule}_with_singletons"].tolist() == other[rule].tolist()
    assert own["nearest"].tolist() != other["nearest"].tolist()
    n_single = sum(m.is_singleton for e in EXAMPLES for m in e.mentions or ())
    assert set(own["singletons"]) == {n_single}


def test_links_are_measured_in_words() -> None:
    result = measure_examples([STORY], MadeSource(), [Coreference()], RunOptions())
    table = make_tables(Coreference(), result.tallies["coreference"])["coreference-length"]
    links = [9 - 4, 13 - 0, 15 - 9]  # the boat, She, it
    assert table.set_index("mention_type").loc["all", "words"] == pytest.approx(sum(links) / 3)


def test_attention_to_the_first_word_can_be_ignored() -> None:
    def sink(encoding: Encoding) -> torch.Tensor:
        maps = torch.zeros(3, 5, len(encoding), len(encoding))
        maps[..., 1] = 1  # all look at the first word
        return maps

    source = MadeSource(sink, pieces=lambda word, place: 1)
    found = {}
    for ignore in (False, True):
        analysis = Coreference(ignore_first_word=ignore)
        result = measure_examples([STORY], source, [analysis], RunOptions())
        table = make_tables(analysis, result.tallies["coreference"])["coreference"]
        rows = table.query("system == 'head' and direction == 'mention-to-antecedent'")
        found[ignore] = rows[rows["mention_type"] == "all"]["correct"].max()
    assert found == {False: 1, True: 0}  # She, whose antecedent is the first word


@pytest.mark.parametrize(
    ("asked", "candidates", "nearest", "same_head", "sieves"),
    [
        (AGAIN, [TOM, BOAT, ANN], TOM, BOAT, BOAT),  # second sieve: the head word
        (SHE, [THEM, AGAIN, TOM, BOAT, ANN], THEM, None, AGAIN),  # third: nothing speaks against
        (SHE, [THEM, TOM, ANN], THEM, None, ANN),  # third: number, then gender
        (THEM, [AGAIN, TOM], AGAIN, None, AGAIN),  # fourth: any
        (TOM, [], None, None, None),
    ],
)
def test_rules_choose_as_they_say(
    asked: Mention,
    candidates: list[Mention],
    nearest: Mention | None,
    same_head: Mention | None,
    sieves: Mention | None,
) -> None:
    found = [pick(asked, candidates, WORDS) for pick in SYSTEMS.values()]
    assert found == [nearest, same_head, sieves]


def test_the_first_sieve_is_the_whole_string_before_a_nearer_head() -> None:
    words = ["the", "boat", ",", "the", "red", "boat", ",", "The", "Boat"]
    whole, red, asked = Mention(0, 2, "a", 1), Mention(3, 6, "b", 5), Mention(7, 9, "a", 8)
    assert SYSTEMS["head-match"](asked, [red, whole], words) == red
    assert SYSTEMS["rule-based"](asked, [red, whole], words) == whole


def test_the_story_is_counted_by_type_and_distance() -> None:
    result = measure_examples([STORY], MadeSource(), [Coreference()], RunOptions())
    tables = make_tables(Coreference(), result.tallies["coreference"])
    rules = tables["coreference"].query("system == 'rule-based' and mention_type == 'all'")
    # asked: the boat (right by its head), She (wrong: the boat is nearer), it (right: She is not)
    assert rules[["correct", "count"]].to_numpy().tolist() == [[2, 3]]
    nearest = tables["coreference-distance"].query("system == 'nearest'").set_index("distance")
    assert nearest["count"].to_dict() == {"1-4": 0, "5-9": 2, "10-19": 1, "20-49": 0, "50+": 0}


def test_things_mentioned_once_compete_only_when_asked_to() -> None:
    single = [
        Mention(0, 1, "ann", 0),
        Mention(1, 2, "once", 1, is_singleton=True),
        Mention(2, 3, "ann", 2),
    ]
    example = Example("s", words=("Ann", "Bea", "she"), mentions=tuple(single))
    for singletons, expected in ((False, 1), (True, 0)):
        analysis = Coreference(singletons=singletons)
        result = measure_examples([example], MadeSource(), [analysis], RunOptions())
        table = make_tables(analysis, result.tallies["coreference"])["coreference"]
        nearest = table.query("system == 'nearest' and mention_type == 'all'")
        assert nearest["correct"].item() == expected


def test_distances_and_contrasts_equal_the_slow_reference() -> None:
    encodings = [encode_words(example) for example in EXAMPLES]
    maps = [random_maps(encoding).numpy() for encoding in encodings]
    result = measure_examples(EXAMPLES, MadeSource(), [Coreference()], RunOptions())
    tables = make_tables(Coreference(), result.tallies["coreference"])
    for name in ("coreference-distance", "coreference-contrasts"):
        assert_equals_reference(tables[name], name, maps, encodings)


def test_words_without_tokens_neither_ask_nor_compete() -> None:
    def pieces(word: str, place: int) -> int:
        return 0 if place % 4 == 1 else 1

    source = MadeSource(pieces=pieces)
    encodings = source.encode(EXAMPLES, 512)
    maps = [random_maps(encoding).numpy() for encoding in encodings]
    for analysis in (Coreference(), Gap()):
        result = measure_examples(EXAMPLES, source, [analysis], RunOptions())
        table = make_tables(analysis, result.tallies[analysis.name])[analysis.name]
        assert_equals_reference(table, analysis.name, maps, encodings)


def plant(encoding: Encoding, direction: str) -> torch.Tensor:
    """Random maps in which head 2-4 ties mentions to those of their cluster before them."""
    maps = random_maps(encoding)
    tokens = [
        np.flatnonzero(encoding.word_ids == w) for w in range(len(encoding.example.words or ()))
    ]
    mentions = encoding.example.mentions or ()
    for one in mentions:
        for other in mentions:
            if other.cluster == one.cluster and other.head < one.head:
                pair = (one.head, other.head) if direction == "row" else (other.head, one.head)
                for query in tokens[pair[0]]:
                    for key in tokens[pair[1]]:
                        maps[1, 3, query, key] += 5
    return maps / maps.sum(-1, keepdim=True)


@pytest.mark.parametrize(
    ("direction", "name"), [("row", "mention-to-antecedent"), ("column", "antecedent-to-mention")]
)
def test_a_planted_head_is_found_and_scores_held_out(direction: str, name: str) -> None:
    source = MadeSource(lambda encoding: plant(encoding, direction))
    run = hs.analyze(source, coref=EXAMPLES, only=["coreference"], progress=False, max_tokens=256)
    best = run.tables["coreference-best"].set_index(["mention_type", "candidates"])
    row = best.loc[("all", "mentions")]
    assert (row["layer"], row["head"], row["direction"]) == (2, 4, name)
    assert row["accuracy"] == row["heldout_accuracy"] > 0.85  # some words head several mentions
    assert row["difference_low"] > 0


def causal(encoding: Encoding) -> torch.Tensor:
    maps = random_maps(encoding).tril()
    return maps / maps.sum(-1, keepdim=True)


def test_in_a_decoder_antecedents_cannot_attend_ahead() -> None:
    source = MadeSource(causal)
    result = measure_examples(EXAMPLES, source, [Coreference()], RunOptions())
    table = make_tables(Coreference(), result.tallies["coreference"])["coreference"]
    by_direction = table.groupby("direction")["correct"].sum()
    assert by_direction["antecedent-to-mention"] == 0
    assert by_direction["mention-to-antecedent"] > 0


def gap_examples(genders: Sequence[str]) -> list[Example]:
    return [
        Example(
            f"g{i}",
            words=("Kim", "met", "Lou", "as", "X", "left"),
            mentions=(
                Mention(4, 5, "right", 4, "pronoun", gender=gender),
                Mention(0, 1, "right", 0, "proper"),
                Mention(2, 3, "wrong", 2, "proper"),
            ),
        )
        for i, gender in enumerate(genders)
    ]


def test_gap_says_who_is_favoured() -> None:
    """A head that finds Kim for men, and for every other woman."""
    examples = gap_examples(["masculine", "feminine"] * 10)

    def maps(encoding: Encoding) -> torch.Tensor:
        weights = 0.01 * random_maps(encoding)
        weights[:, :, 5, 3] = weights[:, :, 3, 5] = 1  # tokens: [CLS], then one a word
        if int(encoding.example.id[1:]) % 4 != 3:
            weights[0, 2, 5, 1] = 2
        return weights / weights.sum(-1, keepdim=True)

    source = MadeSource(maps, pieces=lambda word, place: 1)
    result = measure_examples(examples, source, [Gap()], RunOptions())
    best = make_tables(Gap(), result.tallies["gap"])["gap-best"].set_index(["system", "candidates"])
    row = best.loc[("best head", "mentions")]
    assert (row["layer"], row["head"], row["count"]) == (1, 3, 20)
    assert (row["masculine"], row["feminine"], row["ratio"]) == (1.0, 0.5, 0.5)
    assert row["ratio_low"] < 0.5 < row["ratio_high"] < 1
    assert best.loc[("nearest", "mentions"), "accuracy"] == 0
