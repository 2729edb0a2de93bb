"""What a head is labelled with."""

import pandas as pd
import pytest

from headscope.errors import StudyError
from headscope.view.behaviour import (
    behaviour_table,
    find_kind,
    find_notable_heads,
    label_heads,
    list_kinds,
    list_thresholds,
)
from headscope.view.card import cards_of_kind

HEADS = pd.DataFrame({"layer": [1, 1, 2], "head": [1, 2, 1]})


def weights(target: str, *values: float, **columns: str) -> pd.DataFrame:
    return HEADS.assign(target=target, weight=values, low=values, high=values, **columns)


def best(
    relation: str,
    layer: int,
    head: int,
    p_value: float,
    gain: float = 0.1,
    count: int = 50,
    chosen_in: int = 4,
) -> pd.DataFrame:
    row = {"relation": relation, "layer": layer, "head": head, "count": count}
    row |= {"chosen_in": chosen_in, "folds": 8}
    return pd.DataFrame([{**row, "p_value": p_value, "heldout_difference": gain}])


def labels(tables: dict[str, pd.DataFrame], **thresholds: float) -> list[str]:
    return label_heads(HEADS, tables, thresholds)["behaviours"].tolist()


def test_a_head_has_every_label_that_applies_and_the_first_is_the_main_one() -> None:
    tables = {
        "position": weights("previous", 0.9, 0.2, 0.1),
        "special-tokens": weights("sep", 0.7, 0.65, 0.1, source="all"),
        "dependency-best": pd.concat([best("det", 1, 2, 0.001), best("det", 1, 1, 0.001)]),
    }
    found = label_heads(HEADS, tables)
    assert found["behaviours"].tolist() == [
        "previous token; closing tokens (sep); det",
        "closing tokens (sep); det",
        "other",
    ]
    assert found["behaviour"].tolist() == ["previous token", "closing tokens (sep)", "other"]


def test_breadth_is_a_share_of_even_attention_and_comes_last() -> None:
    entropy = HEADS.assign(rows="all", nats=[2.0, 1.9, 1.0], low=0.0, high=0.0, uniform=2.4)
    shares = {"share": entropy["nats"] / 2.4, "share_low": 0.0, "share_high": 0.0}
    entropy = entropy.assign(**shares)
    tables = {"entropy": entropy, "dependency-best": best("obj", 1, 1, 0.01)}
    assert labels(tables) == ["obj; everything, broadly", "everything, broadly", "other"]
    assert labels(tables, broad=4.0) == ["obj; everything, broadly", "other", "other"]


@pytest.mark.parametrize(
    ("row", "is_labelled"),
    [
        (best("obj", 1, 1, 0.01), True),
        (best("obj", 1, 1, 0.2), False),  # may be chance
        (best("obj", 1, 1, 0.01, gain=-0.1), False),  # an offset does better
        (best("all", 1, 1, 0.01), False),  # no relation of its own
        (best("punct", 1, 1, 0.01), False),  # says little of a head
        (best("obj", 1, 1, 0.01, count=49), False),  # too few words
        (best("obj", 1, 1, 0.01, chosen_in=3), False),  # most folds chose another head
    ],
)
def test_only_relations_better_than_offsets_count(row: pd.DataFrame, is_labelled: bool) -> None:
    assert labels({"dependency-best": row})[0] == ("obj" if is_labelled else "other")


def test_the_best_heads_at_coreference_are_labelled_when_there_are_any() -> None:
    best = {
        "mention_type": ["all", "pronoun"],
        "candidates": "mentions",
        "layer": [2, 1],
        "head": 1,
        "direction": "mention-to-antecedent",
        "heldout_accuracy": 0.6,
        "heldout_low": 0.55,
        "head_match": 0.5,
        "count": 50,
        "chosen_in": 4,
        "folds": 8,
    }
    found = labels({"coreference-best": pd.DataFrame(best)})
    assert found == ["coreference of pronouns", "other", "coreference"]
    (notable,) = find_notable_heads("coreference", {"coreference-best": pd.DataFrame(best)})
    assert (notable.layer, notable.head) == (1, 0)
    for change in ({"head_match": 0.7}, {"head_match": 0.56}, {"count": 49}, {"chosen_in": 3}):
        unsure = pd.DataFrame({**best, **change})
        assert labels({"coreference-best": unsure}) == ["other"] * 3
        assert not find_notable_heads("coreference", {"coreference-best": unsure})


def test_token_classes_of_the_user_are_behaviours_of_their_own() -> None:
    table = pd.concat(
        [
            weights(target, *values, source="all")
            for target, values in {"they {}": (0.7, 0.1, 0.2), "sep": (0.1, 0.9, 0.1)}.items()
        ]
    )
    tables = {"special-tokens": table}
    assert labels(tables) == ["token class they {}", "closing tokens (sep)", "other"]
    measured = behaviour_table(tables)
    assert set(measured["behaviour"]) == {"token class they {}", "closing tokens (sep)"}
    (first, *_) = cards_of_kind(tables)
    assert first.summary == "looks at your token class they {} (70 %)"


def test_special_tokens_together_have_a_threshold_of_their_own_and_are_named_last() -> None:
    tables = {
        "special-tokens-heads": HEADS.assign(weight=[0.55, 0.45, 0.9], low=0.0, high=1.0),
        "dependency-best": best("det", 1, 1, 0.001),
    }
    assert labels(tables) == ["det; special and punctuation", "other", "special and punctuation"]
    assert labels(tables, special_together=0.4)[1] == "special and punctuation"


def test_thresholds_are_options() -> None:
    tables = {"position": weights("next", 0.9, 0.45, 0.1)}
    assert labels(tables) == ["next token", "other", "other"]
    assert labels(tables, position=0.4) == ["next token", "next token", "other"]


@pytest.mark.parametrize(("name", "value"), [("position", 1.5), ("special_token", 0), ("broad", 5)])
def test_a_threshold_that_no_head_or_every_head_passes_is_refused(name: str, value: float) -> None:
    (threshold,) = (one for one in list_thresholds() if one.name == name)
    with pytest.raises(StudyError, match=f"{name}={value} cannot be used. Expected a number"):
        threshold.as_share({name: value})


def test_every_threshold_stands_once_with_the_value_of_the_paper() -> None:
    found = {one.name: one.default for one in list_thresholds()}
    assert found == {
        "position": 0.5,
        "special_token": 0.6,
        "special_together": 0.5,
        "broad": 3.8,
        "monotone": 0.5,
        "induction": 0.5,
        "far_away": 0.5,
        "retrieval": 0.1,
    }


def test_kinds_are_few_and_what_is_no_other_is_a_relation() -> None:
    assert find_kind("next token").name == "the next token"
    assert find_kind("token class pronouns").name == "token classes of yours"
    assert find_kind("dobj").name == "a syntactic relation"
    assert find_kind("coreference").name == "an antecedent (coreference)"
    assert [kind.name for kind in list_kinds()] == [
        "the previous token",
        "the next token",
        "itself",
        "the opening or first token",
        "the closing token",
        "no token (learned sink)",
        "periods and commas",
        "token classes of yours",
        "special and punctuation",
        "everything, broadly",
        "an earlier occurrence of the token",
        "a fact that is asked for",
        "far away",
        "the source in order or backwards",
        "a syntactic relation",
        "an antecedent (coreference)",
        "other",
    ]


def test_the_shape_of_every_kind_is_seen_when_it_is_filled() -> None:
    """Vega draws "stroke" as a line, which has no inside: heads of that kind would be missing."""
    filled = {"circle", "square", "cross", "diamond", "arrow", "wedge"}
    filled |= {f"triangle-{side}" for side in ("up", "down", "left", "right")}
    assert {kind.shape for kind in list_kinds()} <= filled
